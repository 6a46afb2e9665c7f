"""Windows: N positions split into k adjacent intervals.

    B sentences, n positions of this input, m query positions, N = max_positions, k windows, k' of them that this input
    reaches, W = ceil(N / k), d width, p = min(singletons, k - 1)

Windows depend on N, not on the input, so a position is in the same window in every sentence. An input of n < N
positions reaches the first k' windows, the last one possibly only in part.

Each of the first p positions is a window of its own, a singleton, and regular windows start at position p. With k = N
each window is one position for any p.

- p = 0: regular window i covers the positions from ``i * N // k`` up to, not including, ``(i + 1) * N // k``. Lengths
  differ by at most one.
- p = 1: many heads of trained encoders attend to the first position, ``<s>``, when they need no other token; averaging
  it with text breaks them. Regular windows are those of p = 0, one position later, and the last one also covers the
  remaining positions, at most W - 1.
- p > 1: an input of at most p positions is not averaged. The k - p regular windows divide the other N - p positions
  into lengths that differ by at most one, the shorter windows first, so that a larger N can have the same ones.

An ``offset``, less than the shortest regular window, shifts all edges of regular windows to later positions, except the
first and the last: the first regular window is longer and the last one shorter.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Windows:
    """The windows of N positions.

    Attributes:
        k, N: number of windows and of positions.
        offset: number of positions by which the edges are shifted.
        singletons: number of singletons; p is at most k - 1 of them.

    Raises:
        ValueError: k is not between 1 and N, p is negative, or the offset is not less than the shortest regular window.
    """

    k: int
    N: int
    offset: int = 0
    singletons: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.N:
            raise ValueError(f"k must be between 1 and n ({self.N}), got {self.k}")
        if self.singletons < 0:
            raise ValueError(f"singletons must be at least 0, got {self.singletons}")
        if not 0 <= self.offset < self.shortest:
            raise ValueError(f"offset must be at least 0 and less than a window ({self.shortest}), got {self.offset}")

    @property
    def width(self) -> int:
        """W; used only for p <= 1."""
        return ceil_div(self.N, self.k)

    @property
    def num_singletons(self) -> int:
        """p."""
        return min(self.singletons, self.k - 1)

    @property
    def shortest(self) -> int:
        """Length of the shortest regular window without an offset."""
        p = self.num_singletons
        return self.N // self.k if p <= 1 else (self.N - p) // (self.k - p)

    @property
    def _num_shortest(self) -> int:
        """Number of regular windows of that length, for p > 1."""
        num_regular = self.k - self.num_singletons
        return num_regular - (self.N - self.num_singletons) % num_regular

    def edges(self, device: torch.device | None = None) -> Tensor:
        """(k + 1,): the start of each window, and N."""
        p = self.num_singletons
        i = torch.arange(self.k + 1 - p, device=device)
        edges = p + (i * self.N // self.k if p <= 1 else i * self.shortest + (i - self._num_shortest).clamp(min=0))
        edges[1:] += self.offset
        edges[-1] = self.N
        return torch.cat([torch.arange(p, device=device), edges])

    def num_reached(self, n: int) -> int:
        """k', the number of windows that start before position n."""
        p = self.num_singletons
        n_regular = torch.sym_max(0, n - p - self.offset)  # n is symbolic in torch.export
        if p <= 1:
            num_regular = ceil_div(n_regular * self.k, self.N)
        else:
            after = torch.sym_max(0, n_regular - self._num_shortest * self.shortest)  # positions after those windows
            num_regular = torch.sym_min(self._num_shortest, ceil_div(n_regular, self.shortest))
            num_regular += ceil_div(after, self.shortest + 1)
        num_regular = torch.sym_max(1, torch.sym_min(self.k - p, num_regular))
        reached: int = torch.sym_max(1, torch.sym_min(n, p + num_regular))
        return reached

    def sizes(self, device: torch.device | None = None) -> Tensor:
        """(k,): the number of positions of each window."""
        return self.edges(device).diff()

    def average(self) -> Tensor:
        """The (k, N) matrix whose row i averages window i. With k = N it is the identity: the Linformer is a
        Transformer."""
        edges = self.edges().unsqueeze(1)
        positions = torch.arange(self.N)
        window = (edges[:-1] <= positions) & (positions < edges[1:])  # (k, N)
        return window / window.sum(1, keepdim=True)

    def triangle(self, device: torch.device | None = None) -> Tensor:
        """The (k, N) matrix of overlapping windows. The weights of row i decrease linearly from the middle of window i
        to zero at a distance of N / k positions, or, for p > 1, the length of the shortest regular window, and sum to
        one. A singleton is in its own row only. With k = N it is the identity. In double precision."""
        p = self.num_singletons
        N, k = (self.N, self.k) if p <= 1 else (self.shortest, 1)
        edges = self.edges(device).double()
        middles = (edges[:-1] + edges[1:] - 1).unsqueeze(1) / 2
        weights = (1 - (torch.arange(self.N, device=device) - middles).abs() * k / N).clamp(min=0)
        weights[:p] = 0
        weights[:, :p] = torch.eye(self.k, p, device=device)
        return weights / weights.sum(1, keepdim=True)

    def counts(self, n: int, padding_mask: Tensor | None, device: torch.device | None = None) -> Tensor:
        """The number of real tokens in each window, (B or 1, k').

        Args:
            padding_mask: (B, n), True at padding; or None.
        """
        edges = self.edges(device)[: self.num_reached(n) + 1].clamp(max=n)
        return edges.diff().unsqueeze(0) if padding_mask is None else _count_before(padding_mask)[:, edges].diff()

    def counts_outside(self, n: int, padding_mask: Tensor | None, reach: int, positions: Tensor) -> Tensor:
        """The number of real tokens in each window farther than ``reach`` from each position, (B or 1, m, k').

        Args:
            padding_mask: (B, n), True at padding; or None.
            positions: (B or 1, m)
        """
        edges = self.edges(positions.device)[: self.num_reached(n) + 1].clamp(max=n)
        # Edges of the part of each window within reach, (B or 1, m, k' + 1): those of the window, clamped to the reach.
        low, high = (positions - reach).clamp(min=0).unsqueeze(-1), (positions + reach + 1).clamp(max=n).unsqueeze(-1)
        near = torch.minimum(torch.maximum(edges, low), high)
        if padding_mask is None:
            return edges.diff() - near.diff()
        before = _count_before(padding_mask)
        near = near.expand(before.size(0), -1, -1)
        counts_near = before.gather(1, near.flatten(1)).view_as(near).diff()
        return before[:, edges].diff().unsqueeze(1) - counts_near

    # Pooling and convolution read windows as rows of W positions. For p <= 1 and no offset.

    def num_rows(self, n: int) -> int:
        """The number of rows of ``split``."""
        p = self.num_singletons
        return p + ceil_div((n - p) * self.k, self.N)

    def split(self, x: Tensor) -> Tensor:
        """Split (B, n, d) into rows of W positions, (B, rows, W, d), with zeros where a row has no position.

        Each reached window is a row. Positions of the last window beyond W form another row, which ``merge`` combines
        with it. A singleton is the last of its row.
        """
        n, p, W = x.size(1), self.num_singletons, self.width
        if self.N % self.k == 0:
            num_rows, before = self.num_rows(n), p * (W - 1)
            rows: Tensor = F.pad(x, (0, 0, before, num_rows * W - before - n)).unflatten(1, (num_rows, W))
            return rows
        positions, is_inside = self._row_positions(n, x.device)
        return x[:, positions.clamp(0, n - 1)] * is_inside.unsqueeze(-1)

    def split_mask(self, n: int, padding_mask: Tensor | None, device: torch.device | None = None) -> Tensor:
        """True where ``split`` puts a real token: (B or 1, rows, W)."""
        positions, is_inside = self._row_positions(n, device)
        if padding_mask is None:
            return is_inside.unsqueeze(0)
        return is_inside & ~padding_mask[:, positions.clamp(0, n - 1)]

    def merge(
        self, rows: Tensor, combine: Callable[[Tensor, Tensor], Tensor] = torch.add, neutral: float = 0.0
    ) -> Tensor:
        """Combine the two rows of the last window: (B, rows, ...) to (B, k', ...).

        Args:
            combine: an operation on two rows.
            neutral: its neutral element.
        """
        if torch.compiler.is_exporting():
            # For any number of rows: the second row of the last window, if any, after neutral rows.
            reached = torch.sym_min(self.k, rows.size(1))
            rest = rows[:, reached:]
            padding = [0] * (2 * (rows.dim() - 2))
            rest = F.pad(rest, (*padding, reached - rest.size(1), 0), value=neutral)
            return combine(rows[:, :reached], rest)
        if rows.size(1) <= self.k:
            return rows
        return torch.cat([rows[:, : self.k - 1], combine(rows[:, self.k - 1 : self.k], rows[:, self.k :])], 1)

    def _row_positions(self, n: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """The positions of each row of ``split``, (rows, W), and which of them it contains."""
        p, W = self.num_singletons, self.width
        edges = torch.arange(self.k + 1, device=device) * self.N // self.k + p
        num_regular = self.num_rows(n) - p
        starts, ends = edges[:num_regular], edges[1 : num_regular + 1].clamp(max=n)
        if p:
            starts, ends = F.pad(starts, (1, 0), value=1 - W), F.pad(ends, (1, 0), value=1)
        positions = starts.unsqueeze(1) + torch.arange(W, device=device)
        return positions, (positions >= 0) & (positions < ends.unsqueeze(1))


def graded_singletons(k: int) -> int:
    """Number of singletons of ``graded`` windows: k / 2."""
    return round_singletons(k // 2)


def round_singletons(number: int) -> int:
    """The number, at least 1, rounded down to one that ``window_options`` holds in bfloat16, with its 8 bits."""
    step = 1 << max(0, number.bit_length() - 8)
    return max(1, number // step * step)


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up, for a > -b. Unlike ``-(-a // b)`` it divides no negative number, which ONNX rounds up."""
    return (a + b - 1) // b


def _count_before(padding_mask: Tensor) -> Tensor:
    """The number of real tokens before each position and in total, (B, n + 1)."""
    return F.pad((~padding_mask).cumsum(1), (1, 0))
