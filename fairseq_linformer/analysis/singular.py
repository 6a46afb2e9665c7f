"""Singular values of context mapping matrices, and the quantities that Figure 1 of the paper plots.

    B sentences, H heads, n rows (queries), m columns (n positions, or k' projected positions of a Linformer),
    r = min(n, m)

The paper, section 3: "we apply singular value decomposition into P across different layers and different heads of the
model, and plot the normalized cumulative singular value averaged over 10k sentences".
"""

import torch
from torch import Tensor


def zero_padding(maps: Tensor, padding_mask: Tensor | None, columns_are_positions: bool = True) -> Tensor:
    """Zero the rows and columns of padding: the singular values are then those of the block of real tokens, followed by
    zeros.

    Args:
        maps: (B, H, n, m).
        padding_mask: (B, n), True at padding; None without padding.
        columns_are_positions: False for a Linformer, even if k' = n.
    """
    if padding_mask is None:
        return maps
    padding = padding_mask[:, None]  # (B, 1, n)
    maps = maps.masked_fill(padding.unsqueeze(-1), 0.0)
    return maps.masked_fill(padding.unsqueeze(-2), 0.0) if columns_are_positions else maps


def singular_values(maps: Tensor) -> Tensor:
    """Singular values of each matrix, largest first, in the precision of the maps: (B, H, n, m) to (B, H, r).

    Raises:
        ValueError: the maps contain NaN or infinity.
    """
    if not bool(torch.isfinite(maps).all()):
        raise ValueError("attention weights must be finite, got NaN or infinity; the weights of the model are damaged")
    return torch.linalg.svdvals(maps)


def longer_side(maps: Tensor) -> Tensor:
    """(B, H) integers: the number of nonzero rows or of nonzero columns, whichever is larger.

    Expects maps from ``zero_padding``. Rows of real tokens are nonzero; padding is zero, and so are the columns of a
    Linformer that only longer sentences of the batch reach.
    """
    nonzero = maps.ne(0)
    return torch.maximum(nonzero.any(-1).sum(-1), nonzero.any(-2).sum(-1))


def cumulative_shares(values: Tensor) -> Tensor:
    """Cumulative sums over the last dimension divided by the total: (..., r) to (..., r), increasing to 1.

    ``values`` are singular values, as in Figure 1, or their squares. For squares, 1 minus the share at k is the squared
    relative error (Frobenius norm) of the best approximation of rank k (Eckart-Young).

    Raises:
        ValueError: the values are non-finite or all zero.
    """
    sums = values.double().cumsum(-1)
    total = sums[..., -1:]
    if not torch.isfinite(sums).all() or (total <= 0).any():
        raise ValueError("singular values must be finite and not all zero")
    return sums / total


def numerical_rank(values: Tensor, longer_side: int | Tensor) -> Tensor:
    """The numerical rank (...), as in ``torch.linalg.matrix_rank``: the number of singular values (..., r), largest
    first, above the largest times the longer side of the matrix (int or (...)) times the epsilon of their dtype."""
    longer_side = torch.as_tensor(longer_side, dtype=values.dtype, device=values.device)
    threshold = values[..., :1] * longer_side.unsqueeze(-1) * torch.finfo(values.dtype).eps
    return (values > threshold).sum(-1)


def smallest_dimension(curve: Tensor, share: float) -> Tensor:
    """(...) integers: the smallest k at which a curve (..., r) of ``cumulative_shares`` reaches ``share``.

    Raises:
        ValueError: the share is not above 0 and below 1.
    """
    if not 0 < share < 1:
        raise ValueError(f"share must be above 0 and below 1, got {share:g}")
    return (curve < share).sum(-1).clamp(max=curve.size(-1) - 1) + 1
