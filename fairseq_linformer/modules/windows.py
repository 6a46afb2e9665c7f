"""Windows: N positions split into k adjacent intervals.

    B sentences, n positions of this input, m query positions, N = max_positions, k windows, k' of them that this input
    reaches, W = ceil(N / k), d width, p = min(singletons, k - 1)

Windows depend on N, not on the input, so a position is in the same window in every sentence. An input of n < N
positions reaches the first k' windows, the last one possibly only in part.

Each of the first p positions is a window of its own, a singleton, and regular windows begin at position p. With k = N
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

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

NO_WINDOWS = -1.0
"""Value of the buffer ``windows`` of a projection without windows."""


@dataclass(frozen=True)
class Windows:
    """The windows of N positions.

    Attributes:
        k, N: number of windows and of positions.
        offset: number of positions by which the edges are shifted.
        singletons: number of singletons; p is at most k - 1 of them.
    """

    k: int
    N: int
    offset: int = 0
    singletons: int = 0

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
        """(k + 1,): the first position of each window, and N."""
        p = self.num_singletons
        i = torch.arange(self.k + 1 - p, device=device)
        edges = p + (i * self.N // self.k if p <= 1 else i * self.shortest + (i - self._num_shortest).clamp(min=0))
        edges[1:] += self.offset
        edges[-1] = self.N
        return torch.cat([torch.arange(p, device=device), edges])

    def num_reached(self, n: int) -> int:
        """k', the number of windows that begin before position n."""
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

    def average(self) -> Tensor:
        """The (k, N) matrix whose row i averages window i. With k = N it is the identity: the Linformer is a
        Transformer."""
        edges = self.edges().unsqueeze(1)
        positions = torch.arange(self.N)
        window = (edges[:-1] <= positions) & (positions < edges[1:])  # (k, N)
        return window / window.sum(1, keepdim=True)

    def triangle(self, device: torch.device | None = None, n: int | None = None) -> Tensor:
        """The (k, N) matrix of overlapping windows. The weights of row i decrease linearly from the middle of window i
        to zero at a distance of N / k positions, or, for p > 1, the length of the shortest regular window, and sum to
        one. A singleton is in its own row only. With k = N it is the identity. In double precision, which Apple's GPUs
        lack.

        Args:
            n: return only what an input of n positions reaches, (k', n).
        """
        p = self.num_singletons
        N, k = (self.N, self.k) if p <= 1 else (self.shortest, 1)
        edges = self.edges(device)
        edges = edges.to(torch.float32 if edges.device.type == "mps" else torch.float64)
        num_rows, num_columns = self.k, self.N
        if n is not None:
            # Windows that are reached begin before n and have at most 2 W + offset positions; weights end W from the
            # middle.
            longest = self.width if p <= 1 else self.shortest + 1
            num_rows, num_columns = self.num_reached(n), torch.sym_min(self.N, n + 3 * longest)
            edges = edges[: num_rows + 1]
        middles = (edges[:-1] + edges[1:] - 1).unsqueeze(1) / 2
        weights = (1 - (torch.arange(num_columns, device=device) - middles).abs() * k / N).clamp(min=0)
        weights[:p] = 0
        weights[:, :p] = torch.eye(self.k, p, device=device)[:num_rows, :num_columns]
        return (weights / weights.sum(1, keepdim=True))[:, :n]

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

    # Pooling and convolution, for p <= 1 and no offset. Regular windows are then those of p = 0, p positions later, the
    # last two of which are one window.

    def _regular(self, n: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """The index of each position, counted after the singleton, and of its regular window, (n,) each; -1 for the
        singleton."""
        positions = torch.arange(n, device=device) - self.num_singletons
        return positions, ((positions + 1) * self.k + self.N - 1) // self.N - 1  # division rounds up

    def indices(self, n: int, device: torch.device | None = None) -> Tensor:
        """(n,): the window of each position."""
        return (self.num_singletons + self._regular(n, device)[1]).clamp(max=self.k - 1)

    def places(self, n: int, device: torch.device | None = None) -> Tensor:
        """(n,): the place of each position in its regular window, less than W; the last place for the singleton."""
        positions, regular = self._regular(n, device)
        return torch.where(regular < 0, self.width - 1, positions - regular * self.N // self.k)

    def sum(self, x: Tensor) -> Tensor:
        """The sum over each window, in single precision at least: (B, n, d) to (B, k', d)."""
        B, n, d = x.shape
        dtype = torch.promote_types(x.dtype, torch.float32)  # half precision would round every partial sum
        sums = x.new_zeros(B, self.num_reached(n), d, dtype=dtype)
        return sums.index_add(1, self.indices(n, x.device), x.to(dtype))

    def max(self, x: Tensor) -> Tensor:
        """The maximum over each window: (B, n, d) to (B, k', d)."""
        B, n, d = x.shape
        highest, indices = x.new_zeros(B, self.num_reached(n), d), self.indices(n, x.device)
        if torch.compiler.is_exporting():  # ONNX has no index_reduce; scatter_reduce takes twice as long
            return highest.scatter_reduce(1, indices.view(1, -1, 1).expand(B, n, d), x, "amax", include_self=False)
        return highest.index_reduce(1, indices, x, "amax", include_self=False)


@dataclass(frozen=True)
class Layout:
    """How the rows of E relate to the input; stored with the weights, which were trained for it.

    Attributes:
        windows: the windows that the rows read; None if each row reads the whole input.
        fills: a row compensates for the tokens that its window lacks.
        overlaps: row i is row i of ``Windows.triangle`` before training, not the average of window i.
        proportional: an average of m keys counts as m keys.
    """

    windows: Windows | None
    fills: bool
    overlaps: bool
    proportional: bool

    @staticmethod
    def decode(k: int, N: int, delay: float, options: Sequence[float]) -> "Layout":
        """The layout that the buffers of a projection describe. They are floats, so that fairseq can average them.

        Args:
            delay: ``windows``, the fraction of a window, in [0, 1), by which edges are shifted; or ``NO_WINDOWS``. It
                is a fraction because half precision rounds large numbers.
            options: ``window_options``: the number of singletons; 1 for fill, 2 also for overlapping windows; 1 for
                proportional.
        """
        singletons, fill, proportional = map(round, options)
        if delay == NO_WINDOWS:
            return Layout(None, fill > 0, False, False)
        windows = Windows(k, N, 0, singletons)
        windows = replace(windows, offset=int(delay * windows.shortest))
        return Layout(windows, fill > 0, fill == 2, proportional > 0)


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
