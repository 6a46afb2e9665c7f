"""E and F: what shortens keys and values from n to k positions.

    B sentences, n positions of this input, N the most positions, k projected positions, k' those that this input
    reaches, H heads, d width, d_h = d / H

Section 4 of the paper: "we add two linear projection matrices E_i, F_i when computing key and value", and under
"general projections" pooling and convolution in place of them (pooling.py). A matrix is written n x k in the paper and
multiplied as (k, n); here it is a plain (k, N) parameter without bias. An input of n < N positions uses its first n
columns.
"""

import math
from typing import Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .order import Order
from .windows import window_average, window_mask, window_triangle, windows_reached

WINDOWED = ("average", "overlap")
"""Starts whose rows stand for windows."""
NO_WINDOWS = -1.0
"""What the buffer ``windows`` holds if there are none."""


class Projection(nn.Module):
    """What every kind of projection is for the attention.

    Most stand for windows: projected position i for window i of the input (windows.py). One whose window holds no real
    token of a sentence is then masked out of its attention: a short sentence attends to its own windows, and the rest
    costs nothing. Where there are no windows, every sentence attends to all k, as equation (7) says.

    Calling it gives its matrix or kernel, or None if it has none; that is handed back to ``reduce``, so that layers
    which share a projection can compute it once.

    Attributes:
        n, k: as above (N and k).
        offset: how many positions later its windows begin; None if it has no windows.
        orders: the orders of multiplication that this kind allows.
    """

    orders: Tuple[Order, ...] = (Order.KEYS,)
    offset: Optional[int] = 0

    def __init__(self, n: int, k: int):
        super().__init__()
        if not 1 <= k <= n:
            raise ValueError(f"k is {k}; it must be between 1 and n, which is {n}")
        self.n, self.k = n, k

    def forward(self) -> Optional[Tensor]:
        """The matrix or kernel."""
        return None

    def reached(self, n: int) -> int:
        """k', the projected positions of an input of n positions."""
        return self.k if self.offset is None else windows_reached(self.k, self.n, n, self.offset)

    def mask(self, n: int, padding_mask: Optional[Tensor]) -> Optional[Tensor]:
        """Which of the k' projected positions are attended to: (B, 1 or H, 1, k'), or None for all."""
        return None if self.offset is None else window_mask(self.k, self.n, n, padding_mask, self.offset)

    def reduce(self, x: Tensor, value: Optional[Tensor], padding_mask: Optional[Tensor]) -> Tensor:
        """(B, n, d) to (B, k', d).

        Args:
            x: what to shorten; zero at padding.
            value: the return value of ``forward``.
            padding_mask: (B, n), True at padding, or None.
        """
        raise NotImplementedError


