"""A Linformer from any fairseq RoBERTa: all its weights, with E and F beside them."""

from argparse import Namespace
from typing import Any, Dict

from ..models.authors import is_authors
from ..models.options import LinformerRobertaConfig, as_options, resolve, to_linformer_config
from ..models.resize import resize_state
from ..models.shapes import (
    EMBEDDINGS,
    ENCODER,
    PADDING_IDX,
    POSITIONS,
    count_layers,
    current_names,
    max_positions,
    projections,
)
from .files import derived, node
from .projections import with_projections


def from_roberta(checkpoint: Dict[str, Any], **options: Any) -> Dict[str, Any]:
    """A checkpoint of ``linformer_roberta`` made of one of ``roberta``; the old one is not changed.

    Weights and dictionary are those of RoBERTa. E and F start as a new model's do. As window
    averages with k = n this is RoBERTa itself; with k = n / 2 its keys and values are averaged in
    pairs.

    Args:
        checkpoint: what ``read_checkpoint`` gives.
        options: of ``linformer_roberta``: ``projected_dim``, ``sharing``, ``projection``,
            ``projection_init``, ...; ``max_positions`` for another length.

    Returns:
        the checkpoint, to be trained on with ``--finetune-from-model``.

    Raises:
        ValueError: this is a Linformer already, or the options do not fit.
    """
    state = current_names(checkpoint["model"])
    if projections(state) or is_authors(state):
        raise ValueError("this is a checkpoint of a Linformer already; a RoBERTa is wanted")
    old = node(checkpoint, "model")
    if POSITIONS not in state or "encoder_attention_heads" not in old:
        raise ValueError("this is no checkpoint of fairseq's RoBERTa")
    known = LinformerRobertaConfig.__dataclass_fields__
    model = {key: value for key, value in old.items() if key in known and not key.startswith("_")}
    model.update(
        _name="linformer_roberta",
        encoder_layers=count_layers(state),
        encoder_embed_dim=state[POSITIONS].size(1),
        max_positions=max_positions(state),
        layernorm_embedding=ENCODER + "layernorm_embedding.weight" in state,
        encoder_layers_to_keep=None,
    )
    model.update({key: value for key, value in options.items() if value is not None})
    args = resolve(Namespace(**model), None)
    config = to_linformer_config(args, state[EMBEDDINGS].size(0), PADDING_IDX)

    n = args.max_positions
    state = resize_state(state, n)
    state.pop(ENCODER + "version", None)
    return derived(checkpoint, with_projections(state, config), {"_name": args.arch, **as_options(args)}, n)
