"""What the state dict of a ``linformer_roberta`` says of the model's shape."""

import re
from typing import Dict, List, Optional, Tuple

from torch import Tensor

from ..config import POOLS
from ..projected_dim import Dim

ENCODER = "encoder.sentence_encoder."
ATTENTION_HEADS = "encoder.attention_heads"
"""A buffer with the number of heads, which no shape tells."""
EMBEDDINGS = ENCODER + "embed_tokens.weight"
POSITIONS = ENCODER + "embed_positions.weight"
CLASSIFICATION_HEADS = "classification_heads."
PADDING_IDX = 1
"""What every dictionary of fairseq pads with."""
# An entry of E or F, of all layers or of one, of all heads or of one.
_PROJECTION = re.compile(re.escape(ENCODER) + r"(?:layers\.\d+\.self_attn\.)?[EF]\.(?:heads\.\d+\.)?(\w+)")
_COUNTS = {"mean_pool": "mean-pool", "max_pool": "max-pool", "conv": "conv", "random": "random"}
"""Buffers of shape (k, 0), named after the kind."""


def projections(state: Dict[str, Tensor]) -> Dict[str, Dict[str, Tensor]]:
    """The entries of each projection, by the prefix that they have in the state dict."""
    found: Dict[str, Dict[str, Tensor]] = {}
    for key, value in state.items():
        match = _PROJECTION.fullmatch(key)
        if match:
            found.setdefault(key.removesuffix(match[1]), {})[match[1]] = value
    return found


def head_names(state: Dict[str, Tensor]) -> List[str]:
    """The classification heads, in their order."""
    return list(dict.fromkeys(key.split(".")[1] for key in state if key.startswith(CLASSIFICATION_HEADS)))


def layer_of(prefix: str) -> int:
    """The layer of a projection; 0 of the one that all share."""
    match = re.search(r"\.layers\.(\d+)\.", prefix)
    return int(match[1]) if match else 0


def by_module(found: Dict[str, Dict[str, Tensor]]) -> Dict[str, List[Dict[str, Tensor]]]:
    """``projections`` with those of one for each head gathered: prefix of the module, entries of its
    heads in order."""
    modules: Dict[str, Dict[int, Dict[str, Tensor]]] = {}
    for prefix, entries in found.items():
        module, _, head = prefix.partition("heads.")
        modules.setdefault(module, {})[int(head[:-1] or 0)] = entries
    return {module: [heads[i] for i in sorted(heads)] for module, heads in modules.items()}


def count_layers(state: Dict[str, Tensor]) -> int:
    """Encoder layers."""
    return len({m[1] for m in (re.match(re.escape(ENCODER) + r"layers\.(\d+)\.", key) for key in state) if m})


def max_positions(state: Dict[str, Tensor]) -> int:
    """n. Behind the row of padding, position embeddings start."""
    return state[POSITIONS].size(0) - PADDING_IDX - 1


def kind_and_k(entries: Dict[str, Tensor]) -> Tuple[str, int]:
    """Of one projection, from its entries."""
    for name, kind in _COUNTS.items():
        if name in entries:
            return kind, entries[name].size(0)
    return "linear", entries["weight"].size(-2)


def kind_of(state: Dict[str, Tensor]) -> Optional[str]:
    """``projection`` of the model; None without projections."""
    return next((kind_and_k(entries)[0] for entries in projections(state).values()), None)


def sharing_of(state: Dict[str, Tensor]) -> Optional[str]:
    """Which sharing a state dict was made with; None if it does not show (pools, or no projections)."""
    found = projections(state)
    if kind_of(state) in POOLS:
        return None
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
    modules = by_module(projections(state))
    dims: List[Dim] = []
    for layer in range(count_layers(state)):
        shared = modules.get(ENCODER + "E.")
        k = tuple(kind_and_k(entries)[1] for entries in shared or modules[f"{ENCODER}layers.{layer}.self_attn.E."])
        dims.append(k if len(k) > 1 else k[0])
    return dims


def current_names(state: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """The state dict with the names of fairseq 0.12, as its own models read older ones: roberta.base and
    roberta.large call the encoder ``decoder``, and have queries, keys and values in one matrix."""
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
