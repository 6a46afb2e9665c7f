"""Shape of a model, inferred from its state dict."""

import math
import re
from typing import Any

import torch
from torch import Tensor

from ..config import POOLS, LinformerConfig
from ..projected_dim import Dim, format_projected_dim

ENCODER = "encoder.sentence_encoder."
ATTENTION_HEADS, LOCAL_WINDOW, NORM_EPSILON = OPTION_BUFFERS = (
    "encoder.attention_heads",
    "encoder.local_window",
    "encoder.log10_layer_norm_eps",
)
"""Buffers that record the options that tensor shapes do not determine. Epsilon is stored as a logarithm, because
1e-12 is 0 in half precision."""
EMBEDDINGS = ENCODER + "embed_tokens.weight"
POSITIONS = ENCODER + "embed_positions.weight"
OUTPUT_EMBEDDINGS = "encoder.lm_head.weight"
CLASSIFICATION_HEADS = "classification_heads."
PADDING_IDX = 1
"""Token ID of padding in fairseq's dictionaries."""

# An entry of E or F, of one layer or all, of one head or all.
_PROJECTION = re.compile(re.escape(ENCODER) + r"(?:layers\.\d+\.self_attn\.)?[EF]\.(?:heads\.\d+\.)?(\w+)")
_LAYER = re.compile(re.escape(ENCODER) + r"layers\.(\d+)\.")
_KIND_BUFFERS = {"mean_pool": "mean-pool", "max_pool": "max-pool", "conv": "conv", "random": "random"}
"""Buffer of shape (k, 0) -> kind of projection."""


def group_projections(state: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Entries of each projection by prefix in the state dict; empty for a model without projections."""
    groups: dict[str, dict[str, Tensor]] = {}
    for key, value in state.items():
        match = _PROJECTION.fullmatch(key)
        if match:
            groups.setdefault(key.removesuffix(match[1]), {})[match[1]] = value
    return groups


def is_projection_entry(key: str) -> bool:
    """Whether a key of a state dict belongs to E or F."""
    return _PROJECTION.fullmatch(key) is not None


def stored_matrix(entries: dict[str, Tensor]) -> Tensor:
    """The entry of a learned or random projection that has the shape of E (see ``LearnedProjection``)."""
    return entries["delta"] if "delta" in entries else entries["weight"]


def head_names(state: dict[str, Tensor]) -> list[str]:
    """Names of the classification heads, in order."""
    return list(dict.fromkeys(key.split(".")[1] for key in state if key.startswith(CLASSIFICATION_HEADS)))


def choose_head(state: dict[str, Tensor], requested: str | None, checkpoint) -> str | None:
    """The requested classification head, or the only one; None if there is none and none is requested.

    Args:
        checkpoint: path of the checkpoint, for messages.

    Raises:
        ValueError: the head does not exist, or none is requested of several.
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


def record_options(config: LinformerConfig) -> dict[str, Tensor]:
    """The entries of a state dict that record the options which tensor shapes do not determine."""
    return {
        ATTENTION_HEADS: torch.tensor(float(config.attention_heads)),
        LOCAL_WINDOW: torch.tensor(float(config.local_window)),
        NORM_EPSILON: record_epsilon(config.layer_norm_eps),
    }


def record_epsilon(epsilon: float) -> Tensor:
    """The value of the buffer ``NORM_EPSILON``."""
    return torch.tensor(math.log10(epsilon))


def infer_config(state: dict[str, Tensor], default: LinformerConfig | None = None) -> LinformerConfig:
    """Infer the shape of a Linformer from its tensors; other fields, such as dropout, have their defaults.

    Pooling, which has nothing to share, has sharing ``none``.

    Args:
        default: values for an older state dict, which does not record ``OPTION_BUFFERS``.
    """
    by_module: dict[str, list[dict[str, Tensor]]] = {}  # one item, or one per head
    for prefix, entries in group_projections(state).items():
        by_module.setdefault(prefix.partition("heads.")[0], []).append(entries)
    layers = count_layers(state)
    shared = by_module.get(ENCODER + "E.")
    layer_entries = [shared or by_module[f"{ENCODER}layers.{i}.self_attn.E."] for i in range(layers)]
    first = layer_entries[0]
    kind = next((kind for buffer, kind in _KIND_BUFFERS.items() if buffer in first[0]), "linear")
    if kind in POOLS or len(first) > 1 or stored_matrix(first[0]).dim() == 3:
        sharing = "none"
    elif shared:
        sharing = "layerwise"
    else:
        sharing = "headwise" if f"{ENCODER}layers.0.self_attn.F." in by_module else "key-value"
    options: dict[str, Any] = {
        "attention_heads": max(default.attention_heads if default else 1, max(map(len, layer_entries))),
        "local_window": default.local_window if default else 0,
        "layer_norm_eps": default.layer_norm_eps if default else LinformerConfig.layer_norm_eps,
    }
    if ATTENTION_HEADS in state:
        options["attention_heads"] = int(state[ATTENTION_HEADS])
    if LOCAL_WINDOW in state:
        options["local_window"] = int(state[LOCAL_WINDOW])
    if NORM_EPSILON in state:  # one digit: bfloat16 stores the logarithm to about 0.03
        options["layer_norm_eps"] = float(f"{10 ** float(state[NORM_EPSILON]):.1g}")
    return LinformerConfig(
        vocab_size=state[EMBEDDINGS].size(0),
        max_positions=max_positions(state),
        projected_dim=format_projected_dim([_projected_dim(entries) for entries in layer_entries]),
        sharing=sharing,
        projection=kind,
        layers=layers,
        embed_dim=state[EMBEDDINGS].size(1),
        padding_idx=PADDING_IDX,
        **options,
    )


def _projected_dim(head_entries: list[dict[str, Tensor]]) -> Dim:
    """k of one module, or of each of its heads."""
    dims = []
    for entries in head_entries:
        buffer = next((entries[name] for name in _KIND_BUFFERS if name in entries), None)
        dims.append(stored_matrix(entries).size(-2) if buffer is None else buffer.size(0))
    return tuple(dims) if len(dims) > 1 else dims[0]


def upgrade_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the entries of an older state dict to those of fairseq 0.12, as its own models do.

    roberta.base and roberta.large name the encoder ``decoder``, and hold queries, keys and values in one matrix.
    """
    new = {}
    for key, value in state.items():
        key = re.sub(r"^decoder\.", "encoder.", key).replace(".emb_layer_norm.", ".layernorm_embedding.")
        joint = re.fullmatch(r"(.*\.self_attn\.)in_proj_(weight|bias)", key)
        if joint is None:
            new[key] = value
        else:
            for name, part in zip("qkv", value.chunk(3)):
                new[f"{joint[1]}{name}_proj.{joint[2]}"] = part.clone()
    return new
