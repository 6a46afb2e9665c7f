"""The paper's "general projections" (section 4): pooling and convolution over windows.

    B sentences, n positions of this input, N the most positions, k windows, k' those that this input reaches, W
    positions of the longest window, H heads, d width, d_h = d / H

Each window of about n / k positions (windows.py) becomes one projected position. All of them see real tokens only: an
average or a maximum is over those, and a convolution takes padding, the end of the input and the missing place of a
shorter window for zero.
"""

from typing import Optional

import torch
from torch import Tensor, nn

from .order import Order
from .projection import LearnedProjection, Projection
from .windows import inside_windows, longest_window, split_windows


class MeanPool(Projection):
    """The average of each window. No parameters.

    Args:
        n: positions of the longest input.
        k: windows, 1 <= k <= n.
    """

    # The average of K W is the average of K, times W.
    orders = (Order.INPUT, Order.KEYS)

    def __init__(self, n: int, k: int):
        super().__init__(n, k)
        # Its name tells the kind and its shape tells k, for there is no weight that would.
        self.register_buffer("mean_pool", torch.empty(k, 0))

    def reduce(self, x, value=None, padding_mask=None):
        inside = inside_windows(self.k, self.n, x.size(1), padding_mask, x.device)
        counts = inside.sum(-1, keepdim=True).clamp(min=1)  # (B or 1, k', 1)
        return split_windows(x, self.k, self.n).sum(2) / counts


class MaxPool(Projection):
    """The maximum of each window, in each channel of keys and values. No parameters.

    Args:
        n: positions of the longest input.
        k: windows, 1 <= k <= n.
    """

    def __init__(self, n: int, k: int):
        super().__init__(n, k)
        self.register_buffer("max_pool", torch.empty(k, 0))

    def reduce(self, x, value=None, padding_mask=None):
        inside = inside_windows(self.k, self.n, x.size(1), padding_mask, x.device)
        lowest = torch.finfo(x.dtype).min
        highest = split_windows(x, self.k, self.n).masked_fill(~inside.unsqueeze(-1), lowest).amax(2)
        # A window of padding alone is masked out of attention; it must only stay finite.
        return highest.masked_fill(~inside.any(-1, keepdim=True), 0.0)


class Convolution(LearnedProjection):
    """A convolution whose kernel and stride are the window, with weights for each channel.

    Args:
        n, k, heads, lr_scale, frozen: as of ``LinearProjection``, for a kernel in place of a matrix.
        channels: d_h, channels of a head.
        init: ``average``: the kernel averages; ``normal``: N(0, 0.02).
    """

    def __init__(
        self,
        n: int,
        k: int,
        channels: int,
        heads: Optional[int] = None,
        lr_scale: float = 1.0,
        frozen: bool = False,
        init: str = "average",
    ):
        width = longest_window(k, n)
        shape = (channels, width) if heads is None else (heads, channels, width)
        super().__init__(n, k, shape, lr_scale, frozen)
        self.heads = heads
        self.register_buffer("conv", torch.empty(k, 0))
        self.set_(torch.full(shape, 1 / width) if init == "average" else nn.init.normal_(torch.empty(shape), std=0.02))

    def reduce(self, x: Tensor, value: Tensor, padding_mask=None) -> Tensor:
        windows = split_windows(x, self.k, self.n)  # (B, k', W, d)
        channels = value.size(-2) * (self.heads or 1)
        kernel = value.reshape(channels, -1).T  # (W, d_h) or (W, d)
        if self.heads is None:
            windows = windows.unflatten(-1, (-1, channels))  # (B, k', W, H, d_h)
            kernel = kernel.unsqueeze(1)
        return (windows * kernel).sum(2).flatten(2)
