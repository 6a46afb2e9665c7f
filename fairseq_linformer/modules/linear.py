"""E and F as matrices.

    B sentences, n positions of this input, N = max_positions, k projected positions, k' of them that this input
    reaches, H heads, d width, d_h = d / H

Section 4 of the paper: "we add two linear projection matrices E_i, F_i when computing key and value". The paper writes
a matrix as n x k and multiplies it as (k, n); here it is a (k, N) parameter without bias. An input of n < N positions
uses its first n columns.
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .order import Order
from .projection import LearnedProjection, Projection
from .windows import NO_WINDOWS, Layout

WINDOWED_INITS = ("average", "overlap")
"""Values of ``init`` of a ``LinearProjection`` with windows."""


class LinearProjection(LearnedProjection):
    """One matrix E or F, or one per head.

    Args:
        n: N.
        k: projected positions, 1 <= k <= N.
        heads: H for one matrix per head; None for one that all heads share.
        lr_scale: learning rate of E relative to that of the other weights.
        frozen: do not train E.
        init: ``average``: row i averages window i; ``overlap``: ``Windows.triangle``; others: see ``initial_matrix``.
        delay: fraction of a window, in [0, 1), by which the windows are shifted.
        singletons: number of positions at the beginning that are windows of their own.
    """

    def __init__(
        self,
        n: int,
        k: int,
        heads: int | None = None,
        lr_scale: float = 1.0,
        frozen: bool = False,
        init: str = "average",
        delay: float = 0.0,
        singletons: int = 1,
    ):
        shape = (k, n) if heads is None else (heads, k, n)
        delay, overlaps = delay if init in WINDOWED_INITS else NO_WINDOWS, init == "overlap"
        super().__init__(n, k, shape, lr_scale, frozen, delay=delay, singletons=singletons, overlaps=overlaps)
        self.heads = heads
        # One matrix per head cannot project the input without doing so H times.
        self.orders = tuple(Order) if heads is None else (Order.KEYS, Order.SCORES)
        if self.layout.windows is not None:
            self.set_(first_matrix(self.layout))
        else:
            self.set_(torch.stack([initial_matrix(init, k, n) for _ in range(heads or 1)]).reshape(shape))

    def reached(self, matrix: Tensor, n: int | None) -> Tensor:
        return matrix if n is None else matrix[..., : self.num_reached(n), :n]

    def reduce_unscaled(self, x: Tensor, value: Tensor | None, padding_mask: Tensor | None) -> Tensor:
        assert value is not None
        E = self.reached(value, x.size(1))
        if self.heads is None:
            # E @ x may copy x and then takes twice as long.
            return torch.bmm(E.expand(x.size(0), -1, -1), x)
        heads: Tensor = x.unflatten(-1, (self.heads, -1))
        return (E @ heads.transpose(1, 2)).transpose(1, 2).flatten(2)

    def row_scale(self, x: Tensor, padding_mask: Tensor | None) -> Tensor | None:
        n, windows = x.size(1), self.layout.windows
        if not self.layout.fills or (padding_mask is None and n == self.n):
            return None
        if windows is None:
            num_real = torch.tensor([n], device=x.device) if padding_mask is None else (~padding_mask).sum(1)
            scale = (self.n / num_real.clamp(min=1).to(x.dtype)).sqrt().view(-1, 1, 1)
        elif self.layout.overlaps:
            # In an exported graph the whole matrix is a constant, and only slices depend on n.
            whole = windows.triangle(x.device, None if torch.compiler.is_exporting() else n).to(x.dtype)
            weights = whole[: self.num_reached(n), :n]  # (k', n)
            share = weights.sum(1)[None]  # (B or 1, k'): that of the weights on real tokens
            if padding_mask is not None:
                share = (~padding_mask).to(x.dtype) @ weights.T
                # A window without real tokens is masked; those beside it have a share in it, too.
                share = share.masked_fill(windows.counts(n, padding_mask, x.device) == 0, 1)
            scale = (1 / share).clamp(max=torch.finfo(share.dtype).max).unsqueeze(-1)
        else:
            counts = windows.counts(n, padding_mask, x.device)  # (B or 1, k')
            sizes = windows.edges(x.device).diff()[: counts.size(1)]
            scale = (sizes.to(x.dtype) / counts.clamp(min=1)).unsqueeze(-1)
        return scale


class HeadProjections(nn.Module):
    """One projection per head, with different k; methods are those of ``Projection``.

    Keys and values are padded to the largest k; the padding is masked.

    Args:
        heads: the projection of each head; all for the same N.
    """

    orders = (Order.KEYS,)

    def __init__(self, heads: Sequence[Projection]):
        super().__init__()
        self.n, self.k = heads[0].n, max(head.k for head in heads)
        self.heads: Sequence[Projection] = nn.ModuleList(heads)  # type: ignore[assignment]

    def forward(self, n: int | None = None) -> None:
        """Each head has its own matrix or kernel."""

    def num_reached(self, n: int) -> int:
        return reduce(torch.sym_max, (head.num_reached(n) for head in self.heads))

    def geometry(self) -> tuple[Any, ...]:
        return tuple(head.geometry() for head in self.heads)

    def row_scale(self, x: Tensor, padding_mask: Tensor | None) -> list[Tensor | None]:
        """That of each head."""
        return [head.row_scale(x, padding_mask) for head in self.heads]

    def bias(
        self, x: Tensor, padding_mask: Tensor | None, reach: int = 0, positions: Tensor | None = None
    ) -> Tensor | None:
        max_reached = self.num_reached(x.size(1))
        biases = []
        for head in self.heads:
            bias = head.bias(x, padding_mask, reach, positions)  # (B or 1, 1, m or 1, head's k') or None
            if bias is None:
                bias = x.new_zeros(1, 1, 1, head.num_reached(x.size(1)))
            biases.append(F.pad(bias, (0, max_reached - bias.size(-1)), value=-math.inf))
        return torch.cat(torch.broadcast_tensors(*biases), 1)  # (B or 1, H, m or 1, k')

    def reduce(
        self, x: Tensor, value: Tensor | None, padding_mask: Tensor | None, scale: Sequence[Tensor | None]
    ) -> Tensor:
        max_reached = self.num_reached(x.size(1))
        parts = x.chunk(len(self.heads), -1)  # (B, n, d_h) each
        reduced = [head.reduce(part, head(), padding_mask, s) for head, part, s in zip(self.heads, parts, scale)]
        return torch.cat([F.pad(r, (0, 0, 0, max_reached - r.size(1))) for r in reduced], -1)


AnyProjection = Projection | HeadProjections


def first_matrix(layout: Layout) -> Tensor:
    """The (k, N) matrix that an E with windows starts from."""
    assert layout.windows is not None
    return layout.windows.triangle() if layout.overlaps else layout.windows.average()


def initial_matrix(init: str, k: int, n: int) -> Tensor:
    """Initialize a (k, n) matrix without windows.

    Args:
        init: ``normal``: standard deviation 0.02, the effective initialization of the authors' code. ``xavier``:
            uniform with gain 1/sqrt(2), which that code intends. ``jl``: variance 1/k, the Johnson-Lindenstrauss
            projection of the paper's proofs.
    """
    matrix = torch.empty(k, n)
    if init == "xavier":
        return nn.init.xavier_uniform_(matrix, gain=1 / math.sqrt(2))
    return nn.init.normal_(matrix, std={"normal": 0.02, "jl": 1 / math.sqrt(k)}[init])
