"""One layer: linear attention and feed-forward, each with its residual and norm.

    B sentences, n positions, m positions whose output is needed, d width
"""

from functools import partial
from typing import Callable, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LinformerConfig
from .attention import LinearMultiheadAttention, gather
from .dropout import Dropout
from .pooling import Convolution, MaxPool, MeanPool
from .projection import HeadProjections, LinearProjection, Projection, RandomProjection
from .rate import default_lr_scale
from .windows import longest_window

ACTIVATION_FUNCTIONS: "dict[str, Callable[[Tensor], Tensor]]" = {
    "gelu": F.gelu,
    "gelu_accurate": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_fast": lambda x: F.gelu(x, approximate="tanh"),
    "linear": lambda x: x,
    "relu": F.relu,
    "tanh": lambda x: x.tanh(),
}

ROWS = 1024
"""Positions that the feed-forward of a CPU takes at once in inference: 4 d numbers for each of them stay in the cache,
and a long input does not take memory for 4 d numbers a position."""


class LinformerEncoderLayer(nn.Module):
    """An encoder layer of RoBERTa with linear attention; its parameters have RoBERTa's names.

    Args:
        config: widths, sharing, dropouts.
        index: which layer it is; k may differ from layer to layer.
        shared: the projection of all layers, where they share one.
        linear: makes a linear map from (inputs, outputs).
        layer_norm: makes a norm from a width.
    """

    def __init__(
        self,
        config: LinformerConfig,
        index: int = 0,
        shared: Optional[Projection] = None,
        linear=nn.Linear,
        layer_norm=nn.LayerNorm,
    ):
        super().__init__()
        self.self_attn = LinearMultiheadAttention(
            config.embed_dim,
            config.attention_heads,
            E=shared or projection_of(config, index),
            F=projection_of(config, index, "F") if config.separate_values else None,
            shared=shared is not None,
            dropout=config.attention_dropout,
            linear=linear,
        )
        self.self_attn_layer_norm = layer_norm(config.embed_dim)
        self.fc1 = linear(config.embed_dim, config.ffn_embed_dim)
        self.fc2 = linear(config.ffn_embed_dim, config.embed_dim)
        self.final_layer_norm = layer_norm(config.embed_dim)
        self.activation_fn = ACTIVATION_FUNCTIONS[config.activation_fn]
        self.dropout_module = Dropout(config.dropout)
        self.activation_dropout_module = Dropout(config.activation_dropout)
        self.normalize_before = config.normalize_before

    def forward(
        self,
        x: Tensor,
        padding_mask: Optional[Tensor] = None,
        projection: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
    ) -> Tensor:
        """
        Args:
            x: (B, n, d)
            padding_mask: (B, n), True at padding, or None.
            projection: the matrix or kernel of layerwise sharing.
            positions: (B, m), the positions whose output is needed; None for all.

        Returns:
            (B, m, d), or (B, n, d) without ``positions``.
        """
        residual = x if positions is None else gather(x, positions)
        if self.normalize_before:
            x = self.self_attn_layer_norm(x)
        x, _ = self.self_attn(x, padding_mask, projection, positions)
        x = residual + self.dropout_module(x)
        if not self.normalize_before:
            x = self.self_attn_layer_norm(x)

        residual = x
        if self.normalize_before:
            x = self.final_layer_norm(x)
        x = residual + self.dropout_module(self._feed_forward(x))
        if not self.normalize_before:
            x = self.final_layer_norm(x)
        return x

    def _feed_forward(self, x: Tensor) -> Tensor:
        """fc2(activation(fc1(x))), (B, m, d) to (B, m, d)."""
        in_parts = x.device.type == "cpu" and not (
            self.training or torch.is_grad_enabled() or torch.compiler.is_compiling()
        )
        if in_parts and x.size(0) * x.size(1) > ROWS:
            return torch.cat([self._positionwise(part) for part in x.flatten(0, 1).split(ROWS)]).view_as(x)
        return self._positionwise(x)

    def _positionwise(self, x: Tensor) -> Tensor:
        return self.fc2(self.activation_dropout_module(self.activation_fn(self.fc1(x))))


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