class LearnedProjection(Projection):
    """A projection with a parameter that learns slowly: E = start + scale * (weight - start).

    How slowly, and why, is in ``rate.py``. The rate is in the parametrisation, so that it works from flags and YAML and
    under any kind of data parallelism: ``weight`` begins at E and receives the gradient of E, so the optimizer updates
    it as it would E, and E moves ``scale`` times as far. That is a learning rate times ``scale`` for every optimizer,
    even if its step depends on the size of the parameter (LAMB, Adafactor's ``--scale-parameter``), and weight decay is
    scaled alike.

    ``start`` and ``scale`` are in the state dict beside ``weight``. A checkpoint with another scale, or with none (a
    plain matrix), is loaded as its E, and learns from there at the rate of this module.
    """

    def __init__(self, n: int, k: int, shape: Tuple[int, ...], lr_scale: float, frozen: bool):
        super().__init__(n, k)
        self.lr_scale = lr_scale
        self.weight = nn.Parameter(torch.zeros(shape), requires_grad=not frozen)
        self._slow = not frozen and lr_scale != 1
        if self._slow:
            self.register_buffer("start", torch.zeros(shape))
            self.register_buffer("scale", torch.tensor(float(lr_scale)))

    def forward(self) -> Tensor:
        """E itself: (k, N) or (H, k, N); of a convolution its kernel."""
        if not self._slow:
            return self.weight
        value = value_of(self.weight.detach(), self.start, self.scale)
        return value + (self.weight - self.weight.detach())  # the gradient of E is that of the weight

    def set_(self, value: Tensor) -> None:
        """Make ``value``, or for each head ``value``, the matrix or kernel."""
        with torch.no_grad():
            self.weight.copy_(value.expand_as(self.weight))
            if self._slow:
                self.start.copy_(self.weight)

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        scale = state_dict.get(prefix + "scale")
        same = self._slow and scale is not None and float(scale) == float(self.scale)
        if prefix + "weight" in state_dict and not same:
            entries = {name: state_dict.pop(prefix + name, None) for name in ("weight", "start", "scale")}
            state_dict[prefix + "weight"] = value_of(**entries)
            if self._slow:
                state_dict[prefix + "start"], state_dict[prefix + "scale"] = state_dict[prefix + "weight"], self.scale
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        state = f"lr_scale={self.lr_scale:g}" if self.weight.requires_grad else "frozen"
        return f"{tuple(self.weight.shape)}, {state}"


def value_of(weight: Tensor, start: Optional[Tensor] = None, scale: Optional[Tensor] = None) -> Tensor:
    """E as the entries of a state dict make it; the entries are left as they are.

    From the start, not from the weight: what E learnt is ``scale`` times the difference, and would be lost in half
    precision as the small difference of numbers that are 1 / scale times as far apart.
    """
    return weight.clone() if start is None else start + scale * (weight - start)


class LinearProjection(LearnedProjection):
    """One matrix E or F, or one for each head.

    Args:
        n: positions of the longest input.
        k: projected positions, 1 <= k <= n.
        heads: None for one matrix that all heads use; H for a matrix for each head.
        lr_scale: learning rate of E relative to that of the other weights.
        frozen: do not train it.
        init: how it starts; see ``starting_matrix``.
        delay: the share of a window, from 0 and less than 1, by which its windows begin later.

    Raises:
        ValueError: k is not between 1 and n.
    """

    def __init__(
        self,
        n: int,
        k: int,
        heads: Optional[int] = None,
        lr_scale: float = 1.0,
        frozen: bool = False,
        init: str = "average",
        delay: float = 0.0,
    ):
        shape = (k, n) if heads is None else (heads, k, n)
        super().__init__(n, k, shape, lr_scale, frozen)
        self.heads = heads
        # It travels with the matrix, because no option says which windows a loaded matrix has. Like all buffers here it
        # is of floating point, or fairseq could not average checkpoints, and a share, not positions, so that half
        # precision holds it.
        delay = delay if init in WINDOWED else NO_WINDOWS
        self.register_buffer("windows", torch.tensor(delay))
        self._read = self.windows, offset_of(delay, k, n)
        # E for all heads can be multiplied first; E_1 ... E_H cannot, without doing it H times.
        self.orders = tuple(Order) if heads is None else (Order.KEYS, Order.SCORES)
        self.set_(
            torch.stack([starting_matrix(init, k, n, self.offset or 0) for _ in range(heads or 1)]).reshape(shape)
        )

    @property
    def offset(self) -> Optional[int]:
        if self._read[0] is not self.windows:  # once for each tensor: on a GPU reading waits for it
            self._read = self.windows, offset_of(float(self.windows), self.k, self.n)
        return self._read[1]

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        if prefix + "weight" in state_dict:
            # A plain matrix, from wherever it comes, is attended to in all its rows.
            state_dict.setdefault(prefix + "windows", torch.tensor(NO_WINDOWS))
            self._read = None, None
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        return super().extra_repr() + (
            "" if self.offset == 0 else ", no windows" if self.offset is None else f", offset {self.offset}"
        )

    def reduce(self, x, value, padding_mask=None):
        E = value[..., : self.reached(x.size(1)), : x.size(1)]
        if self.heads is None:
            # bmm, because E @ x may copy x and then takes twice as long.
            return torch.bmm(E.expand(x.size(0), -1, -1), x)
        return (E @ x.unflatten(-1, (self.heads, -1)).transpose(1, 2)).transpose(1, 2).flatten(2)


