"""Singular values of context mapping matrices, and what Figure 1 of the paper makes of them.

    B sentences, H heads, n rows (queries), m columns (n positions, or of a Linformer k'), r = min(n, m)

The paper, section 3: "we apply singular value decomposition into P across different layers and different heads of the
model, and plot the normalized cumulative singular value averaged over 10k sentences".
"""

from typing import Optional

import torch
from torch import Tensor


def singular_values(maps: Tensor, padding_mask: Optional[Tensor] = None) -> Tensor:
    """Of each matrix, in falling order, in the precision that the maps have.

    Padded rows and columns are taken for zero: that leaves the singular values of the block of real tokens, and
    zeros behind them. (Columns only where there are as many of them as rows: those of a Linformer are no positions.)

    Args:
        maps: (B, H, n, m).
        padding_mask: (B, n), True at padding; None if there is none.

    Returns:
        (B, H, r)
    """
    if padding_mask is not None and padding_mask.any():
        padding = padding_mask[:, None]  # (B, 1, n)
        maps = maps.masked_fill(padding.unsqueeze(-1), 0.0)
        if maps.size(-1) == padding.size(-1):
            maps = maps.masked_fill(padding.unsqueeze(-2), 0.0)
    return torch.linalg.svdvals(maps)


def cumulative(values: Tensor) -> Tensor:
    """Running sums over the last dimension, divided by the whole sum: the last one is 1.

    Args:
        values: (..., r), not negative: singular values as in Figure 1, or their squares, of which 1 minus the running sum
            is the squared relative error (Frobenius) of the best approximation of that rank (Eckart-Young).

    Raises:
        ValueError: they are not finite, or all zero.
    """
    sums = values.double().cumsum(-1)
    whole = sums[..., -1:]
    if not torch.isfinite(sums).all() or (whole <= 0).any():
        raise ValueError("singular values are not finite or all zero; attention weights of real tokens are wanted")
    return sums / whole


def rank(values: Tensor, rows: int, columns: int) -> Tensor:
    """The numerical rank, as ``torch.linalg.matrix_rank`` counts it: how many singular values are above the largest times
    max(rows, columns) times the precision of their type.

    Args:
        values: (..., r), in falling order.

    Returns:
        (...) integers.
    """
    least = values[..., :1] * max(rows, columns) * torch.finfo(values.dtype).eps
    return (values > least).sum(-1)


def dimension_for(curve: Tensor, share: float) -> Tensor:
    """The smallest k whose running sum reaches a share.

    Args:
        curve: (..., r), rising to 1.
        share: above 0 and below 1.

    Returns:
        (...) integers from 1 to r.

    Raises:
        ValueError: the share is not above 0 and below 1.
    """
    if not 0 < share < 1:
        raise ValueError(f"the share is {share:g}; it must be above 0 and below 1")
    return (curve < share).sum(-1).clamp(max=curve.size(-1) - 1) + 1
