"""Projections of keys and values from n to k positions: their windows, and how fast they learn.

    B sentences, n positions of this input, m query positions, N = max_positions, k projected positions, k' of them that
    this input reaches, H heads, d width; padding masks are (B, n), True at padding, or None

The kinds of section 4 of the paper are the matrices E and F (linear.py), and pooling and convolution (pooling.py).
"""

from typing import Any

import torch
from torch import Tensor, nn

from .order import Order
from .windows import Windows

KIND_BUFFERS = ("mean_pool", "max_pool", "conv", "random")
"""Buffers by which state dicts of earlier versions recorded the kind of projection."""


class Projection(nn.Module):
    """Base class of the kinds of projection.

    In most of them, projected position i corresponds to window i of the input (windows.py). Attention masks a position
    whose window has no real token of the sentence, so a short sentence attends only to its own windows, and the others
    cost nothing. Without windows every sentence attends to all k positions, as in equation (7). With windows there are
    two corrections for the number of real tokens in each:

    - Fill: a partly filled window averages its real tokens, so its row is multiplied by (window length / real tokens).
      Without windows all rows are multiplied by sqrt(N / real tokens), since a sum of random terms grows with the
      square root of their number. The norm of a projected sentence then does not depend on its length.
    - Proportional attention (Bolya et al. 2023, "Token Merging", equation 1): an average of m keys counts as m keys, so
      the logarithm of its number of real tokens is added to the score of each window.

    Like the start of a matrix, its windows belong to the weights: rows of E stay those of the windows that it was
    trained with, whatever ``projection_init`` of the model that loads it. The buffer ``window_options`` has the number
    of singletons and whether the corrections are on (a fill of 2: with overlapping windows): always in a new projection
    with windows, never in the authors' matrices and in those of version 0.2, which lack the buffer.

    Calling the module returns its matrix or kernel, or None if it has none. The caller passes it to ``reduce``, so that
    layers which share a projection compute it once.

    Args:
        n, k: N and k.
        windows: windows of a new projection; None without windows.

    Attributes:
        orders: supported orders of multiplication.
        layout: the windows in use; None without windows.
        fills, proportional: whether fill and proportional attention are on.
        overlaps: whether the windows overlap, those of a matrix (``Windows.triangle``).
    """

    orders: tuple[Order, ...] = (Order.KEYS,)
    window_options: Tensor

    def __init__(self, n: int, k: int, windows: Windows | None):
        super().__init__()
        self.n, self.k = n, k
        self.layout, self.fills, self.proportional = windows, True, windows is not None
        self.overlaps = False
        # Floats, so that fairseq can average checkpoints.
        options = [0.0, 1.0, 0.0] if windows is None else [float(windows.singletons), 1.0, 1.0]
        self.register_buffer("window_options", torch.tensor(options))

    def forward(self, n: int | None = None) -> Tensor | None:
        """The matrix or kernel, or None.

        Args:
            n: length of the input; a matrix may then lack the rows and columns that it does not reach.
        """
        return None

    def read_options(self) -> None:
        """Use the options stored with loaded weights."""
        # Python numbers, because reading a tensor in forward would synchronize with a GPU and break a graph.
        singletons, fill, counted = map(round, self.window_options.tolist())
        self.layout = self._read_windows(singletons)
        self.fills, self.overlaps = fill > 0, fill == 2
        self.proportional = counted > 0 and self.layout is not None

    def _read_windows(self, singletons: int) -> Windows | None:
        return Windows(self.k, self.n, 0, singletons)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        if any(key.startswith(prefix) for key in state_dict):
            state_dict.setdefault(prefix + "window_options", torch.zeros(3))
        for name in KIND_BUFFERS:
            state_dict.pop(prefix + name, None)
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.read_options()

    def num_reached(self, n: int) -> int:
        """k', the number of projected positions that an input of n positions reaches."""
        return self.k if self.layout is None else self.layout.num_reached(n)

    def geometry(self) -> tuple[Any, ...]:
        """What ``bias`` and ``row_scale`` depend on besides the input: equal ones have equal masks."""
        # Numbers, because PyTorch's compiler does not hash other objects.
        windows = () if self.layout is None else (self.layout.offset, self.layout.singletons)
        return type(self).__name__, self.n, self.k, windows, self.fills, self.overlaps, self.proportional

    def row_scale(self, x: Tensor, padding_mask: Tensor | None) -> Tensor | None:
        """The factor of each row that compensates for missing tokens, (B or 1, k' or 1, 1); None for 1. ``x`` is read
        only for n, the dtype and the device."""
        return None

    def bias(
        self, x: Tensor, padding_mask: Tensor | None, reach: int = 0, positions: Tensor | None = None
    ) -> Tensor | None:
        """The bias that attention adds to the scores, (B or 1, 1 or H, m or 1, k'), float; None for no bias.

        Minus infinity masks a window without real tokens.

        Args:
            x: (B, n, d), read only for n, the dtype and the device.
            reach: tokens up to this distance from a query are attended to exactly, so windows do not count them.
            positions: (B or 1, m), the query positions, needed for a ``reach``.
        """
        n = x.size(1)
        counts_matter = self.proportional and self.k < self.n
        if self.layout is None or not (counts_matter or reach or padding_mask is not None):
            return None
        if reach:
            assert positions is not None
            counts = self.layout.counts_outside(n, padding_mask, reach, positions)  # (B or 1, m, k')
        else:
            counts = self.layout.counts(n, padding_mask, x.device).unsqueeze(1)  # (B or 1, 1, k')
        if padding_mask is not None:
            # A sentence without real tokens keeps all windows, so that no softmax is empty.
            counts = counts.masked_fill(padding_mask.all(1)[:, None, None], 1)
        if not counts_matter:
            counts = counts.clamp(max=1)
        return counts.to(torch.promote_types(x.dtype, torch.float32)).log().unsqueeze(1)

    def reduce(self, x: Tensor, value: Tensor | None, padding_mask: Tensor | None, scale: Tensor | None) -> Tensor:
        """Project positions: (B, n, d), zero at padding, to (B, k', d).

        Args:
            value: the return value of ``forward``.
            scale: the return value of ``row_scale``.
        """
        reduced = self.reduce_unscaled(x, value, padding_mask)
        return reduced if scale is None else reduced * scale

    def reduce_unscaled(self, x: Tensor, value: Tensor | None, padding_mask: Tensor | None) -> Tensor:
        """``reduce`` without the factor of each row."""
        raise NotImplementedError


