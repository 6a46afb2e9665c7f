"""What the state dict of a ``linformer_roberta`` says of the model's shape."""

import re
from typing import Dict, List, Optional, Tuple

from torch import Tensor

from ..projected_dim import Dim

ENCODER = "encoder.sentence_encoder."
HEADS = "encoder.attention_heads"
"""A buffer with the number of heads, which no shape tells."""
EMBEDDINGS = ENCODER + "embed_tokens.weight"
POSITIONS = ENCODER + "embed_positions.weight"
# A projection: E or F, of all layers or of one, of all heads or of one.
_PROJECTION = re.compile(
    re.escape(ENCODER) + r"(?:layers\.(?P<layer>\d+)\.self_attn\.)?(?P<which>[EF])\.(?:heads\.(?P<head>\d+)\.)?(?P<entry>\w+)"
)
_COUNTS = {"mean_pool": "mean-pool", "max_pool": "max-pool", "conv": "conv", "random": "random"}
"""Buffers that hold k and are named after the kind."""


def projections(state: Dict[str, Tensor]) -> Dict[str, Dict[str, Tensor]]:
    """The entries of each projection, by the prefix that they have in the state dict."""
    found: Dict[str, Dict[str, Tensor]] = {}
    for key, value in state.items():
        match = _PROJECTION.fullmatch(key)
        if match:
            found.setdefault(key.removesuffix(match["entry"]), {})[match["entry"]] = value
    return found


def count_layers(state: Dict[str, Tensor]) -> int:
    """Encoder layers."""
    return len({m[1] for m in (re.match(re.escape(ENCODER) + r"layers\.(\d+)\.", key) for key in state) if m})


def max_positions(state: Dict[str, Tensor], padding_idx: int = 1) -> int:
    """n. Behind the row of padding, position embeddings start."""
    return state[POSITIONS].size(0) - padding_idx - 1


def kind_and_k(entries: Dict[str, Tensor]) -> Tuple[str, int]:
    """Of one projection, from its entries."""
    for name, kind in _COUNTS.items():
        if name in entries:
            return kind, int(entries[name])
    return "linear", entries["weight"].size(-2)


def kind_of(state: Dict[str, Tensor]) -> Optional[str]:
    """``projection`` of the model; None without projections."""
    return next((kind_and_k(entries)[0] for entries in projections(state).values()), None)


def sharing_of(state: Dict[str, Tensor]) -> Optional[str]:
    """Which sharing a state dict was made with; None if it does not show (pools, or no projections)."""
    found = projections(state)
    if ENCODER + "E." in found:
        return "layerwise"
    first = ENCODER + "layers.0.self_attn."
    if any(prefix.startswith(first + "E.heads.") for prefix in found):
        return "none"
    weight = found.get(first + "E.", {}).get("weight")
    if weight is None:
        return None
    if weight.dim() == 3:
        return "none"
    return "headwise" if first + "F." in found else "key-value"


def projected_dims(state: Dict[str, Tensor]) -> List[Dim]:
    """k of each layer, or of its heads where they differ."""
    found = projections(state)
    if ENCODER + "E." in found:
        return [kind_and_k(found[ENCODER + "E."])[1]] * count_layers(state)
    dims: List[Dim] = []
    for layer in range(count_layers(state)):
        prefix = f"{ENCODER}layers.{layer}.self_attn.E."
        if prefix in found:
            dims.append(kind_and_k(found[prefix])[1])
        else:
            heads = [p for p in found if p.startswith(prefix + "heads.")]
            dims.append(tuple(kind_and_k(found[f"{prefix}heads.{i}."])[1] for i in range(len(heads))))
    return dims
