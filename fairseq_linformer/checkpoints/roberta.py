"""A Linformer from any fairseq RoBERTa: all its weights, with E and F beside them."""

from typing import Any, Dict

from ..models.authors import is_authors
from ..models.options import LinformerRobertaConfig, as_options
from ..models.resize import with_projections
from ..models.shapes import ENCODER, POSITIONS, count_layers, current_names, max_positions, projections
from .files import derived, node, resolved


def from_roberta(checkpoint: Dict[str, Any], **options: Any) -> Dict[str, Any]:
    """A checkpoint of ``linformer_roberta`` made of one of ``roberta``; the old one is not changed.

    Weights and dictionary are those of RoBERTa. E and F start as a new model's do. As window averages with k = n this
    is RoBERTa itself; with k = n / 2 its keys and values are averaged in pairs.

    Args:
        checkpoint: what ``read_checkpoint`` returns.
        options: of ``linformer_roberta``: ``projected_dim``, ``sharing``, ``projection``, ``projection_init``, ...;
            ``max_positions`` for another length.

    Returns:
        the checkpoint, to be trained on with ``--finetune-from-model``.

    Raises:
        ValueError: this is a Linformer already, or the options do not fit.
    """
    state = current_names(checkpoint["model"])
    if projections(state) or is_authors(state):
        raise ValueError("this is a checkpoint of a Linformer already; it must be of a RoBERTa")
    old = node(checkpoint, "model")
    if POSITIONS not in state or "encoder_attention_heads" not in old:
        raise ValueError("this is not a checkpoint of fairseq's RoBERTa")
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
    args, config = resolved(model, state)
    state.pop(ENCODER + "version", None)
    return derived(checkpoint, with_projections(state, config), {"_name": args.arch, **as_options(args)})
