"""Which projection a model of some shape has, and how many of them."""

from functools import partial
from typing import Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LinformerConfig
from .order import Order
from .pooling import Convolution, MaxPool, MeanPool
from .projection import LearnedProjection, LinearProjection, Projection
from .rate import default_lr_scale


class HeadProjections(Projection):
    """A projection for each head, of different k.

    What is projected is filled up to the largest k, and what fills is masked out.

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
                some = next(iter(self.buffers()))
                mask = torch.ones(1, 1, 1, head.reached(n), dtype=torch.bool, device=some.device)
            masks.append(F.pad(mask, (0, most - mask.size(-1))))
        return torch.cat(torch.broadcast_tensors(*masks), 1)  # (B or 1, H, 1, k')

    def reduce(self, x, value=None, padding_mask=None):
        most = self.reached(x.size(1))
        parts = x.chunk(len(self.heads), -1)  # (B, n, d_h) each
        reduced = [head.reduce(part, head(), padding_mask) for head, part in zip(self.heads, parts)]
        return torch.cat([F.pad(r, (0, 0, 0, most - r.size(1))) for r in reduced], -1)


def projection_of(config: LinformerConfig, layer: int = 0) -> Projection:
    """E or F of a layer; of all of them with layerwise sharing."""
    dims = config.projected_dims[layer]
    one_for_each_head = config.attention_heads if config.sharing == "none" else None
    if isinstance(dims, int):
        return _projection(config, dims, one_for_each_head)
    return HeadProjections([_projection(config, k, None) for k in dims])


def _projection(config: LinformerConfig, k: int, heads: Optional[int]) -> Projection:
    n = config.max_positions
    if config.projection == "mean-pool":
        return MeanPool(n, k)
    if config.projection == "max-pool":
        return MaxPool(n, k)
    if config.projection == "random":
        return LinearProjection(n, k, heads, frozen=True, init="jl")
    kind = LinearProjection
    if config.projection == "conv":
        kind = partial(Convolution, channels=config.embed_dim // config.attention_heads)
    lr_scale = config.projection_lr_scale
    if lr_scale is None:
        lr_scale = default_lr_scale(n, k)
    return kind(n, k, heads=heads, lr_scale=lr_scale, frozen=config.freeze_projections, init=config.projection_init)


def count_matrices(module: nn.Module) -> int:
    """How many distinct matrices or kernels a model has. At 12 layers of 12 heads: 288 without
    sharing, and as section 4 of the paper counts 24, 12 and 1 with the three kinds of it."""
    return sum(m.heads or 1 for m in module.modules() if isinstance(m, LearnedProjection))
