"""E and F: the matrices that shorten keys and values from n to k positions.

    B sentences, n positions, k projected positions, H heads

Section 4 of the paper: "we add two linear projection matrices E_i, F_i when computing
key and value". It writes them as n x k and multiplies them as (k, n); here they are plain
(k, n) parameters without bias. An input of n' < n positions uses their first n' columns.
"""

from typing import Optional

import torch
from torch import Tensor, nn

from ..config import LinformerConfig


def window_average(k: int, n: int) -> Tensor:
    """The (k, n) matrix whose row i averages the i-th of k adjoining windows of positions.

    Row i covers the positions ``i * n // k`` up to, not including, ``(i + 1) * n // k``;
    with k = n it is the identity, and the Linformer is the Transformer.

    Raises:
        ValueError: k is not between 1 and n.
    """
    if not 1 <= k <= n:
        raise ValueError(f"k is {k}; it must be between 1 and n, which is {n}")
    edges = torch.arange(k + 1).unsqueeze(1) * n // k
    positions = torch.arange(n)
    window = (edges[:-1] <= positions) & (positions < edges[1:])  # (k, n)
    return window / window.sum(1, keepdim=True)


class _Scale(torch.autograd.Function):
    """``scale * weight``, and the gradient of the product handed to ``weight`` as it is.

    Not the derivative, on purpose. The derivative is ``scale`` times smaller, and Adam's eps,
    which is 1e-6 in RoBERTa's recipe, would then slow E down a second time.
    """

    @staticmethod
    def forward(ctx, weight: Tensor, scale: Tensor) -> Tensor:
        return weight * scale

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return gradient, None


class Projection(nn.Module):
    """One E or F, or one of them for each head: ``scale * weight``.

    It is initialised with window averages and learns slowly. Both matter more than anything
    else in training a small Linformer: from N(0, 0.02) at the common rate the model does not
    leave the plateau of a model without context for thousands of updates. The reason: Adam
    moves every entry by about the learning rate, whatever its gradient, and a row has n
    entries, so that at the common rate its random walk soon outweighs the average.

    The slow rate is in the parametrisation, so that it works from flags and YAML and under
    any kind of data parallelism: the parameter is E / scale, the optimizer is handed the
    gradient with respect to E, and so its step on the parameter, whatever it is, arrives at E
    times ``scale``. That is a learning rate times ``scale`` for SGD, Adam, Adagrad and all
    optimizers whose step does not depend on the size of the parameter; LAMB and Adafactor's
    ``--scale-parameter`` undo it. Weight decay shrinks E at the common rate.

    ``scale`` travels in the state dict beside ``weight``: whatever scale a checkpoint was
    trained with, what is loaded is its E, and learns on at the rate of this module.

    Args:
        n: positions of the longest input.
        k: projected positions, 1 <= k <= n.
        heads: None for one matrix that all heads use; H for a matrix for each head.
        lr_scale: learning rate of E relative to that of the other weights.
        frozen: do not train it.

    Raises:
        ValueError: k is not between 1 and n.
    """

    def __init__(
        self, n: int, k: int, heads: Optional[int] = None, lr_scale: float = 1.0, frozen: bool = False
    ):
        super().__init__()
        self.n, self.k, self.heads, self.lr_scale = n, k, heads, lr_scale
        shape = (k, n) if heads is None else (heads, k, n)
        self.register_buffer("scale", torch.tensor(float(lr_scale)))
        self.weight = nn.Parameter(torch.empty(shape), requires_grad=not frozen)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every matrix to window averages."""
        self.set_(window_average(self.k, self.n))

    def forward(self) -> Tensor:
        """The matrix itself: (k, n) or (H, k, n)."""
        return _Scale.apply(self.weight, self.scale)

    def set_(self, matrix: Tensor) -> None:
        """Make this matrix, of shape (k, n) or (H, k, n), the projection."""
        with torch.no_grad():
            self.weight.copy_((matrix / self.lr_scale).expand_as(self.weight))

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        # A checkpoint without a scale holds E itself.
        key = prefix + "weight"
        theirs = float(state_dict.get(prefix + "scale", 1.0))
        if key in state_dict and theirs != float(self.scale):
            state_dict[key] = state_dict[key] * (theirs / float(self.scale))
        state_dict[prefix + "scale"] = self.scale
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        heads = "" if self.heads is None else f"heads={self.heads}, "
        frozen = "" if self.weight.requires_grad else ", frozen"
        return f"{heads}k={self.k}, n={self.n}, lr_scale={self.lr_scale:g}{frozen}"


def projection_of(config: LinformerConfig) -> Projection:
    """One E or F as a model of this shape has it."""
    return Projection(
        config.max_positions,
        config.projected_dim,
        heads=config.attention_heads if config.sharing == "none" else None,
        lr_scale=config.projection_lr_scale,
        frozen=config.freeze_projections,
    )


def count_matrices(module: nn.Module) -> int:
    """How many distinct (k, n) matrices a model has. At 12 layers of 12 heads: 288 without
    sharing, and as section 4 of the paper counts 24, 12 and 1 with the three kinds of it."""
    return sum(m.heads or 1 for m in module.modules() if isinstance(m, Projection))
