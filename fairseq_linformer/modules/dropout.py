"""Dropout that stores one byte per number for the backward pass.

PyTorch does so on a GPU; on a CPU its ``dropout`` stores the mask in the input's dtype, four bytes in single precision.
With the same seed the same numbers are dropped. The others are scaled by 1 / (1 - p) in double precision, whereas
PyTorch computes it in the input's: for some p the results differ by a rounding.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each number with probability ``p`` and scale the others by 1 / (1 - p)."""
    return torch.native_dropout(x, p, True)[0] if p > 0 else x


class Dropout(nn.Dropout):
    """``nn.Dropout`` that stores one byte per number."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p if self.training else 0.0)


def dropped_product(weights: Tensor, values: Tensor, p: float) -> Tensor:
    """``dropout(weights) @ values`` that stores the weights and one byte per weight for the backward pass.

    A plain product also stores the dropped weights, as large as the weights, which softmax stores anyway. Here they are
    recomputed.

    Args:
        weights: (..., m, k)
        values: (..., k, d_h)

    Returns:
        (..., m, d_h)
    """
    if p == 0:
        return weights @ values
    if weights.dtype != values.dtype:
        # Under autocast softmax returns single precision and linear layers half; backward runs without autocast.
        weights = weights.to(values.dtype)
    product: Tensor = _DroppedProduct.apply(weights, values, p)  # type: ignore[no-untyped-call]
    return product


class _DroppedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, p: float) -> Tensor:
        dropped, mask = torch.native_dropout(weights, p, True)
        ctx.save_for_backward(weights, values, mask)
        ctx.scale = 1 / (1 - p)
        # Not under autocast, so that gradients have the dtype of the values; the meta device has none.
        with torch.autocast("cpu" if values.is_meta else values.device.type, enabled=False):
            return dropped @ values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, values, mask = ctx.saved_tensors
        values_gradient = (weights * mask).mul_(ctx.scale).transpose(-2, -1) @ gradient
        weights_gradient = (gradient @ values.transpose(-2, -1)).mul_(mask).mul_(ctx.scale)
        return weights_gradient, values_gradient, None
