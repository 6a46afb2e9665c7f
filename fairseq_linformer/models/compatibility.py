"""Whether a checkpoint fits a model, said in one sentence."""

import re
from typing import Dict, Optional

import torch
from torch import Tensor

_ENCODER = "encoder.sentence_encoder."
HEADS = "encoder.attention_heads"
"""A buffer with the number of heads, which no shape tells."""


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


def describe_mismatch(model: Dict[str, Tensor], checkpoint: Dict[str, Tensor], tied: bool) -> Optional[str]:
    """Why the checkpoint does not fit the model, the most telling reason first; None if it does.

    Classification heads are not looked at: fairseq adds and drops those itself.

    Args:
        model: state dict of the model.
        checkpoint: state dict to load.
        tied: the model uses its input embeddings as output embeddings.
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
        ("encoder_attention_heads", int(checkpoint.get(HEADS, model[HEADS])), int(model[HEADS])),
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
    for these, those, what in ((checkpoint, model, "the checkpoint has {}, this model has not"),
                               (model, checkpoint, "this model has {}, the checkpoint has not")):  # fmt: skip
        alone = sorted(key for key in these if key not in those and not _may_be_missing(key))
        if alone:
            return what.format(alone[0]) + "; options such as pre-norm or quantisation noise must be those of the checkpoint"
    output, embedding = (checkpoint.get(key) for key in ("encoder.lm_head.weight", _ENCODER + "embed_tokens.weight"))
    if tied and output is not None and embedding is not None and not torch.equal(output, embedding):
        return "the checkpoint was made with untie_weights_roberta, this model without; they must be equal"
    return None


def _may_be_missing(key: str) -> bool:
    """Heads come and go; a projection without a scale is a plain matrix; old checkpoints count no heads."""
    return key.startswith("classification_heads.") or key.endswith(".scale") or key == HEADS


def _projected_dim(state: Dict[str, Tensor]) -> int:
    key = "E.weight" if _ENCODER + "E.weight" in state else "layers.0.self_attn.E.weight"
    return state[_ENCODER + key].size(-2)
