"""The Linformer's encoder, and a Transformer's that differs from it in attention only.

    B sentences, n positions, m query positions, H heads, d width, d_h = d / H, V entries of the dictionary
"""

import math
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LinformerConfig
from ..modules import LinformerEncoder
from ..modules.attention import gather
from .fused_attention import with_fastest

BASELINES = ("eager", "sdpa")
"""Transformers: with materialised weights, as in 2020, and with the fastest fused kernel of PyTorch
(fused_attention.py)."""


class FullAttention(nn.Module):
    """Multi-head self-attention over all n positions; its parameters have the names of the Linformer's.

    Args:
        embed_dim, num_heads: d and H.
        dropout: of attention weights, in training.
        kind: one of ``BASELINES``.

    Raises:
        ValueError: there is no such kind.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float, kind: str):
        super().__init__()
        if kind not in BASELINES:
            raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(BASELINES)}")
        self.num_heads, self.dropout, self.kind = num_heads, dropout, kind
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def forward(
        self, x: Tensor, padding_mask: Optional[Tensor] = None, projection=None, positions: Optional[Tensor] = None
    ) -> Tuple[Tensor, None]:
        """(B, n, d) to (B, m, d), with ``padding_mask`` (B, n) and ``positions`` (B, m) as of
        ``LinearMultiheadAttention``; there is no ``projection``."""
        queries = x if positions is None else gather(x, positions)
        q, k, v = (f(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for f, y in
                   ((self.q_proj, queries), (self.k_proj, x), (self.v_proj, x)))  # fmt: skip
        mask = None if padding_mask is None else ~padding_mask[:, None, None]  # (B, 1, 1, n), True where attended to
        dropout = self.dropout if self.training else 0.0
        if self.kind == "sdpa":
            with with_fastest(q, k, v, mask, dropout):
                context = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        else:
            scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)
            if mask is not None:
                scores = scores.masked_fill(~mask, -math.inf)
            context = F.dropout(torch.softmax(scores, -1), dropout) @ v
        return self.out_proj(context.transpose(1, 2).flatten(2)), None


def transformer(config: LinformerConfig, kind: str, embed_tokens: Optional[nn.Embedding] = None) -> LinformerEncoder:
    """The same encoder with full attention: same layers, same norms, and as little of the last layer where less is
    read.

    Args:
        config: its k and sharing mean nothing.
        kind: one of ``BASELINES``.

    Raises:
        ValueError: there is no such kind.
    """
    fields = {**vars(config), "projected_dim": 1, "sharing": "layerwise", "projection": "mean-pool",
              "projection_init": None}  # fmt: skip
    encoder = LinformerEncoder(LinformerConfig(**fields), embed_tokens)  # mean-pool holds no memory
    for layer in encoder.layers:
        layer.self_attn = FullAttention(config.embed_dim, config.attention_heads, config.attention_dropout, kind)
    return encoder


class MaskedLM(nn.Module):
    """An encoder with RoBERTa's head and loss, for training steps without fairseq."""

    def __init__(self, encoder: LinformerEncoder):
        super().__init__()
        self.encoder = encoder
        d = encoder.config.embed_dim
        self.dense, self.norm = nn.Linear(d, d), nn.LayerNorm(d)
        self.bias = nn.Parameter(torch.zeros(encoder.config.vocab_size))

    def forward(self, tokens: Tensor, positions: Tensor, targets: Tensor) -> Tensor:
        """(B, n) tokens, (B, m) masked positions and (B, m) their tokens to the mean loss."""
        x, _ = self.encoder(tokens, positions, padded=False)
        logits = F.linear(self.norm(F.gelu(self.dense(x))), self.encoder.embed_tokens.weight, self.bias)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
