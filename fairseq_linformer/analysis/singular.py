"""Singular values of context mapping matrices, and what Figure 1 of the paper makes of them.

    B sentences, H heads, n rows (queries), m columns (n positions, or of a Linformer k'), r = min(n, m)

The paper, section 3: "we apply singular value decomposition into P across different layers and different heads of the
model, and plot the normalized cumulative singular value averaged over 10k sentences".
"""

from typing import Optional, Union

import torch
from torch import Tensor


def real(maps: Tensor, padding_mask: Optional[Tensor] = None, positions: bool = True) -> Tensor:
    """Maps with zeros in padded rows and columns: that leaves the singular values of the block of real tokens, and zeros behind
    them.

    Args:
        maps: (B, H, n, m).
        padding_mask: (B, n), True at padding; None if there is none.
        positions: whether columns are positions as rows are; those of a Linformer are not, even where k' is n.
    """
    if padding_mask is None or not padding_mask.any():
        return maps
    padding = padding_mask[:, None]  # (B, 1, n)
    maps = maps.masked_fill(padding.unsqueeze(-1), 0.0)
    return maps.masked_fill(padding.unsqueeze(-2), 0.0) if positions else maps


def singular_values(maps: Tensor, padding_mask: Optional[Tensor] = None, positions: bool = True) -> Tensor:
    """Of each matrix, in falling order, in the precision that the maps have. Padded rows and columns do not count.

    Args:
        as of ``real``.

    Returns:
        (B, H, r)
    """
    if not bool(torch.isfinite(maps).all()):
        raise ValueError("attention weights are not finite; the weights of the model are damaged")
    return torch.linalg.svdvals(real(maps, padding_mask, positions))


def longer_side(maps: Tensor, padding_mask: Optional[Tensor] = None, positions: bool = True) -> Tensor:
    """(B, H) integers: rows or columns of the block of real tokens, whichever are more. Of a Linformer those columns count that
    something attends to: not those that only longer sentences of the batch reach.

    Args:
        as of ``real``.
    """
    B, H, n, m = maps.shape
    rows = torch.full((B,), n, device=maps.device) if padding_mask is None else (~padding_mask).sum(1)  # (B,)
    rows = rows.unsqueeze(1).expand(B, H)
    return rows if positions else torch.maximum(rows, real(maps, padding_mask, positions).ne(0).any(-2).sum(-1))


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


def rank(values: Tensor, longer: Union[int, Tensor]) -> Tensor:
    """The numerical rank, as ``torch.linalg.matrix_rank`` counts it: how many singular values are above the largest times
    the longer side of the matrix times the precision of their type.

    Args:
        values: (..., r), in falling order.
        longer: rows or columns, whichever are more: a number, or (...) of each.

    Returns:
        (...) integers.
    """
    longer = torch.as_tensor(longer, dtype=values.dtype, device=values.device)
    least = values[..., :1] * longer.unsqueeze(-1) * torch.finfo(values.dtype).eps
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
