"""Which projection a model of some shape has, and how many of them."""

from functools import partial
from typing import Optional

from torch import nn

from ..config import LinformerConfig
from .heads import HeadProjections
from .pooling import Convolution, MaxPool, MeanPool
from .projection import LearnedProjection, LinearProjection, Projection, RandomProjection
from .rate import default_lr_scale
from .windows import longest_window


def projection_of(config: LinformerConfig, layer: int = 0, which: str = "E") -> Projection:
    """E or F of a layer; of all of them with layerwise sharing."""
    dims = config.projected_dims[layer]
    one_for_each_head = config.attention_heads if config.sharing == "none" else None
    if isinstance(dims, int):
        return _projection(config, dims, one_for_each_head, layer, which)
    return HeadProjections([_projection(config, k, None, layer, which) for k in dims])


def _projection(config: LinformerConfig, k: int, heads: Optional[int], layer: int, which: str) -> Projection:
    n = config.max_positions
    if config.projection == "mean-pool":
        return MeanPool(n, k)
    if config.projection == "max-pool":
        return MaxPool(n, k)
    if config.projection == "random":
        return RandomProjection(n, k, heads)
    init, delay = config.start, 0.0
    if init == "staggered":
        init = "overlap" if which == "E" and config.separate_values else "average"
        delay = 0.5 if layer % 2 else 0.0
    kind = partial(LinearProjection, delay=delay)
    if config.projection == "conv":
        kind = partial(Convolution, channels=config.embed_dim // config.attention_heads)
    lr_scale = config.projection_lr_scale
    if lr_scale is None:
        lr_scale = default_lr_scale(longest_window(k, n) if config.projection == "conv" else n)
    return kind(n, k, heads=heads, lr_scale=lr_scale, frozen=config.freeze_projections, init=init)


def count_matrices(module: nn.Module) -> int:
    """How many distinct matrices or kernels a model has. At 12 layers of 12 heads: 288 without
    sharing, and as section 4 of the paper counts 24, 12 and 1 with the three kinds of it."""
    return sum(m.heads or 1 for m in module.modules() if isinstance(m, LearnedProjection))
