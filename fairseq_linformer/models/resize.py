"""A state dict for other lengths and another k; the mathematics is in ``modules/resize.py``."""

from typing import Dict, List, Optional, Sequence

import torch
from torch import Tensor

from ..modules.projection import value_of
from ..modules.projection import NO_WINDOWS
from ..modules.resize import resize_kernel, resize_matrix, resize_offset, resize_positions, same_ratio
from ..projected_dim import Dim
from .shapes import POSITIONS, by_module, kind_and_k, layer_of, max_positions, projected_dims, projections

_LEARNED = ("weight", "start", "scale")


def default_dims(state: Dict[str, Tensor], n: int) -> List[Dim]:
    """k of each layer for ``n`` positions that leaves the features of short inputs as they are."""
    windowed = all(kind_and_k(entries)[0] != "linear" or _offset(entries) is not None for entries in projections(state).values())

    def scaled(k: int) -> int:
        return same_ratio(k, max_positions(state), n, windowed)

    return [scaled(k) if isinstance(k, int) else tuple(scaled(k_i) for k_i in k) for k in projected_dims(state)]


def resize_state(state: Dict[str, Tensor], n: int, dims: Optional[Sequence[Dim]] = None) -> Dict[str, Tensor]:
    """A state dict of RoBERTa or of ``linformer_roberta`` for ``n`` positions; the old one is not changed.

    Args:
        n: the new ``max_positions``.
        dims: the new k of each layer, or of each head; None for ``default_dims``.

    Raises:
        ValueError: k is not between 1 and n, or the projection is random.
    """
    if n < 1:
        raise ValueError(f"max_positions is {n}; it must be at least 1")
    found = projections(state)
    if any(kind_and_k(entries)[0] == "random" for entries in found.values()):
        raise ValueError("projection is random: its matrices are drawn, not learnt, and are not resized; draw new ones")
    if found and dims is None:
        dims = default_dims(state, n)
    new = {key: value for key, value in state.items() if not any(key.startswith(prefix) for prefix in found)}
    new[POSITIONS] = resize_positions(state[POSITIONS], n)
    for prefix, heads in by_module(found).items():
        for name, entries in _resized(heads, n, dims[layer_of(prefix)]).items():
            new.update({f"{prefix}{name}{key}": value for key, value in entries.items()})
    return new


def _resized(heads: List[Dict[str, Tensor]], n: int, dim: Dim) -> Dict[str, Dict[str, Tensor]]:
    """The entries of one module for k = ``dim``, by what comes between its prefix and their names."""
    count = len(heads)
    stacked = count == 1 and "weight" in heads[0] and heads[0]["weight"].dim() == 3
    if stacked:  # of one k for all heads: (H, k, n) or (H, d_h, W)
        values = value_of(**{key: heads[0][key] for key in _LEARNED if key in heads[0]})
        heads = [{**heads[0], "weight": value, "start": None, "scale": None} for value in values]
    if isinstance(dim, int):
        resized = [_one(entries, n, dim) for entries in heads]
        if len(resized) > 1 and "weight" in resized[0]:
            return {"": {**resized[0], "weight": torch.stack([entries["weight"] for entries in resized])}}
        return {"": resized[0]}
    if len(heads) == 1:  # a pool for all heads becomes one for each
        heads = heads * len(dim)
    return {f"heads.{i}.": _one(entries, n, k) for i, (entries, k) in enumerate(zip(heads, dim))}


def _one(entries: Dict[str, Tensor], n: int, k: int) -> Dict[str, Tensor]:
    """One projection, without ``start`` and ``scale``: the new matrix is where it starts from."""
    kind, _ = kind_and_k(entries)
    rest = {key: value for key, value in entries.items() if key not in _LEARNED}
    if kind in ("mean-pool", "max-pool"):
        return {key: torch.full_like(value, k) for key, value in rest.items()}
    value = value_of(**{key: entries[key] for key in _LEARNED if entries.get(key) is not None})
    if kind == "conv":
        return {**rest, "conv": torch.full_like(entries["conv"], k), "weight": resize_kernel(value, -(-n // k))}
    offset, (old_k, old_n) = _offset(entries), value.shape
    new = NO_WINDOWS if offset is None else resize_offset(offset, old_k, old_n, k, n)
    return {**rest, "weight": resize_matrix(value, k, n, offset), "windows": torch.tensor(new)}


def _offset(entries: Dict[str, Tensor]) -> Optional[int]:
    """How many positions later the windows of a matrix begin; None if it has none."""
    windows = int(entries.get("windows", NO_WINDOWS))
    return None if windows == NO_WINDOWS else windows
