"""The paper's "general projections" (section 4): pooling and convolution over windows.

    B sentences, n positions of this input, N = max_positions, k windows, k' of them that this input reaches, W
    positions of the longest regular window, H heads, d width, d_h = d / H

Each window (windows.py) becomes one projected position. Averages and maxima are over real tokens only; a convolution
reads padding, positions after the input and the missing position of a shorter window as zero.
"""

import torch
from torch import Tensor, nn

from .order import Order
from .projection import LearnedProjection, Projection
from .windows import Windows, ceil_div


class MeanPool(Projection):
    """The average of each of k windows of N positions; no parameters. The first position is a window of its own."""

    # Averaging commutes with the linear layer.
    orders = (Order.INPUT, Order.KEYS)

    def row_scale(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        counts = _windows(self).counts(x.size(1), padding_mask, x.device).clamp(min=1).unsqueeze(-1)  # (B or 1, k', 1)
        return counts.to(torch.promote_types(x.dtype, torch.float32)).reciprocal()

    def reduce(self, x: Tensor, value: Tensor | None, padding_mask: Tensor | None, scale: Tensor | None) -> Tensor:
        return super().reduce(x, value, padding_mask, scale).to(x.dtype)

    def reduce_unscaled(self, x: Tensor, value: Tensor | None, padding_mask: Tensor | None) -> Tensor:
        return _windows(self).sum(x)  # which may exceed half precision


class MaxPool(Projection):
    """The maximum of each window in each channel of keys and values; no parameters. Otherwise as ``MeanPool``."""

    def reduce_unscaled(self, x: Tensor, value: Tensor | None, padding_mask: Tensor | None) -> Tensor:
        if padding_mask is not None:
            x = x.masked_fill(padding_mask.unsqueeze(-1), torch.finfo(x.dtype).min)
        highest = _windows(self).max(x)
        # Attention masks windows with only padding, but their values must be finite.
        is_empty = _windows(self).counts(x.size(1), padding_mask, x.device) == 0
        return highest.masked_fill(is_empty.unsqueeze(-1), 0.0)


class Convolution(LearnedProjection):
    """A depthwise convolution whose kernel and stride are the window.

    A separate first position meets the kernel's last entry. The last window is two regular ones, of which the second
    meets the kernel again from its first entry.

    Args:
        n, k, heads, lr_scale, frozen: as for ``LinearProjection``, with a kernel instead of a matrix.
        channels: d_h, channels of a head.
        init: ``average``: the kernel averages; ``normal``: N(0, 0.02).
    """

    def __init__(
        self,
        n: int,
        k: int,
        channels: int,
        heads: int | None = None,
        lr_scale: float = 1.0,
        frozen: bool = False,
        init: str = "average",
    ):
        width = ceil_div(n, k)
        shape = (channels, width) if heads is None else (heads, channels, width)
        super().__init__(n, k, shape, lr_scale, frozen)
        self.heads = heads
        is_average = init == "average"
        self.set_(torch.full(shape, 1 / width) if is_average else nn.init.normal_(torch.empty(shape), std=0.02))

    def row_scale(self, x: Tensor, padding_mask: Tensor | None) -> Tensor | None:
        if not self.layout.fills:
            return None
        counts = _windows(self).counts(x.size(1), padding_mask, x.device).clamp(min=1).unsqueeze(-1)
        return _windows(self).width / counts.to(x.dtype)

    def reduce_unscaled(self, x: Tensor, value: Tensor | None, padding_mask: Tensor | None) -> Tensor:
        assert value is not None
        kernel = value.flatten(0, -2).T[_windows(self).places(x.size(1), x.device)]  # (n, d_h), or (n, d) of all heads
        channels = x.unflatten(-1, (-1, kernel.size(1)))  # (B, n, H or 1, d_h or d)
        return _windows(self).sum((channels * kernel.unsqueeze(1)).flatten(2)).to(x.dtype)


def _windows(projection: Projection) -> Windows:
    """The windows, which pools and convolutions always have."""
    assert projection.layout.windows is not None
    return projection.layout.windows
