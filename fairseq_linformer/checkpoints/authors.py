"""A checkpoint of the authors' plugin as one of ``linformer_roberta``."""

from dataclasses import replace
from typing import Any, Dict

from ..models import authors
from ..models.options import as_options
from ..models.resize import with_projections
from ..models.shapes import max_positions, shape_of
from .files import derived, node, resolved


def from_authors(checkpoint: Dict[str, Any]) -> Dict[str, Any]:
    """A checkpoint of ``linformer_roberta`` made of one of the authors' model; any other is returned as it is.

    Raises:
        ValueError: its options cannot be translated.
    """
    if not authors.is_authors(checkpoint["model"]):
        return checkpoint
    state, old, untied = authors.convert(checkpoint["model"])
    args, config = resolved({**node(checkpoint, "model"), "max_positions": max_positions(state)}, state)
    if old:  # version 1 did not share what its options say
        args.sharing = shape_of(state).sharing
        config = replace(config, sharing=args.sharing)
    args.untie_weights_roberta = args.untie_weights_roberta or untied
    # Their matrices have no windows; a new model of these options, finetuned from scratch, must be of the same kind.
    options = {"_name": args.arch, **as_options(args), "projection_init": "normal"}
    return derived(checkpoint, with_projections(state, config), options)
