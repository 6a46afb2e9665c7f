"""Resizing E, F and position embeddings to another length.

    n, k before, n', k' after resizing

k' is that of ``scale_projected_dim``: with windows they keep their length, without windows k stays. An input of up to
min(n, n') positions keeps its features without windows, and with windows if those that it reaches stay the same:

- with at most one singleton, if n / k is an integer: all but the last, which ends at n or n';
- with more singletons, if n' - n is at least s (s - 1), where s is the length of the shortest regular window: all but
  the longer ones at the end.

What changes:

- Position embeddings are repeated or truncated.
- A matrix with windows (windows.py) is what such a matrix starts from plus a learned difference. The first is computed
  for k' and n'. The difference is repeated along the diagonal in blocks of k rows and n positions, without the row of a
  singleton, and truncated; with p > 1 singletons, blocks have k - p rows and n - p positions.
- A matrix without windows, whose rows all read the whole input, is repeated from left to right or truncated. If rows
  compensate for missing tokens (projection.py), they are divided by sqrt(n' / n).
- The kernel of a convolution is interpolated if the longest window has another length; an average stays one.
"""

import math
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .linear import AnyProjection, HeadProjections, first_matrix
from .pooling import Convolution
from .projection import LearnedProjection
from .windows import Layout, Windows, ceil_div


def resize_positions(table: Tensor, n: int, padding_idx: int) -> Tensor:
    """Resize position embeddings (padding_idx + 1 + n, d) to n' = ``n`` positions."""
    padding, real = table[: padding_idx + 1], table[padding_idx + 1 :]
    return torch.cat([padding, real.repeat(ceil_div(n, len(real)), 1)[:n]])


def resize_projection(old: AnyProjection, new: AnyProjection) -> None:
    """Resize the weights of ``old`` and load them into ``new``, of n' and k'. Heads may have a k each."""
    if isinstance(new, HeadProjections):
        assert isinstance(old, HeadProjections)
        for old_head, new_head in zip(old.heads, new.heads):
            resize_projection(old_head, new_head)
        return
    # Heads with a k each may become one projection, whose heads have the same k'.
    sources: list[Any] = list(old.heads) if isinstance(old, HeadProjections) else [old]
    new.windows.copy_(sources[0].windows)
    new.window_options.copy_(sources[0].window_options)
    new.finish_loading()
    if isinstance(new, LearnedProjection):
        if isinstance(new, Convolution):
            values = [resize_kernel(each().detach(), new.delta.size(-1)) for each in sources]
        else:
            values = [resize_matrix(each().detach(), each.layout, new.layout, new.k, new.n) for each in sources]
        new.set_(torch.stack(values).view_as(new.delta))


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


def resize_matrix(E: Tensor, old: Layout, new: Layout, k: int, n: int) -> Tensor:
    """Resize a matrix, or one per head, from (..., k, n) to (..., k', n').

    Args:
        old, new: layouts before and after resizing.
        k, n: k' and n'.
    """
    old_k, old_n = E.shape[-2:]
    if old.windows is None or new.windows is None:
        repeated = torch.cat([E] * ceil_div(n, old_n), -1)[..., :k, :n]
        return repeated * (math.sqrt(old_n / n) if old.fills else 1)
    difference, p = E - first_matrix(old).to(E), old.windows.num_singletons
    resized = first_matrix(new).to(E).expand(*E.shape[:-2], k, n).clone()
    _add_block(difference, resized, 0, 0)
    if p > 1:
        unshifted = replace(new.windows, offset=0)
        for column in range(old_n, n, old_n - p):
            row = unshifted.num_reached(column + 1) - 1  # the window of this position
            _add_block(difference[..., p:, p:], resized, row, column)
    else:
        difference[..., :p, :] = 0
        for i in range(1, ceil_div(n, old_n)):
            _add_block(difference, resized, i * old_k, i * old_n)
    return resized


def _add_block(block: Tensor, matrix: Tensor, row: int, column: int) -> None:
    """Add a block to a part of a matrix, as far as it fits."""
    rows, columns = (min(a, b) for a, b in zip(block.shape[-2:], matrix[..., row:, column:].shape[-2:]))
    matrix[..., row : row + rows, column : column + columns] += block[..., :rows, :columns]


def resize_kernel(kernel: Tensor, width: int) -> Tensor:
    """Interpolate a kernel, or one per head, from (..., d_h, W) to (..., d_h, W')."""
    old_width = kernel.size(-1)
    interpolated = F.interpolate(kernel.view(1, -1, old_width), width, mode="area").view(*kernel.shape[:-1], width)
    return interpolated * (old_width / width)
