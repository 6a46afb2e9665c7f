"""Whether a checkpoint fits a model, said in one sentence."""

import re
from typing import Dict, Optional

from torch import Tensor

_ENCODER = "encoder.sentence_encoder."


def count_layers(state: Dict[str, Tensor]) -> int:
    """Encoder layers in a state dict."""
    return len({m[1] for m in (re.match(r"encoder\.sentence_encoder\.layers\.(\d+)\.", k) for k in state) if m})


def sharing_of(state: Dict[str, Tensor]) -> Optional[str]:
    """Which sharing a state dict was made with; None if it has no projections."""
    if _ENCODER + "E.weight" in state:
        return "layerwise"
    E = state.get(_ENCODER + "layers.0.self_attn.E.weight")
    if E is None:
        return None
    if E.dim() == 3:
        return "none"
    return "headwise" if _ENCODER + "layers.0.self_attn.F.weight" in state else "key-value"


def describe_mismatch(model: Dict[str, Tensor], checkpoint: Dict[str, Tensor]) -> Optional[str]:
    """Why the checkpoint does not fit the model, the most telling reason first; None if it does.

    Classification heads are not looked at: fairseq adds and drops those itself.
    """
    if sharing_of(checkpoint) is None:
        return "the checkpoint has no projections E and F: it was not made by linformer_roberta"
    checks = (
        ("dictionary entries", "embed_tokens.weight", 0, 0),
        ("encoder_embed_dim", "embed_tokens.weight", 1, 0),
        # padding_idx + 1 = 2 rows stand before the first position.
        ("max_positions", "embed_positions.weight", 0, -2),
    )
    differing = [
        (what, checkpoint[_ENCODER + key].size(dim) + offset, model[_ENCODER + key].size(dim) + offset)
        for what, key, dim, offset in checks
        if _ENCODER + key in checkpoint
    ]
    differing += [
        ("encoder_layers", count_layers(checkpoint), count_layers(model)),
        ("sharing", sharing_of(checkpoint), sharing_of(model)),
        ("projected_dim", _projected_dim(checkpoint), _projected_dim(model)),
    ]
    for what, theirs, ours in differing:
        if theirs != ours:
            return f"the checkpoint was made with {what} {theirs}, this model has {ours}; they must be equal"
    for key, value in model.items():
        if key in checkpoint and value.shape != checkpoint[key].shape and "classification_heads" not in key:
            return (
                f"{key} is {tuple(checkpoint[key].shape)} in the checkpoint and {tuple(value.shape)} in "
                "this model; they must be equal"
            )
    return None


def _projected_dim(state: Dict[str, Tensor]) -> int:
    key = "E.weight" if _ENCODER + "E.weight" in state else "layers.0.self_attn.E.weight"
    return state[_ENCODER + key].size(-2)
