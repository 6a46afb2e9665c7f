"""A checkpoint of the authors' plugin as one of ``linformer_roberta``."""

from argparse import Namespace
from dataclasses import fields
from typing import Any, Dict

from ..models import authors
from ..models.options import LinformerRobertaConfig, resolve, to_linformer_config
from ..models.shapes import EMBEDDINGS, max_positions, sharing_of
from .files import derived, node
from .projections import with_projections

PADDING_IDX = 1
"""What every dictionary of fairseq pads with."""


def modern(checkpoint: Dict[str, Any]) -> Dict[str, Any]:
    """A checkpoint of ``linformer_roberta``: the one that is given, or if it is the authors', made of it.

    Raises:
        ValueError: it is of another model.
    """
    if not authors.is_authors(checkpoint["model"]):
        return checkpoint
    state, old, untied = authors.convert(checkpoint["model"])
    n = max_positions(state)
    args = resolve(Namespace(**{**node(checkpoint, "model"), "max_positions": n}), None)
    if old:  # version 1 did not share what its options say
        args.sharing = sharing_of(state)
    args.untie_weights_roberta = args.untie_weights_roberta or untied
    # What is loaded has no windows, and does not start anew.
    config = to_linformer_config(args, state[EMBEDDINGS].size(0), PADDING_IDX)
    options = {f.name: getattr(args, f.name) for f in fields(LinformerRobertaConfig) if not f.name.startswith("_")}
    return derived(checkpoint, with_projections(state, config), {"_name": args.arch, **options}, n)
