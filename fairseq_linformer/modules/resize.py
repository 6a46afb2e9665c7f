"""Resizing E, F and position embeddings to another length and another k.

    n, k before, n', k' after resizing

An input of up to min(n, n') positions keeps its features if the length of regular windows stays the same, as with the
k' of ``scale_projected_dim``, or, without windows, if k' is a multiple of k. The exception is an input that reaches the
last window, which ends at n or n'.

- Position embeddings are repeated or truncated.
- A matrix with windows (windows.py) is the average of its windows plus a learned difference. The average is computed
  for k' and n'. The difference is repeated along the diagonal in blocks of k rows and n positions, without the row of a
  separate first position, and truncated; with a longer prefix only the blocks of regular windows are repeated. Then its
  rows are merged or split by the overlap of old and new windows.
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

from .pooling import Convolution
from .projection import HeadProjections, LinearProjection, Projection, RandomProjection, round_prefix, windows_of
from .windows import Windows, ceil_div


def resize_positions(table: Tensor, n: int, padding_idx: int) -> Tensor:
    """Resize position embeddings (padding_idx + 1 + n, d) to n' = ``n`` positions.

    Raises:
        ValueError: n' is less than 1.
    """
    if n < 1:
        raise ValueError(f"max_positions must be at least 1, got {n}")
    padding, real = table[: padding_idx + 1], table[padding_idx + 1 :]
    return torch.cat([padding, real.repeat(-(-n // len(real)), 1)[:n]])


def resize_projection(old: Projection, new: Projection) -> None:
    """Resize the weights of ``old`` and load them into ``new``, of n' and k'. Each may have one k or one per head.

    Raises:
        ValueError: ``old`` is random.
    """
    old_heads, new_heads = (list(p.heads) if isinstance(p, HeadProjections) else [p] for p in (old, new))
    if isinstance(old_heads[0], RandomProjection):
        raise ValueError("only learned projections can be resized, got 'random'; draw new matrices instead")
    sources: list[tuple[Any, Any]] = []  # each matrix, kernel or None of a pool, and its projection
    for head in old_heads:
        value = head()
        matrices = [None] if value is None else value.detach().reshape(-1, *value.shape[-2:])
        sources += [(matrix, head) for matrix in matrices]
    for i, head in enumerate(new_heads):
        # One pool serves all heads.
        matrices_of_head = (sources[i : i + 1] or sources[:1]) if len(new_heads) > 1 else sources
        source = matrices_of_head[0][1]
        entries = {"window_options": source.window_options}
        if isinstance(head, LinearProjection):
            entries["windows"] = source.windows
            windows = source.layout and resize_windows(source.layout, float(source.windows), head.k, head.n)
            values = [
                resize_matrix(E, head.k, head.n, each.layout, windows, each.fills, each.overlaps)
                for E, each in matrices_of_head
            ]
            entries["weight"] = torch.stack(values).reshape(head.parameter.shape)
            if windows is not None:
                entries["window_options"] = source.window_options.clone()
                entries["window_options"][0] = windows.prefix
        elif isinstance(head, Convolution):
            values = [resize_kernel(kernel, head.layout.width) for kernel, _ in matrices_of_head]
            entries["weight"] = torch.stack(values).reshape(head.parameter.shape)
        head.load_state_dict(entries, strict=False)


def scale_projected_dim(k: int, old_n: int, n: int, prefix: int | None) -> int:
    """k' that keeps the features of short inputs: the same length of regular windows, or without windows the same k.

    Args:
        prefix: of the windows; None without windows.
    """
    if prefix is None:
        return min(k, n)
    first = min(prefix, k - 1)
    if first > 1:
        return n if n <= first else first + scale_projected_dim(k - first, old_n - first, n - first, 0)
    return max(1, min(n, round(k * n / old_n)))


def resize_windows(old: Windows, delay: float, k: int, n: int) -> Windows:
    """The windows of k' and n'. A prefix longer than 1 stays as it is with the k' of ``scale_projected_dim``, and
    changes in proportion to other k'.

    Args:
        delay: the value of the buffer ``windows``.
    """
    prefix = old.prefix
    if prefix > 1:
        first = old.num_separate
        prefix = round_prefix(first * k // scale_projected_dim(old.k, old.N, n, first))
    windows = windows_of(delay, k, n, prefix)
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

    Raises:
        ValueError: k' is not between 1 and n'.
    """
    if not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and n ({n}), got {k}")
    old_k, old_n = E.shape
    if (old_k, old_n) == (k, n):
        return E.clone()
    if old is None or new is None:
        resized = _overlap(torch.arange(k + 1) * old_k, torch.arange(old_k + 1) * k).to(E)
        return resized @ E.repeat(1, ceil_div(n, old_n))[:, :n] * (math.sqrt(old_n / n) if fills else 1)
    start, resized = (w.triangle().to(E) if overlaps else w.average().to(E) for w in (old, new))
    difference = E - start
    first = old.num_separate
    if first > 1:
        repeated = difference[first:, first:]
    else:
        repeated = difference.clone()
        repeated[:first] = 0
    num_blocks = ceil_div(n - old_n, repeated.size(1)) if n > old_n else 0
    num_rows = scale_projected_dim(old_k, old_n, n, old.prefix)
    learned: Tensor = torch.block_diag(difference, *[repeated] * num_blocks)[:num_rows, :n]
    scaled = replace(old, k=num_rows, N=n, offset=0)
    scaled = replace(scaled, offset=min(old.offset, scaled.shortest - 1))
    return resized + _overlap(new.edges(), scaled.edges()).to(E) @ learned


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
