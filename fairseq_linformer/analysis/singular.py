"""Singular values of context mapping matrices, and the quantities that Figure 1 of the paper plots.

    B sentences, H heads, n rows (queries), m columns (n positions, or k' projected positions of a Linformer), r =
    min(n, m)

The paper, section 3: "we apply singular value decomposition into P across different layers and different heads of the
model, and plot the normalized cumulative singular value averaged over 10k sentences".
"""

from typing import Optional, Union

import torch
from torch import Tensor


def without_padding(maps: Tensor, padding_mask: Optional[Tensor], positions: bool = True) -> Tensor:
    """Maps with zeros in padded rows and columns: their singular values are those of the block of real tokens, followed
    by zeros.

    Args:
        maps: (B, H, n, m).
        padding_mask: (B, n), True at padding; None if there is none.
        positions: whether columns are positions as rows are; those of a Linformer are not, even where k' is n.
    """
    if padding_mask is None:
        return maps
    padding = padding_mask[:, None]  # (B, 1, n)
    maps = maps.masked_fill(padding.unsqueeze(-1), 0.0)
    return maps.masked_fill(padding.unsqueeze(-2), 0.0) if positions else maps


def singular_values(maps: Tensor) -> Tensor:
    """Of each matrix, in falling order, in the precision of the maps: (B, H, n, m) to (B, H, r).

    Raises:
        ValueError: the maps are not finite.
    """
    if not bool(torch.isfinite(maps).all()):
        raise ValueError("attention weights are not finite; the weights of the model are damaged")
    return torch.linalg.svdvals(maps)


def longer_side(maps: Tensor) -> Tensor:
    """(B, H) integers: rows or columns with a weight in them, whichever are more; of maps ``without_padding``. Every
    real row has a weight, padding has none, nor has a Linformer's column that only longer sentences of the batch
    reach."""
    weights = maps.ne(0)
    return torch.maximum(weights.any(-1).sum(-1), weights.any(-2).sum(-1))


def cumulative(values: Tensor) -> Tensor:
    """Running sums over the last dimension, divided by the whole sum: (..., r) to (..., r), rising to 1.

    Of singular values as in Figure 1, or of their squares: then 1 minus the running sum is the squared relative error
    (Frobenius) of the best approximation of that rank (Eckart-Young).

    Raises:
        ValueError: they are not finite, or all zero.
    """
    sums = values.double().cumsum(-1)
    whole = sums[..., -1:]
    if not torch.isfinite(sums).all() or (whole <= 0).any():
        raise ValueError("singular values are not finite or all zero; they must be of attention weights of real tokens")
    return sums / whole


def rank(values: Tensor, longer: Union[int, Tensor]) -> Tensor:
    """The numerical rank (...), as ``torch.linalg.matrix_rank`` counts it: how many singular values (..., r), in
    falling order, are above the largest times the ``longer`` side of the matrix (a number, or (...)) times the
    precision of their type."""
    longer = torch.as_tensor(longer, dtype=values.dtype, device=values.device)
    least = values[..., :1] * longer.unsqueeze(-1) * torch.finfo(values.dtype).eps
    return (values > least).sum(-1)


def dimension_for(curve: Tensor, share: float) -> Tensor:
    """(...) integers: the smallest k at which a curve (..., r) of ``cumulative`` reaches a share.

    Raises:
        ValueError: the share is not above 0 and below 1.
    """
    if not 0 < share < 1:
        raise ValueError(f"the share is {share:g}; it must be above 0 and below 1")
    return (curve < share).sum(-1).clamp(max=curve.size(-1) - 1) + 1
