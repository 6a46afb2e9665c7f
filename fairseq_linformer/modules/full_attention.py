"""Multi-head self-attention over all positions, the Transformer's: ``projection`` none.

    B sentences, n positions of this input, m query positions, H heads, d width, d_h = d / H

It is equation (7) with k = n and E = F = identity, and what a Linformer is compared with.
"""

import math

import torch
from torch import Tensor, nn

from .attention import SelfAttention, gather_positions


class FullAttention(SelfAttention):
    """Self-attention with the parameters and the interface of ``LinearMultiheadAttention``, without E and F."""

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0):
        super().__init__(embed_dim, num_heads, dropout)
        # In fairseq's order, which is that of optimizer states in its checkpoints.
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def mask_key(self, n: int, positions: Tensor | None = None) -> tuple[()]:
        """All layers share the masks."""
        return ()

    def masks(self, x: Tensor, padding_mask: Tensor | None = None, positions: Tensor | None = None) -> Tensor | None:
        """What is added to the scores: (B, 1, 1, n), minus infinity at padding; None without padding."""
        if padding_mask is None:
            return None
        # A sentence without real tokens keeps all positions, so that no softmax is empty.
        is_masked = padding_mask & ~padding_mask.all(1, keepdim=True)
        return torch.zeros_like(is_masked, dtype=x.dtype).masked_fill(is_masked, -math.inf)[:, None, None]

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        projection: None = None,
        positions: Tensor | None = None,
        need_weights: bool = False,
        masks: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Like ``LinearMultiheadAttention.forward``; weights are (B, H, m, n)."""
        q, keys, values = (
            self.split_heads(linear(y))
            for linear, y in ((self.q_proj, gather_positions(x, positions)), (self.k_proj, x), (self.v_proj, x))
        )
        bias = self.masks(x, padding_mask) if masks is None else masks
        context, weights = self.attend(q, keys, values, bias, need_weights)
        return self.project_output(context), weights
