"""Conversion of any fairseq RoBERTa to a Linformer: all its weights, plus E and F."""

from collections.abc import Mapping
from typing import Any

from ..models.authors_plugin import is_authors_state_dict
from ..models.options import LinformerRobertaConfig, collect_options
from ..models.shapes import (
    ENCODER,
    POSITIONS,
    count_layers,
    fit_state_dict,
    has_projections,
    max_positions,
    upgrade_names,
)
from .files import get_cfg_section, replace_model, resolve_model


def from_roberta(checkpoint: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Convert a checkpoint of ``roberta`` to ``linformer_roberta``; the original is unchanged.

    Weights and dictionary are RoBERTa's. Linear E and F are ``graded`` by default: inputs of at most k / 2 tokens keep
    their features. With k = n, all inputs do.

    Args:
        checkpoint: from ``read_checkpoint``.
        options: options of ``linformer_roberta``, such as ``projected_dim`` and ``sharing``; ``max_positions`` also
            changes n.

    Returns:
        A checkpoint to continue from with ``--finetune-from-model``.

    Raises:
        ValueError: the checkpoint is not a RoBERTa, or an option is not allowed.
    """
    state = upgrade_names(checkpoint["model"])
    if has_projections(state) or is_authors_state_dict(state):
        raise ValueError("the checkpoint is already a Linformer; expected a RoBERTa")
    old = get_cfg_section(checkpoint, "model")
    if POSITIONS not in state or "encoder_attention_heads" not in old:
        raise ValueError("the checkpoint is not a fairseq RoBERTa")
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
    model["projection_init"] = converted_init(model)
    args, config = resolve_model(model, state)
    state.pop(ENCODER + "version", None)
    return replace_model(checkpoint, fit_state_dict(state, config), {"_name": args.arch, **collect_options(args)})


def converted_init(options: Mapping[str, Any]) -> str | None:
    """``projection_init`` of a conversion with these options: linear E and F are ``graded`` by default."""
    is_linear = (options.get("projection") or "linear") == "linear"
    chosen: str | None = options.get("projection_init")
    return chosen or ("graded" if is_linear else None)
