"""One layer: attention and feed-forward network, each with residual and norm.

B sentences, n positions, m positions whose output is needed, d width
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LinformerConfig, default_init
from .attention import LinearMultiheadAttention, SelfAttention, gather_positions
from .dropout import Dropout
from .full_attention import FullAttention
from .linear import AnyProjection, HeadProjections, LinearProjection
from .local_window import LocalWindowAttention
from .pooling import Convolution, MaxPool, MeanPool
from .projection import Projection, default_lr_scale
from .windows import ceil_div, round_singletons

LayerNormFactory = Callable[[int, float], nn.Module]
"""Builds a norm from its width and epsilon."""

ACTIVATION_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_accurate": partial(F.gelu, approximate="tanh"),
    "gelu_fast": partial(F.gelu, approximate="tanh"),
    "linear": nn.Identity(),
    "relu": F.relu,
    "tanh": torch.tanh,
}
"""No lambdas, with which a model could not be pickled."""

CHUNK_ROWS = 1024
"""Positions of all sentences per chunk of the feed-forward network in CPU inference. The hidden states of a chunk, 4 d
per position, fit into the cache, and those of a long input need not be in memory at once."""


class LinformerEncoderLayer(nn.Module):
    """RoBERTa's encoder layer with linear attention, or full attention; parameters have RoBERTa's names.

    Args:
        config: widths, sharing, dropout.
        index: index of the layer; k may differ between layers.
        shared: the projection that all layers share, or None.
        layer_norm: builds the norms.
    """

    def __init__(
        self,
        config: LinformerConfig,
        index: int = 0,
        shared: AnyProjection | None = None,
        layer_norm: LayerNormFactory = nn.LayerNorm,
    ):
        super().__init__()
        self.self_attn = _build_attention(config, index, shared)
        self.self_attn_layer_norm = layer_norm(config.embed_dim, config.layer_norm_eps)
        self.fc1 = nn.Linear(config.embed_dim, config.ffn_embed_dim)
        self.fc2 = nn.Linear(config.ffn_embed_dim, config.embed_dim)
        self.final_layer_norm = layer_norm(config.embed_dim, config.layer_norm_eps)
        self.activation_fn = ACTIVATION_FUNCTIONS[config.activation_fn]
        self.dropout_module = Dropout(config.dropout)
        self.activation_dropout_module = Dropout(config.activation_dropout)
        self.normalize_before = config.normalize_before

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        projection: Tensor | None = None,
        positions: Tensor | None = None,
        masks: Any = None,
    ) -> Tensor:
        """(B, n, d) to (B, m, d); arguments as for ``LinearMultiheadAttention.forward``."""
        residual = gather_positions(x, positions)
        if self.normalize_before:
            x = self.self_attn_layer_norm(x)
        x, _ = self.self_attn(x, padding_mask, projection, positions, masks=masks)
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
        is_inference = not (self.training or torch.is_grad_enabled() or torch.compiler.is_compiling())
        is_chunked = is_inference and x.device.type == "cpu" and x.shape[:-1].numel() > CHUNK_ROWS
        # Each chunk has all sentences, since adapters may differ between sentences.
        chunks = x.split(max(1, CHUNK_ROWS // x.size(0)), 1) if is_chunked else [x]
        outputs = [self.fc2(self.activation_dropout_module(self.activation_fn(self.fc1(chunk)))) for chunk in chunks]
        return torch.cat(outputs, 1) if is_chunked else outputs[0]


def _build_attention(config: LinformerConfig, index: int, shared: AnyProjection | None) -> SelfAttention:
    d, heads, dropout = config.embed_dim, config.attention_heads, config.attention_dropout
    if config.projection == "none":
        return FullAttention(d, heads, dropout)
    E = shared or build_projection(config, index)
    F = build_projection(config, index, "F") if config.has_separate_values else None
    if w := config.local_window:
        return LocalWindowAttention(d, heads, E, F, shared is not None, dropout, local_window=w)
    return LinearMultiheadAttention(d, heads, E, F, shared is not None, dropout)


def build_projection(config: LinformerConfig, layer: int = 0, which: str = "E") -> AnyProjection:
    """Build E or F (``which``) of a layer; with layerwise sharing, the E of all layers."""
    dims = config.projected_dims[layer]
    if isinstance(dims, int):
        return _build_projection(
            config, dims, config.attention_heads if config.sharing == "none" else None, layer, which
        )
    return HeadProjections([_build_projection(config, k, None, layer, which) for k in dims])


def _build_projection(config: LinformerConfig, k: int, heads: int | None, layer: int, which: str) -> Projection:
    n = config.max_positions
    if config.projection == "mean-pool":
        return MeanPool(n, k)
    if config.projection == "max-pool":
        return MaxPool(n, k)
    if config.projection == "random":
        return LinearProjection(n, k, heads, frozen=True, init="jl")
    is_convolution = config.projection == "conv"
    lr_scale = config.projection_lr_scale
    if lr_scale is None:
        lr_scale = default_lr_scale(ceil_div(n, k) if is_convolution else n)
    frozen, init, delay, singletons = config.freeze_projections, config.resolved_init, 0.0, 1
    if is_convolution:
        return Convolution(n, k, config.embed_dim // config.attention_heads, heads, lr_scale, frozen, init)
    if init == "graded":
        singletons, init = round_singletons(k // 2), str(default_init("linear", config.sharing))
    if init == "staggered":
        init = "overlap" if which == "E" and config.has_separate_values else "average"
        delay = 0.5 if layer % 2 else 0.0
    return LinearProjection(n, k, heads, lr_scale, frozen, init, delay, singletons)
