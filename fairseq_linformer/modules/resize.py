"""Resizing E, F and position embeddings to another length and another k.

    n, k before, n', k' after resizing

An input of up to min(n, n') positions keeps its features if the windows that it reaches stay the same, or, without
windows, if k' is a multiple of k. With the k' of ``scale_projected_dim``, these windows stay the same:

- with at most one singleton, if n / k is an integer: all but the last, which ends at n or n';
- with more singletons, if n' - n is at least s (s - 1), where s is the length of the shortest regular window: all but
  the longer ones at the end.

What changes:

- Position embeddings are repeated or truncated.
- A matrix with windows (windows.py) is the average of its windows plus a learned difference. The average is computed
  for k' and n'. The difference is repeated along the diagonal in blocks of k rows and n positions, without the row of a
  singleton, and truncated; with p > 1 singletons, blocks have k - p rows and n - p positions. Then its rows are merged
  or split by the overlap of old and new windows.
- A matrix without windows, whose rows all read the whole input, is repeated from left to right or truncated; then its
  rows are merged or split by the overlap of k and k' equal parts. Splitting repeats a row, which leaves the attention
  unchanged. If rows compensate for missing tokens (projection.py), they are divided by sqrt(n' / n).
- The kernel of a convolution is interpolated to the new window length and keeps its sum.
"""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..config import POSITIONS_LIMIT
from .linear import AnyProjection, HeadProjections, LinearProjection, read_windows
from .pooling import Convolution
from .windows import Windows, ceil_div, round_singletons


def resize_positions(table: Tensor, n: int, padding_idx: int) -> Tensor:
    """Resize position embeddings (padding_idx + 1 + n, d) to n' = ``n`` positions."""
    if not 1 <= n <= POSITIONS_LIMIT:
        raise ValueError(f"max_positions must be between 1 and {POSITIONS_LIMIT:,}, got {n}")
    padding, real = table[: padding_idx + 1], table[padding_idx + 1 :]
    return torch.cat([padding, real.repeat(ceil_div(n, len(real)), 1)[:n]])


def resize_projection(old: AnyProjection, new: AnyProjection) -> None:
    """Resize the weights of ``old`` and load them into ``new``, of n' and k'. Each may have one k or one per head."""
    old_heads, new_heads = (list(p.heads) if isinstance(p, HeadProjections) else [p] for p in (old, new))
    sources: list[tuple[Any, Any]] = []  # each matrix, kernel or None of a pool, and its projection
    for head in old_heads:
        value = head()
        matrices = [None] if value is None else value.detach().reshape(-1, *value.shape[-2:])
        sources += [(matrix, head) for matrix in matrices]
    for i, head in enumerate(new_heads):
        # One pool serves all heads.
        matrices_of_head = (sources[i : i + 1] or sources[:1]) if len(new_heads) > 1 else sources
        source = matrices_of_head[0][1]
        entries = {"window_options": source.window_options.clone()}
        if isinstance(head, LinearProjection):
            entries["windows"] = source.windows
            windows = source.layout and resize_windows(source.layout, float(source.windows), head.k, head.n)
            values = [
                resize_matrix(E, head.k, head.n, each.layout, windows, each.fills, each.overlaps)
                for E, each in matrices_of_head
            ]
            entries["weight"] = torch.stack(values).reshape(head.parameter.shape)
            if windows is not None:
                entries["window_options"][0] = windows.singletons
        elif isinstance(head, Convolution):
            values = [resize_kernel(kernel, head.layout.width) for kernel, _ in matrices_of_head]
            entries["weight"] = torch.stack(values).reshape(head.parameter.shape)
        head.load_state_dict(entries, strict=False)


