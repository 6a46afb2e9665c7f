"""Names in the state dict of a model, and what their shapes say."""

import re

from torch import Tensor

ENCODER = "encoder.sentence_encoder."
EMBEDDINGS = ENCODER + "embed_tokens.weight"
POSITIONS = ENCODER + "embed_positions.weight"
OUTPUT_EMBEDDINGS = "encoder.lm_head.weight"
CLASSIFICATION_HEADS = "classification_heads."
PADDING_IDX = 1
"""Token ID of padding in fairseq's dictionaries."""

OLD_BUFFERS = ("encoder.attention_heads", "encoder.local_window", "encoder.log10_layer_norm_eps")
"""Buffers that recorded options before 0.3; the configuration of a checkpoint has them."""

_PROJECTION = re.compile(re.escape(ENCODER) + r"(?:layers\.\d+\.self_attn\.)?[EF]\.")
_LAYER = re.compile(re.escape(ENCODER) + r"layers\.(\d+)\.")


def has_projections(state: dict[str, Tensor]) -> bool:
    """Whether a state dict has projections E and F."""
    return any(map(is_projection_entry, state))


def is_projection_entry(key: str) -> bool:
    """Whether a key of a state dict belongs to E or F."""
    return _PROJECTION.match(key) is not None


def head_names(state: dict[str, Tensor]) -> list[str]:
    """Names of the classification heads, in order."""
    return list(dict.fromkeys(key.split(".")[1] for key in state if key.startswith(CLASSIFICATION_HEADS)))


def choose_head(state: dict[str, Tensor], requested: str | None, checkpoint) -> str | None:
    """The requested classification head, or the only one; None if there is none and none is requested.

    Args:
        checkpoint: path of the checkpoint, for messages.
    """
    names = head_names(state)
    if requested is None and len(names) > 1:
        raise ValueError(f"{checkpoint} has several classification heads; choose with --head from {', '.join(names)}")
    if requested is not None and requested not in names:
        known = f"choose from {', '.join(names)}" if names else "it has no classification head"
        raise ValueError(f"unknown --head {requested!r} of {checkpoint}; {known}")
    return requested or (names[0] if names else None)


def count_layers(state: dict[str, Tensor]) -> int:
    """Number of encoder layers."""
    return len({match[1] for match in map(_LAYER.match, state) if match})


def max_positions(state: dict[str, Tensor]) -> int:
    """n; real position embeddings start after the padding row."""
    return state[POSITIONS].size(0) - PADDING_IDX - 1


def upgrade_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the entries of an older state dict to those of fairseq 0.12, as its own models do, and drop
    ``OLD_BUFFERS``.

    roberta.base and roberta.large name the encoder ``decoder``, and hold queries, keys and values in one matrix.
    """
    new = {}
    for key, value in state.items():
        if key in OLD_BUFFERS:
            continue
        key = re.sub(r"^decoder\.", "encoder.", key).replace(".emb_layer_norm.", ".layernorm_embedding.")
        joint = re.fullmatch(r"(.*\.self_attn\.)in_proj_(weight|bias)", key)
        if joint is None:
            new[key] = value
        else:
            for name, part in zip("qkv", value.chunk(3)):
                new[f"{joint[1]}{name}_proj.{joint[2]}"] = part.clone()
    return new