def offset_of(delay: float, k: int, n: int) -> Optional[int]:
    """How many positions later windows begin, from what the buffer ``windows`` holds; None if there are none."""
    return None if delay == NO_WINDOWS else int(delay * (n // k))


class RandomProjection(LinearProjection):
    """A fixed random matrix N(0, 1/k), or one for each head; the checkpoint keeps it.

    Args:
        n, k, heads: as of ``LinearProjection``.
    """

    def __init__(self, n: int, k: int, heads: Optional[int] = None):
        super().__init__(n, k, heads, frozen=True, init="jl")
        self.register_buffer("random", torch.empty(k, 0))  # names the kind, as those of pools do


class HeadProjections(Projection):
    """A projection for each head, of different k.

    Keys and values are padded to the largest k, and the padding is masked out.

    Args:
        heads: the projection of each head; all for the same n.
    """

    orders = (Order.KEYS,)

    def __init__(self, heads: Sequence[Projection]):
        super().__init__(heads[0].n, max(head.k for head in heads))
        self.heads = nn.ModuleList(heads)

    def reached(self, n: int) -> int:
        return max(head.reached(n) for head in self.heads)

    def mask(self, n: int, padding_mask: Optional[Tensor]) -> Tensor:
        most = self.reached(n)
        masks = []
        for head in self.heads:
            mask = head.mask(n, padding_mask)  # (B, 1, 1, k') or None
            if mask is None:
                some = next(self.buffers())
                mask = torch.ones(1, 1, 1, head.reached(n), dtype=torch.bool, device=some.device)
            masks.append(F.pad(mask, (0, most - mask.size(-1))))
        return torch.cat(torch.broadcast_tensors(*masks), 1)  # (B or 1, H, 1, k')

    def reduce(self, x, value=None, padding_mask=None):
        most = self.reached(x.size(1))
        parts = x.chunk(len(self.heads), -1)  # (B, n, d_h) each
        reduced = [head.reduce(part, head(), padding_mask) for head, part in zip(self.heads, parts)]
        return torch.cat([F.pad(r, (0, 0, 0, most - r.size(1))) for r in reduced], -1)


def starting_matrix(init: str, k: int, n: int, offset: int = 0) -> Tensor:
    """A new (k, n) matrix.

    Args:
        offset: how many positions later its windows begin, where it has windows.
        init: ``average``: row i averages window i. ``overlap``: weights fall from the middle of window i to a window's
            length from it. ``normal``: of standard deviation 0.02, which is what the authors' code ends up with.
            ``xavier``: uniform with gain 1/sqrt(2), which is what it means to do. ``jl``: of variance 1/k, the
            Johnson-Lindenstrauss projection in the proofs of the paper's theorems.
    """
    if init == "average":
        return window_average(k, n, offset)
    if init == "overlap":
        return window_triangle(k, n, offset)
    matrix = torch.empty(k, n)
    if init == "xavier":
        return nn.init.xavier_uniform_(matrix, gain=1 / math.sqrt(2))
    return nn.init.normal_(matrix, std={"normal": 0.02, "jl": 1 / math.sqrt(k)}[init])


def count_matrices(module: nn.Module) -> int:
    """How many distinct matrices or kernels a model has. At 12 layers of 12 heads: 288 without sharing, and as section
    4 of the paper counts 24, 12 and 1 with its three kinds of sharing."""
    return sum(m.heads or 1 for m in module.modules() if isinstance(m, LearnedProjection))