def scale_projected_dim(k: int, n: int, new_n: int, windows: Windows | None) -> int:
    """k' that keeps the features of short inputs. With windows, it keeps their length; without windows it is k.

    Args:
        k, n, new_n: k, n and n'.
        windows: those of k and n; None without windows.
    """
    if windows is None:
        return min(k, new_n)
    p = windows.num_singletons
    if p <= 1:
        return max(1, min(new_n, round(k * new_n / n)))
    return min(new_n, max(p + 1, k + (new_n - n) // windows.shortest))


def resize_windows(old: Windows, delay: float, k: int, n: int) -> Windows:
    """The windows of k' and n'. Singletons, if more than one, stay with the k' of ``scale_projected_dim``; with another
    k' their number changes in proportion.

    Args:
        delay: the value of the buffer ``windows``.
    """
    singletons = old.singletons
    if old.num_singletons > 1:
        scaled_k = scale_projected_dim(old.k, old.N, n, old)
        singletons = round_singletons(old.num_singletons * k // scaled_k)
    windows = read_windows(delay, k, n, singletons)
    assert windows is not None
    return windows


def resize_matrix(
    E: Tensor,
    k: int,
    n: int,
    old: Windows | None = None,
    new: Windows | None = None,
    fills: bool = False,
    overlaps: bool = False,
) -> Tensor:
    """Resize a matrix from (k, n) to (k', n').

    Args:
        E: the matrix.
        k, n: k' and n'.
        old, new: windows before and after resizing; None without windows.
        fills: whether rows compensate for missing tokens.
        overlaps: whether E started with overlapping windows.
    """
    old_k, old_n = E.shape
    if (old_k, old_n) == (k, n):
        return E.clone()
    if old is None or new is None:
        resized = _overlap(torch.arange(k + 1) * old_k, torch.arange(old_k + 1) * k).to(E)
        return resized @ E.repeat(1, ceil_div(n, old_n))[:, :n] * (math.sqrt(old_n / n) if fills else 1)
    start, resized = (w.triangle().to(E) if overlaps else w.average().to(E) for w in (old, new))
    difference = E - start
    num_rows, p = scale_projected_dim(old_k, old_n, n, old), old.num_singletons
    scaled = replace(old, k=num_rows, N=n, offset=0)
    learned = E.new_zeros(num_rows, n)
    _place(difference, learned, 0, 0)
    if p > 1:
        for column in range(old_n, n, old_n - p):
            row = scaled.num_reached(column + 1) - 1  # the window of this position
            _place(difference[p:, p:], learned, row, column)
    else:
        difference[:p] = 0
        for i in range(1, ceil_div(n, old_n)):
            _place(difference, learned, i * old_k, i * old_n)
    scaled = replace(scaled, offset=min(old.offset, scaled.shortest - 1))
    return resized + _overlap(new.edges(), scaled.edges()).to(E) @ learned


def _place(block: Tensor, matrix: Tensor, row: int, column: int) -> None:
    """Write a block into a matrix, as far as it fits."""
    rows, columns = (min(a, b) for a, b in zip(block.shape, matrix[row:, column:].shape))
    matrix[row : row + rows, column : column + columns] = block[:rows, :columns]


def resize_kernel(kernel: Tensor, width: int) -> Tensor:
    """Interpolate a kernel from (d_h, W) to (d_h, W'); the sum of each channel stays the same."""
    old = kernel.size(-1)
    if old == width:
        return kernel.clone()
    overlap = _overlap(torch.arange(width + 1) * old, torch.arange(old + 1) * width)
    return kernel @ (overlap.T * (old / width)).to(kernel)


def _overlap(new: Tensor, old: Tensor) -> Tensor:
    """(new, old): the fraction of each of the new intervals that each of the old ones covers; rows sum to one.

    Args:
        new, old: edges of adjacent intervals, with the same ends.
    """
    start = torch.maximum(new[:-1].unsqueeze(1), old[:-1])
    end = torch.minimum(new[1:].unsqueeze(1), old[1:])
    return (end - start).clamp(min=0) / new.diff().unsqueeze(1)
