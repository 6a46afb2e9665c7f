"""Projections of keys and values from n to k positions: their windows, and how fast they learn.

    B sentences, n positions of this input, m query positions, N = max_positions, k projected positions, k' of them that
    this input reaches, H heads, d width; padding masks are (B, n), True at padding, or None

The kinds of section 4 of the paper are the matrices E and F (linear.py), and pooling and convolution (pooling.py).
"""

from typing import Any

import torch
from torch import Tensor, nn

from .order import Order
from .windows import NO_WINDOWS, Layout

KIND_BUFFERS = ("mean_pool", "max_pool", "conv", "random")
"""Buffers by which state dicts of earlier versions recorded the kind of projection."""


class Projection(nn.Module):
    """Base class of the kinds of projection.

    In most of them, projected position i corresponds to window i of the input (windows.py). Attention masks a position
    whose window has no real token of the sentence, so a short sentence attends only to its own windows, and the others
    cost nothing. Without windows every sentence attends to all k positions, as in equation (7). With windows there are
    two corrections for the number of real tokens in each:

    - Fill: a partly filled window averages its real tokens, so its row is multiplied by (window length / real tokens);
      that of an overlapping window is divided by the sum of its first weights at real tokens. Without windows all rows
      are multiplied by sqrt(N / real tokens), since a sum of random terms grows with the square root of their number.
      The norm of a projected sentence then does not depend on its length.
    - Proportional attention (Bolya et al. 2023, "Token Merging", equation 1): an average of m keys counts as m keys, so
      the logarithm of its number of real tokens is added to the score of each window.

    The layout belongs to the weights: rows of E stay those of the windows that it was trained with, whatever
    ``projection_init`` of the model that loads it. New projections with windows have both corrections, the authors'
    matrices neither.

    Calling the module returns its matrix or kernel, or None if it has none. The caller passes it to ``reduce``, so that
    layers which share a projection compute it once.

    Args:
        n, k: N and k.
        delay: fraction of a window by which the windows are shifted; ``NO_WINDOWS`` for none.
        singletons: number of positions at the beginning that are windows of their own.
        overlaps: whether windows overlap.

    Attributes:
        orders: supported orders of multiplication.
        layout: decoded from the buffers ``windows`` and ``window_options``.
    """

    orders: tuple[Order, ...] = (Order.KEYS,)
    windows: Tensor
    window_options: Tensor

    def __init__(self, n: int, k: int, delay: float = 0.0, singletons: int = 1, overlaps: bool = False):
        super().__init__()
        self.n, self.k = n, k
        options = [0.0, 1.0, 0.0] if delay == NO_WINDOWS else [float(singletons), 1.0 + overlaps, 1.0]
        self.register_buffer("windows", torch.tensor(delay))
        self.register_buffer("window_options", torch.tensor(options))
        self.layout = Layout.decode(k, n, delay, options)

    def forward(self, n: int | None = None) -> Tensor | None:
        """The matrix or kernel, or None.

        Args:
            n: length of the input; a matrix may then lack the rows and columns that it does not reach.
        """
        return None

    def finish_loading(self) -> None:
        """Use what has been loaded into the buffers."""
        # Once, because reading a tensor in forward would synchronize with a GPU and break a graph.
        self.layout = Layout.decode(self.k, self.n, float(self.windows), self.window_options.tolist())

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        upgrade_entries(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.finish_loading()

    def num_reached(self, n: int) -> int:
        """k', the number of projected positions that an input of n positions reaches."""
        return self.k if self.layout.windows is None else self.layout.windows.num_reached(n)

    def geometry(self) -> tuple[Any, ...]:
        """What ``bias`` and ``row_scale`` depend on besides the input: equal ones have equal masks."""
        # Numbers, because PyTorch's compiler does not hash other objects.
        layout, windows = self.layout, self.layout.windows
        edges = () if windows is None else (windows.offset, windows.singletons)
        return type(self).__name__, self.n, self.k, edges, layout.fills, layout.overlaps, layout.proportional

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
        n, windows = x.size(1), self.layout.windows
        counts_matter = self.layout.proportional and self.k < self.n
        if windows is None or not (counts_matter or reach or padding_mask is not None):
            return None
        if reach:
            assert positions is not None
            counts = windows.counts_outside(n, padding_mask, reach, positions)  # (B or 1, m, k')
        else:
            counts = windows.counts(n, padding_mask, x.device).unsqueeze(1)  # (B or 1, 1, k')
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
    """A projection with a parameter that learns slowly: E = start + scale * delta.

    ``default_lr_scale`` explains the rate. It is part of the parametrization, so it works with flags, YAML and any kind
    of data parallelism: ``delta``, at first zero, receives the gradient of E, the optimizer updates it as it would
    update E, and E moves ``scale`` times as far. Half precision, which would round a small step of an average of 0.5 to
    nothing, keeps one of delta. Weight decay pulls E toward its start, and optimizers whose step depends on the size of
    a parameter (LAMB, Adafactor's ``--scale-parameter``) treat delta like a bias, which also starts from zero.

    A matrix without windows at the full rate, as in the authors' code, is all delta, which weight decay pulls to zero:
    its start is 0 and its scale 1.

    Args:
        n, k, delay, singletons, overlaps: as for ``Projection``.
        shape: of the matrix or kernel.
        lr_scale: learning rate of E relative to that of the other weights. A loaded E of another scale stays the same,
            and is where this one starts.
        frozen: do not train E.
    """

    heads: int | None
    start: Tensor
    scale: Tensor

    def __init__(self, n: int, k: int, shape: tuple[int, ...], lr_scale: float, frozen: bool, **windows: Any):
        super().__init__(n, k, **windows)
        self.lr_scale = lr_scale
        self.delta = nn.Parameter(torch.zeros(shape), requires_grad=not frozen)
        self.register_buffer("start", torch.zeros(shape))
        self.register_buffer("scale", torch.tensor(float(lr_scale)))

    def forward(self, n: int | None = None) -> Tensor:
        """E: (k, N) or (H, k, N), of an input of n positions (k', n) or (H, k', n); the kernel of a convolution."""
        start, delta = self.reached(self.start, n), self.reached(self.delta, n)
        # Sharded training (FSDP) may gather parameters in half precision, and leave buffers as they are.
        E = torch.addcmul(start, self.scale, delta.detach()).to(delta.dtype)
        return E + (delta - delta.detach()) if torch.is_grad_enabled() else E  # the gradient of E is that of delta

    def reached(self, matrix: Tensor, n: int | None) -> Tensor:
        """The part of a parameter that an input of n positions reaches: all of a kernel."""
        return matrix

    def set_(self, value: Tensor) -> None:
        """Set the matrix or kernel, of each head, to ``value``, from which it learns."""
        is_all_delta = self.layout.windows is None and self.lr_scale == 1
        with torch.no_grad():
            self.start.zero_()
            self.delta.zero_()
            (self.delta if is_all_delta else self.start).copy_(value)

    def finish_loading(self) -> None:
        super().finish_loading()
        own = torch.tensor(self.lr_scale, dtype=self.scale.dtype, device=self.scale.device)
        if self.scale != own:
            with torch.no_grad():
                self.start.addcmul_(self.scale, self.delta)
                self.delta.zero_()
                self.scale.copy_(own)


def upgrade_entries(state: dict[str, Tensor], prefix: str) -> None:
    """Bring the entries of a projection of an earlier version, if there are any, into the form of this one.

    Args:
        state: state dict, modified in place.
        prefix: of the projection, such as ``layers.0.self_attn.E.``.
    """
    if prefix + "weight" in state:  # E itself, or before version 0.3 start + delta
        weight = state.pop(prefix + "weight")
        start = state.setdefault(prefix + "start", torch.zeros_like(weight))
        state.setdefault(prefix + "scale", weight.new_ones(()))
        state[prefix + "delta"] = weight - start
    if any(key.startswith(prefix) for key in state):
        state.setdefault(prefix + "windows", torch.tensor(0.0))  # which pools and convolutions lacked
        state.setdefault(prefix + "window_options", torch.zeros(3))  # version 0.2: without the corrections
    for name in KIND_BUFFERS:
        state.pop(prefix + name, None)


def learned_projections(module: nn.Module) -> list[LearnedProjection]:
    """Each stored E and F of a module; those of all heads are one tensor if their sizes are equal."""
    return [m for m in module.modules() if isinstance(m, LearnedProjection)]


def default_lr_scale(fan_in: int) -> float:
    """Learning rate of E and F relative to that of the other weights: 16 / fan-in, at most 1.

    A row of E has n entries, and an optimizer such as Adam moves each by about the learning rate, regardless of its
    gradient. The random walk of a row therefore grows with n, while the window averages that it starts from do not: at
    the common rate the noise soon outweighs them. This is the usual rule that the learning rate of a matrix is
    proportional to 1 / fan-in, which here is n rather than the width of the model.

    Measured with 1, 1/4, 1/16, ... (headwise sharing, from window averages; perplexity, mean of three seeds), the best
    rate falls roughly as 1 / n: 1 to 1/4 at n = 16, 1/4 at 32, 1/4 to 1/16 at 64 and 128, 1/16 at 256, and between 1/16
    and 1/64 at 512. Sharing and k hardly change it (``git show 19017544:fairseq_linformer/modules/rate.py``).

    Args:
        fan_in: max_positions, or the window length of a convolution (by the same argument; not measured).
    """
    return min(1.0, 16 / fan_in)
