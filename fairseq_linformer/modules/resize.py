"""E, F and position embeddings for other lengths and another k.

    n, k before, n', k' after resizing

An input of up to min(n, n') positions keeps its features if the windows stay as long, k' / n' = k / n, or, where E has
no windows, if k' is a multiple of k. (Except the last one of windows that begin later, which n and n' cut off at
different places, and overlapping windows of keys at the seam of two blocks.)

- Position embeddings are repeated, or cut off at the end.
- A matrix with windows (windows.py) is the average of its windows plus a learnt difference. The average is computed
  for k' and n'. The difference is repeated along the diagonal, block by block of n positions and k rows, and cut off;
  then rows are merged or split by the share that the old and the new windows have in each other.
- A matrix without windows, whose rows all look at the whole input, is repeated from left to right, or cut off; then
  rows are merged or split likewise. A row that is split is repeated, which leaves the attention unchanged.
- The kernel of a convolution is stretched or squeezed to the new window and keeps its sum.
"""

import torch
from torch import Tensor

from .pooling import Convolution
from .projection import HeadProjections, LearnedProjection, Projection, RandomProjection, offset_of
from .windows import longest_window, window_average


def resize_positions(table: Tensor, n: int, padding_idx: int) -> Tensor:
    """Position embeddings (padding_idx + 1 + n, d) for n' = ``n`` positions.

    Raises:
        ValueError: n' is less than 1.
    """
    if n < 1:
        raise ValueError(f"max_positions is {n}; it must be at least 1")
    before, real = table[: padding_idx + 1], table[padding_idx + 1 :]
    return torch.cat([before, real.repeat(-(-n // len(real)), 1)[:n]])


def resize_projection(old: Projection, new: Projection) -> None:
    """Load ``new``, of n' and k', with what ``old`` has learnt. Either may have one k or one for each head.

    Raises:
        ValueError: ``old`` is random.
    """
    olds, news = (list(p.heads) if isinstance(p, HeadProjections) else [p] for p in (old, new))
    if isinstance(olds[0], RandomProjection):
        raise ValueError("projection is random: its matrices are drawn, not learnt, and are not resized; draw new ones")
    if not isinstance(olds[0], LearnedProjection):
        return  # a pool has only k
    learnt = [(value, part) for part in olds for value in part().detach().reshape(-1, *part.weight.shape[-2:])]
    for i, part in enumerate(news):
        taken = learnt[i : i + 1] if len(news) > 1 else learnt
        if isinstance(part, Convolution):
            values = [resize_kernel(kernel, longest_window(part.k, part.n)) for kernel, _ in taken]
            entries = {}
        else:
            values = [resize_matrix(E, part.k, part.n, float(source.windows)) for E, source in taken]
            entries = {"windows": taken[0][1].windows}
        entries["weight"] = torch.stack(values).reshape(part.weight.shape)
        part.load_state_dict(entries, strict=False)


def same_ratio(k: int, old_n: int, n: int, windowed: bool) -> int:
    """k' that leaves short inputs as they are: windows as long as before, or without windows k."""
    return max(1, min(n, round(k * n / old_n))) if windowed else min(k, n)


def resize_matrix(E: Tensor, k: int, n: int, delay: float) -> Tensor:
    """(k, n) to (k', n').

    Args:
        E: the matrix.
        k, n: k' and n'.
        delay: what the buffer ``windows`` of its projection holds.

    Raises:
        ValueError: k' is not between 1 and n'.
    """
    if not 1 <= k <= n:
        raise ValueError(f"k is {k}; it must be between 1 and n, which is {n}")
    old_k, old_n = E.shape
    if (old_k, old_n) == (k, n):
        return E.clone()
    copies = -(-n // old_n)
    offset = offset_of(delay, old_k, old_n)
    if offset is None:
        return _overlap(k, old_k).to(E) @ E.repeat(1, copies)[:, :n]
    learnt = torch.block_diag(*[E - window_average(old_k, old_n, offset).to(E)] * copies)
    learnt = learnt[: same_ratio(old_k, old_n, n, windowed=True), :n]
    average = window_average(k, n, offset_of(delay, k, n)).to(E)
    return average + _overlap(k, len(learnt)).to(E) @ learnt


def resize_kernel(kernel: Tensor, width: int) -> Tensor:
    """(d_h, W) to (d_h, W'), the sum of each channel as it was."""
    old = kernel.size(-1)
    return kernel.clone() if old == width else kernel @ (_overlap(width, old).T * (old / width)).to(kernel)


def _overlap(new: int, old: int) -> Tensor:
    """(new, old): the share that each of ``old`` equal stretches has in each of ``new``; rows sum to one."""
    new_edges, old_edges = torch.arange(new + 1) * old, torch.arange(old + 1) * new  # in units of 1 / (new * old)
    start = torch.maximum(new_edges[:-1].unsqueeze(1), old_edges[:-1])
    end = torch.minimum(new_edges[1:].unsqueeze(1), old_edges[1:])
    return (end - start).clamp(min=0) / old
