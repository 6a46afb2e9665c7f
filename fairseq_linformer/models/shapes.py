"""What a state dict says about the shape of its model."""

import re
from typing import Dict, List

from torch import Tensor

from ..config import POOLS, LinformerConfig
from ..projected_dim import short_form

ENCODER = "encoder.sentence_encoder."
ATTENTION_HEADS = "encoder.attention_heads"
"""A buffer with the number of heads, which no shape tells."""
EMBEDDINGS = ENCODER + "embed_tokens.weight"
POSITIONS = ENCODER + "embed_positions.weight"
OUTPUT_EMBEDDINGS = "encoder.lm_head.weight"
CLASSIFICATION_HEADS = "classification_heads."
PADDING_IDX = 1
"""What every dictionary of fairseq pads with."""

# An entry of E or F, of all layers or of one, of all heads or of one.
_PROJECTION = re.compile(re.escape(ENCODER) + r"(?:layers\.\d+\.self_attn\.)?[EF]\.(?:heads\.\d+\.)?(\w+)")
_LAYER = re.compile(re.escape(ENCODER) + r"layers\.(\d+)\.")
_COUNTS = {"mean_pool": "mean-pool", "max_pool": "max-pool", "conv": "conv", "random": "random"}
"""Buffers of shape (k, 0), named after the kind."""


def projections(state: Dict[str, Tensor]) -> Dict[str, Dict[str, Tensor]]:
    """The entries of each projection, by its prefix in the state dict."""
    found: Dict[str, Dict[str, Tensor]] = {}
    for key, value in state.items():
        match = _PROJECTION.fullmatch(key)
        if match:
            found.setdefault(key.removesuffix(match[1]), {})[match[1]] = value
    return found


def head_names(state: Dict[str, Tensor]) -> List[str]:
    """The classification heads, in their order."""
    return list(dict.fromkeys(key.split(".")[1] for key in state if key.startswith(CLASSIFICATION_HEADS)))


def count_layers(state: Dict[str, Tensor]) -> int:
    """Encoder layers."""
    return len({match[1] for match in map(_LAYER.match, state) if match})


def max_positions(state: Dict[str, Tensor]) -> int:
    """n. Position embeddings start after the row of padding."""
    return state[POSITIONS].size(0) - PADDING_IDX - 1


def shape_of(state: Dict[str, Tensor], attention_heads: int = 1) -> LinformerConfig:
    """The shape of the Linformer that a state dict belongs to, as far as its tensors tell.

    Dropout and the like are the defaults. A pool, which shares nothing, has sharing ``none``.

    Args:
        attention_heads: H, where the state dict is too old to tell.
    """
    by_module: Dict[str, List[Dict[str, Tensor]]] = {}  # one entry, or one for each head
    for prefix, entries in projections(state).items():
        by_module.setdefault(prefix.partition("heads.")[0], []).append(entries)
    layers = count_layers(state)
    shared = by_module.get(ENCODER + "E.")
    of_layers = [shared or by_module[f"{ENCODER}layers.{i}.self_attn.E."] for i in range(layers)]
    first = of_layers[0]
    kind = next((kind for buffer, kind in _COUNTS.items() if buffer in first[0]), "linear")
    if kind in POOLS or len(first) > 1 or first[0]["weight"].dim() == 3:
        sharing = "none"
    elif shared:
        sharing = "layerwise"
    else:
        sharing = "headwise" if f"{ENCODER}layers.0.self_attn.F." in by_module else "key-value"
    return LinformerConfig(
        vocab_size=state[EMBEDDINGS].size(0),
        max_positions=max_positions(state),
        projected_dim=short_form([_dim(entries) for entries in of_layers]),
        sharing=sharing,
        projection=kind,
        layers=layers,
        embed_dim=state[EMBEDDINGS].size(1),
        attention_heads=int(state.get(ATTENTION_HEADS, max(attention_heads, max(map(len, of_layers))))),
        padding_idx=PADDING_IDX,
    )


def _dim(of_heads: List[Dict[str, Tensor]]):
    """k of one module, or of each of its heads."""
    dims = []
    for entries in of_heads:
        count = next((entries[buffer] for buffer in _COUNTS if buffer in entries), None)
        dims.append(entries["weight"].size(-2) if count is None else count.size(0))
    return tuple(dims) if len(dims) > 1 else dims[0]


def current_names(state: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """The state dict with the names of fairseq 0.12, as its own models read older ones: roberta.base and roberta.large
    call the encoder ``decoder``, and have queries, keys and values in one matrix."""
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