class LearnedProjection(Projection):
    """A projection with a parameter that learns slowly: E = start + scale * delta, with delta = 0 at first.

    ``rate.py`` explains the rate. It is part of the parametrization, so it works with flags, YAML and any kind of data
    parallelism: ``delta`` receives the gradient of E, the optimizer updates it as it would update E, and E moves
    ``scale`` times as far. Half precision, which would round a small step of an average of 0.5 to nothing, keeps one of
    delta. Weight decay pulls E toward its start, and optimizers whose step depends on the size of a parameter (LAMB,
    Adafactor's ``--scale-parameter``) treat delta like a bias, which also starts from zero.

    A frozen matrix, and one without windows at the full rate, as in the authors' code, is a plain ``weight``. The
    others have ``start``, ``scale`` and ``delta`` in the state dict. Any of these, and those of versions before 0.3
    (``start``, ``scale`` and ``weight``, where delta is weight - start), load into each other: E stays the same. If
    the scale differs, the loaded E is the new start.
    """

    heads: int | None
    weight: nn.Parameter
    delta: nn.Parameter
    start: Tensor
    scale: Tensor

    def __init__(self, n: int, k: int, windows: Windows | None, shape: tuple[int, ...], lr_scale: float, frozen: bool):
        super().__init__(n, k, windows)
        self.is_plain = frozen or (windows is None and lr_scale == 1)
        parameter = nn.Parameter(torch.zeros(shape), requires_grad=not frozen)
        if self.is_plain:
            self.weight = parameter
        else:
            self.delta = parameter
            self.register_buffer("start", torch.zeros(shape))
            self.register_buffer("scale", torch.tensor(float(lr_scale)))

    @property
    def parameter(self) -> nn.Parameter:
        """``delta`` or ``weight``, of the shape of E."""
        return self.weight if self.is_plain else self.delta

    def forward(self, n: int | None = None) -> Tensor:
        """E: (k, N) or (H, k, N), of an input of n positions (k', n) or (H, k', n); the kernel of a convolution."""
        if self.is_plain:
            return self.weight
        start, delta = self.reached(self.start, n), self.reached(self.delta, n)
        E = torch.addcmul(start, self.scale, delta.detach())
        return E + (delta - delta.detach()) if torch.is_grad_enabled() else E  # the gradient of E is that of delta

    def reached(self, matrix: Tensor, n: int | None) -> Tensor:
        """The part of a parameter that an input of n positions reaches: all of a kernel."""
        return matrix

    def set_(self, value: Tensor) -> None:
        """Set the matrix or kernel, of each head, to ``value``, from which it learns."""
        with torch.no_grad():
            if self.is_plain:
                self.weight.copy_(value.expand_as(self.weight))
            else:
                self.start.copy_(value.expand_as(self.start))
                self.delta.zero_()

    def fold_(self) -> None:
        """Store E as a plain ``weight``, without ``start``, ``scale`` and ``delta``, and freeze it."""
        weight = self().detach()
        if not self.is_plain:
            del self.delta, self.start, self.scale
        self.weight, self.is_plain = nn.Parameter(weight, requires_grad=False), True

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        names = [name for name in _ENTRIES if prefix + name in state_dict]
        entries = self._convert_entries({name: state_dict.pop(prefix + name) for name in names})
        state_dict.update({prefix + name: value for name, value in entries.items()})
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _convert_entries(self, entries: dict[str, Tensor]) -> dict[str, Tensor]:
        """The entries of this module, of the same E; incomplete entries are returned as they are."""
        if "weight" in entries and "start" in entries:
            entries = {**entries, "delta": entries["weight"] - entries["start"]}
            del entries["weight"]
        has_delta = entries.keys() == {"start", "scale", "delta"}
        if not has_delta and entries.keys() != {"weight"}:
            return entries
        if has_delta and not self.is_plain and float(entries["scale"]) == float(self.scale):
            return entries
        E = entries["start"] + entries["scale"] * entries["delta"] if has_delta else entries["weight"]
        if self.is_plain:
            return {"weight": E}
        return {"start": E, "scale": self.scale, "delta": torch.zeros_like(E)}


_ENTRIES = ("weight", "start", "scale", "delta")
"""Names that ``LearnedProjection`` has had in state dicts."""


def learned_projections(module: nn.Module) -> list[LearnedProjection]:
    """Each stored E and F of a module; those of all heads are one tensor if their sizes are equal."""
    return [m for m in module.modules() if isinstance(m, LearnedProjection)]


def count_matrices(module: nn.Module) -> int:
    """Number of distinct matrices or kernels of a model.

    With 12 layers and 12 heads 288 without sharing, and 24, 12 and 1 with the three kinds of section 4 of the paper.
    """
    return sum(projection.heads or 1 for projection in learned_projections(module))
