"""Dropout that keeps a byte for each number until the backward pass.

PyTorch does so on a GPU; on a CPU its ``dropout`` keeps the mask in the type of what it masks, four bytes in single
precision. The same numbers are dropped, with the same seed. The others are scaled by 1 / (1 - p) computed in double
precision, where PyTorch computes it in theirs: of p = 0.01, 0.02 to 0.99, 15 give results in single precision that
differ by a rounding (0.15 does; 0.1, 0.2, 0.3 and 0.5 do not), none in double, half or bfloat16. Gradients in bfloat16
may differ so at 0.1 too.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Zero each number with probability ``p`` and scale the others by 1 / (1 - p); ``x`` itself if not in training."""
    return torch.native_dropout(x, p, True)[0] if training and p > 0 else x


class Dropout(nn.Dropout):
    """``nn.Dropout`` through the above."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training)


def dropped_product(weights: Tensor, values: Tensor, p: float, training: bool = True) -> Tensor:
    """``dropout(weights) @ values``, which keeps for the backward pass the weights and a byte for each of them.

    The product by itself would keep the dropped weights too, as large as the weights, which softmax keeps anyway. They
    are recomputed instead.

    Args:
        weights: (..., m, k)
        values: (..., k, d_h)

    Returns:
        (..., m, d_h)
    """
    if not training or p == 0:
        return weights @ values
    if (
        weights.dtype != values.dtype
    ):  # autocast: softmax gives single precision, maps half. The backward pass has no autocast to match them
        weights = weights.to(values.dtype)
    return _DroppedProduct.apply(weights, values, p)


class _DroppedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weights, values, p):
        dropped, kept = torch.native_dropout(weights, p, True)
        ctx.save_for_backward(weights, values, kept)
        ctx.scale = 1 / (1 - p)
        with torch.autocast(
            values.device.type, enabled=False
        ):  # as in the backward pass: a gradient of the type of the values
            return dropped @ values

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        weights, values, kept = ctx.saved_tensors
        of_values = (weights * kept).mul_(ctx.scale).transpose(-2, -1) @ gradient
        of_weights = (gradient @ values.transpose(-2, -1)).mul_(kept).mul_(ctx.scale)
        return of_weights, of_values, None
