"""The paper's "general projections" (section 4): pooling and convolution over windows.

    B sentences, n positions of this input, N = max_positions, k windows, k' of them that this input reaches, W
    positions of the longest window, H heads, d width, d_h = d / H

Each window (windows.py) becomes one projected position. Averages and maxima are over real tokens only; a convolution
reads padding, positions after the input and the missing position of a shorter window as zero.
"""

from typing import Any

import torch
from torch import Tensor, nn

from .order import Order
from .projection import LearnedProjection, WindowedProjection
from .windows import Windows


class MeanPool(WindowedProjection):
    """The average of each window; no parameters.

    Args:
        n: N.
        k: number of windows, 1 <= k <= N.
        separate_first: the first position is a window of its own.
        proportional: see ``WindowedProjection``.
    """

    # Averaging commutes with the linear layer.
    orders = (Order.INPUT, Order.KEYS)
    layout: Windows

    def __init__(self, n: int, k: int, separate_first: bool = True, proportional: bool | None = None):
        super().__init__(n, k, Windows(k, n, 0, int(separate_first)), proportional)
        # The state dict has no weight: the name of this buffer records the kind, and its shape k.
        self.register_buffer("mean_pool", torch.empty(k, 0))

    def row_scale(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        counts = self.layout.counts(x.size(1), padding_mask, x.device).clamp(min=1).unsqueeze(-1)  # (B or 1, k', 1)
        scale: Tensor = counts.to(x.dtype).reciprocal()
        return scale

    def reduce(
        self, x: Tensor, value: Tensor | None = None, padding_mask: Tensor | None = None, scale: Any = None
    ) -> Tensor:
        if scale is None:
            scale = self.row_scale(x, padding_mask)
        reduced: Tensor = self.layout.merge(self.layout.split(x).sum(2)) * scale
        return reduced


class MaxPool(WindowedProjection):
    """The maximum of each window in each channel of keys and values; no parameters.

    Args:
        n, k, separate_first, proportional: as for ``MeanPool``.
    """

    layout: Windows

    def __init__(self, n: int, k: int, separate_first: bool = True, proportional: bool | None = None):
        super().__init__(n, k, Windows(k, n, 0, int(separate_first)), proportional)
        self.register_buffer("max_pool", torch.empty(k, 0))

    def reduce(
        self, x: Tensor, value: Tensor | None = None, padding_mask: Tensor | None = None, scale: Any = None
    ) -> Tensor:
        inside = self.layout.split_mask(x.size(1), padding_mask, x.device).unsqueeze(-1)  # (B or 1, rows, W, 1)
        lowest = torch.finfo(x.dtype).min
        highest = self.layout.split(x).masked_fill(~inside, lowest).amax(2)
        highest = self.layout.merge(highest, torch.maximum, lowest)
        # Attention masks windows with only padding, but their values must be finite.
        is_empty = self.layout.counts(x.size(1), padding_mask, x.device) == 0
        return highest.masked_fill(is_empty.unsqueeze(-1), 0.0)


class Convolution(LearnedProjection):
    """A depthwise convolution whose kernel and stride are the window.

    A separate first position meets the kernel's last entry, and the positions of the last window beyond its W-th meet
    the kernel again from its first.

    Args:
        n, k, heads, lr_scale, frozen: as for ``LinearProjection``, with a kernel instead of a matrix.
        channels: d_h, channels of a head.
        init: ``average``: the kernel averages; ``normal``: N(0, 0.02).
        separate_first, proportional: as for ``MeanPool``.
    """

    layout: Windows

    def __init__(
        self,
        n: int,
        k: int,
        channels: int,
        heads: int | None = None,
        lr_scale: float = 1.0,
        frozen: bool = False,
        init: str = "average",
        separate_first: bool = True,
        proportional: bool | None = None,
    ):
        windows = Windows(k, n, 0, int(separate_first))
        shape = (channels, windows.width) if heads is None else (heads, channels, windows.width)
        super().__init__(n, k, windows, proportional, shape, lr_scale, frozen)
        self.heads = heads
        self.register_buffer("conv", torch.empty(k, 0))
        is_average = init == "average"
        self.set_(torch.full(shape, 1 / windows.width) if is_average else nn.init.normal_(torch.empty(shape), std=0.02))

    def row_scale(self, x: Tensor, padding_mask: Tensor | None) -> Tensor | None:
        if not self.fills:
            return None
        counts = self.layout.counts(x.size(1), padding_mask, x.device).clamp(min=1).unsqueeze(-1)
        return self.layout.width / counts.to(x.dtype)

    def reduce(self, x: Tensor, value: Tensor | None, padding_mask: Tensor | None = None, scale: Any = None) -> Tensor:
        assert value is not None
        rows = self.layout.split(x)  # (B, rows, W, d)
        channels = value.size(-2) * (self.heads or 1)
        kernel = value.reshape(channels, -1).T  # (W, d_h) or (W, d)
        if self.heads is None:
            rows = rows.unflatten(-1, (-1, channels))  # (B, rows, W, H, d_h)
            kernel = kernel.unsqueeze(1)
        reduced = self.layout.merge((rows * kernel).sum(2).flatten(2))
        if scale is None:
            scale = self.row_scale(x, padding_mask)
        return reduced if scale is None else reduced * scale
