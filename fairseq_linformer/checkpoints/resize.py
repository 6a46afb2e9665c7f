"""Resizing of checkpoints to another n or k; the mathematics is in ``modules/resize.py``."""

from typing import Any

from ..models.shapes import (
    PADDING_IDX,
    POSITIONS,
    count_layers,
    fit_state_dict,
    has_projections,
    max_positions,
    scale_projected_dims,
    upgrade_names,
)
from ..modules.resize import resize_positions
from ..projected_dim import format_projected_dim, parse_projected_dim
from .authors import from_authors
from .files import get_cfg_section, replace_model, resolve_model


def resize(checkpoint: dict[str, Any], n: int | None = None, projected_dim: Any = None) -> dict[str, Any]:
    """Resize a checkpoint to another n or k; the original is unchanged.

    Args:
        checkpoint: from ``read_checkpoint``; of ``roberta`` only without ``projected_dim``.
        n: new ``max_positions``; None to keep it.
        projected_dim: new k, in any notation; None for the k that preserves the features of short inputs: with windows
            the one that keeps their length, without windows the old k.

    Returns:
        A checkpoint to continue from with ``--finetune-from-model``.

    Raises:
        ValueError: neither is set, or they do not fit the model.
    """
    if n is None and projected_dim is None:
        raise ValueError("max_positions or projected_dim must be set, got neither")
    checkpoint = from_authors(checkpoint)
    options, state = get_cfg_section(checkpoint, "model"), upgrade_names(checkpoint["model"])
    old_n = max_positions(state)
    options["max_positions"] = n = old_n if n is None else n
    if not has_projections(state):
        if projected_dim is not None:
            raise ValueError(
                "projected_dim must be unset for RoBERTa, which has no projections (`fairseq-linformer convert "
                f"from-roberta` adds them), got {projected_dim}"
            )
        state[POSITIONS] = resize_positions(state[POSITIONS], n, PADDING_IDX)
        return replace_model(checkpoint, state, options)
    _, old_config = resolve_model({**options, "max_positions": old_n}, state)
    if projected_dim is None:
        dims = scale_projected_dims(state, old_config, n)
    else:
        dims = parse_projected_dim(projected_dim, count_layers(state), options["encoder_attention_heads"])
    options["projected_dim"] = format_projected_dim(dims)
    _, config = resolve_model(options, state)
    return replace_model(checkpoint, fit_state_dict(state, config, old_config), options)
