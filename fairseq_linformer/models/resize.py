"""A state dict for other lengths and another k; the mathematics is in ``modules/resize.py``."""

from typing import Dict, List, Optional, Sequence

import torch
from torch import Tensor

from ..modules.projection import NO_WINDOWS, value_of
from ..modules.resize import resize_kernel, resize_matrix, resize_positions, same_ratio
from ..modules.windows import longest_window
from ..projected_dim import Dim, short_form
from .shapes import PADDING_IDX, POSITIONS, by_module, kind_and_k, layer_of, max_positions, projected_dims, projections

_LEARNED = ("weight", "start", "scale")


def default_dims(state: Dict[str, Tensor], n: int) -> List[Dim]:
    """k of each layer for ``n`` positions that leaves the features of short inputs as they are."""
    windowed = all(
        kind_and_k(entries)[0] != "linear" or float(_windows(entries)) != NO_WINDOWS
        for entries in projections(state).values()
    )

    def scaled(k: int) -> int:
        return same_ratio(k, max_positions(state), n, windowed)

    return [scaled(k) if isinstance(k, int) else tuple(scaled(k_i) for k_i in k) for k in projected_dims(state)]


def resize_state(state: Dict[str, Tensor], n: int, dims: Optional[Sequence[Dim]] = None) -> Dict[str, Tensor]:
    """A state dict of RoBERTa or of ``linformer_roberta`` for ``n`` positions; the old one is not changed.

    Args:
        n: the new ``max_positions``.
        dims: the new k of each layer, or of each head; None for ``default_dims``.

    Raises:
        ValueError: k is not between 1 and n, heads that share a matrix are to differ in k, or the projection is random.
    """
    if n < 1:
        raise ValueError(f"max_positions is {n}; it must be at least 1")
    found = projections(state)
    if any(kind_and_k(entries)[0] == "random" for entries in found.values()):
        raise ValueError("projection is random: its matrices are drawn, not learnt, and are not resized; draw new ones")
    if found and dims is None:
        dims = default_dims(state, n)
    if dims is not None:  # one number where heads are alike, as a new model has it
        dims = [dim if isinstance(dim, int) or len(set(dim)) > 1 else dim[0] for dim in dims]
    new = {key: value for key, value in state.items() if not any(key.startswith(prefix) for prefix in found)}
    new[POSITIONS] = resize_positions(state[POSITIONS], n, PADDING_IDX)
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
        rest = {key: value for key, value in heads[0].items() if key not in _LEARNED}
        heads = [{**rest, "weight": value} for value in values]
    if isinstance(dim, int):
        resized = [_one(entries, n, dim) for entries in heads]
        if len(resized) > 1 and "weight" in resized[0]:
            return {"": {**resized[0], "weight": torch.stack([entries["weight"] for entries in resized])}}
        return {"": resized[0]}
    if len(heads) == 1:  # a pool for all heads becomes one for each
        if "weight" in heads[0]:
            raise ValueError(f"k is {short_form([dim])}; one matrix is shared by all heads, and they must have one k")
        heads = heads * len(dim)
    return {f"heads.{i}.": _one(entries, n, k) for i, (entries, k) in enumerate(zip(heads, dim))}


def _one(entries: Dict[str, Tensor], n: int, k: int) -> Dict[str, Tensor]:
    """One projection, without ``start`` and ``scale``: the new matrix is where it starts from."""
    kind, _ = kind_and_k(entries)
    rest = {key: value for key, value in entries.items() if key not in _LEARNED}
    if kind in ("mean-pool", "max-pool"):
        return {key: value.new_empty(k, 0) for key, value in rest.items()}
    value = value_of(**{key: entries[key] for key in _LEARNED if key in entries})
    if kind == "conv":
        return {**rest, "conv": entries["conv"].new_empty(k, 0), "weight": resize_kernel(value, longest_window(k, n))}
    windows = _windows(entries)
    return {**rest, "weight": resize_matrix(value, k, n, float(windows)), "windows": windows}


def _windows(entries: Dict[str, Tensor]) -> Tensor:
    """The buffer of that name; a matrix alone has no windows."""
    return entries.get("windows", torch.tensor(NO_WINDOWS))
