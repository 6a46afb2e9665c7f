"""A Transformer encoder that differs from the Linformer's in attention only.

B sentences, n positions, m query positions, H heads, d width, d_h = d / H
"""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from ..modules.attention import gather_positions
from .fused_attention import use_fastest_kernel

BASELINES = ("eager", "sdpa")
"""Kinds of Transformer attention: materialized weights, as in 2020, and PyTorch's fastest fused kernel for the shape
(fused_attention.py)."""


class FullAttention(nn.Module):
    """Multi-head self-attention over all n positions, with the Linformer's parameter names.

    Args:
        embed_dim, num_heads: d and H.
        dropout: probability of dropping an attention weight in training.
        kind: one of ``BASELINES``.

    Raises:
        ValueError: ``kind`` is unknown.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float, kind: str):
        super().__init__()
        if kind not in BASELINES:
            raise ValueError(f"unknown kind {kind!r}; choose from {', '.join(BASELINES)}")
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
            with use_fastest_kernel(q, k, v, mask, dropout):
                context = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        else:
            scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)
            if mask is not None:
                scores = scores.masked_fill(~mask, -math.inf)
            context = F.dropout(torch.softmax(scores, -1), dropout) @ v
        return self.out_proj(context.transpose(1, 2).flatten(2)), None


def build_transformer(config: LinformerConfig, kind: str, embed_tokens: nn.Embedding | None = None) -> LinformerEncoder:
    """Build the same encoder with full attention. Its last layer also computes only the positions that are read.

    Args:
        config: k and sharing are ignored.
        kind: one of ``BASELINES``.

    Raises:
        ValueError: ``kind`` is unknown.
    """
    # mean pooling has no parameters
    pooled = replace(config, projected_dim=1, sharing="layerwise", projection="mean-pool", projection_init=None)
    encoder = LinformerEncoder(pooled, embed_tokens)
    for layer in encoder.layers:
        layer.self_attn = FullAttention(config.embed_dim, config.attention_heads, config.attention_dropout, kind)
    return encoder


def build_materialized(config: LinformerConfig, embed_tokens: nn.Embedding | None = None) -> LinformerEncoder:
    """Build a Linformer whose attention materializes its n x k weights, as ``eager`` does its n x n, and frees them
    before the feed-forward."""

    def ask_for_weights(module, arguments, keywords):
        return arguments, {**keywords, "need_weights": True}

    encoder = LinformerEncoder(config, embed_tokens)
    for layer in encoder.layers:
        attention = layer.get_submodule("self_attn")
        attention.register_forward_pre_hook(ask_for_weights, with_kwargs=True)
        attention.register_forward_hook(lambda module, arguments, output: (output[0], None))
    return encoder


class MaskedLM(nn.Module):
    """An encoder with RoBERTa's language-model head and loss, for training steps without fairseq."""

    def __init__(self, encoder: LinformerEncoder):
        super().__init__()
        self.encoder = encoder
        d = encoder.config.embed_dim
        self.dense, self.norm = nn.Linear(d, d), nn.LayerNorm(d)
        self.bias = nn.Parameter(torch.zeros(encoder.config.vocab_size))

    def forward(self, tokens: Tensor, positions: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of (B, n) tokens, (B, m) masked positions and (B, m) their targets."""
        x, _ = self.encoder(tokens, positions, padded=False)
        logits = F.linear(self.norm(F.gelu(self.dense(x))), self.encoder.embed_tokens.weight, self.bias)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
