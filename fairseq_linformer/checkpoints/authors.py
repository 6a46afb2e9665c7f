"""A checkpoint of the authors' plugin as one of ``linformer_roberta``."""

from argparse import Namespace
from typing import Any, Dict

from ..models import authors
from ..models.options import as_options, resolve, to_linformer_config
from ..models.shapes import EMBEDDINGS, PADDING_IDX, max_positions, sharing_of
from .files import derived, node
from .projections import with_projections


def from_authors(checkpoint: Dict[str, Any]) -> Dict[str, Any]:
    """A checkpoint of ``linformer_roberta`` made of one of the authors' model; any other is returned as it is.

    Raises:
        ValueError: its options cannot be translated.
    """
    if not authors.is_authors(checkpoint["model"]):
        return checkpoint
    state, old, untied = authors.convert(checkpoint["model"])
    n = max_positions(state)
    args = resolve(Namespace(**{**node(checkpoint, "model"), "max_positions": n}), None)
    if old:  # version 1 did not share what its options say
        args.sharing = sharing_of(state)
    args.untie_weights_roberta = args.untie_weights_roberta or untied
    config = to_linformer_config(args, state[EMBEDDINGS].size(0), PADDING_IDX)
    # Their matrices are no windows; a new model of these options, finetuned from scratch, is to be of the same kind.
    return derived(
        checkpoint,
        with_projections(state, config),
        {"_name": args.arch, **as_options(args), "projection_init": "normal"},
        n,
    )
