"""A Transformer encoder that differs from the Linformer's in attention only.

B sentences, n positions, m query positions, H heads, d width, d_h = d / H
"""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from ..modules.attention import gather_positions

KERNELS = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,  # where none is fused, as on a CPU with dropout
]
"""Kernels of ``sdpa``, of which the first that supports the shape is used: cuDNN's was the fastest on an H100, and
PyTorch's own order has it last."""


class FullAttention(nn.Module):
    """Multi-head self-attention over all n positions, with the Linformer's parameter names.

    Args:
        embed_dim, num_heads: d and H.
        dropout: probability of dropping an attention weight in training.
        kind: ``eager``, materialized weights, as in 2020; or ``sdpa``, PyTorch's fused attention.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float, kind: str):
        super().__init__()
        self.num_heads, self.dropout, self.kind = num_heads, dropout, kind
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def mask_key(self, n: int, positions: Tensor | None = None) -> tuple[()]:
        return ()

    def masks(self, x: Tensor, padding_mask: Tensor | None = None, positions: Tensor | None = None) -> None:
        """Full attention has no windows."""

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        projection: Tensor | None = None,
        positions: Tensor | None = None,
        masks: None = None,
    ) -> tuple[Tensor, None]:
        """(B, n, d) to (B, m, d), with ``padding_mask`` (B, n) and ``positions`` (B, m) as in
        ``LinearMultiheadAttention``; ``projection`` and ``masks`` are ignored."""
        queries = x if positions is None else gather_positions(x, positions)
        q, k, v = (
            f(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for f, y in ((self.q_proj, queries), (self.k_proj, x), (self.v_proj, x))
        )
        mask = None if padding_mask is None else ~padding_mask[:, None, None]  # (B, 1, 1, n), True at real tokens
        dropout = self.dropout if self.training else 0.0
        if self.kind == "sdpa":
            with sdpa_kernel(KERNELS, set_priority=True):
                context = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        else:
            scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)
            if mask is not None:
                scores = scores.masked_fill(~mask, -math.inf)
            context = F.dropout(torch.softmax(scores, -1), dropout) @ v
        return self.out_proj(context.transpose(1, 2).flatten(2)), None


def build_transformer(config: LinformerConfig, kind: str) -> LinformerEncoder:
    """Build the same encoder with full attention, ``eager`` or ``sdpa``. Its last layer also computes only the
    positions that are read; k and sharing are ignored."""
    # mean pooling has no parameters
    encoder = LinformerEncoder(
        replace(config, projected_dim=1, sharing="layerwise", projection="mean-pool", projection_init=None)
    )
    for layer in encoder.layers:
        layer.self_attn = FullAttention(config.embed_dim, config.attention_heads, config.attention_dropout, kind)
    return encoder


def build_materialized(config: LinformerConfig) -> LinformerEncoder:
    """Build a Linformer whose attention materializes its n x k weights, as ``eager`` does its n x n, and frees them
    before the feed-forward."""

    def ask_for_weights(module, arguments, keywords):
        return arguments, {**keywords, "need_weights": True}

    encoder = LinformerEncoder(config)
    for layer in encoder.layers:
        attention = layer.get_submodule("self_attn")
        attention.register_forward_pre_hook(ask_for_weights, with_kwargs=True)
        attention.register_forward_hook(lambda module, arguments, output: (output[0], None))
    return encoder
