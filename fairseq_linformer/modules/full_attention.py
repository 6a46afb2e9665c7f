"""Multi-head self-attention over all positions, the Transformer's: ``projection`` none.

    B sentences, n positions of this input, m query positions, H heads, d width, d_h = d / H

It is equation (7) with k = n and E = F = identity, and what a Linformer is compared with.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import LinearFactory, gather_positions
from .dropout import dropped_product


class FullAttention(nn.Module):
    """Self-attention with the parameters and the interface of ``LinearMultiheadAttention``, without E and F.

    Args:
        embed_dim: d.
        num_heads: H, which must divide d.
        dropout: attention dropout probability.
        linear: builds the query, key, value and output projections.
    """

    projections = None, None

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, linear: LinearFactory = nn.Linear):
        super().__init__()
        self.num_heads, self.head_dim, self.dropout = num_heads, embed_dim // num_heads, dropout
        # In fairseq's order, which is that of optimizer states in its checkpoints.
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (linear(embed_dim, embed_dim) for _ in range(4))

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
        """
        Args:
            x: (B, n, d)
            padding_mask: (B, n), True at padding; None without padding.
            projection: there is none.
            positions: (B, m), the query positions; None for all.
            need_weights: also return the attention weights.
            masks: of ``masks``; None to compute them.

        Returns:
            (B, m, d), and the weights (B, H, m, n) or None. Values at padded positions are meaningless.
        """
        q, keys, values = (
            linear(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for linear, y in ((self.q_proj, gather_positions(x, positions)), (self.k_proj, x), (self.v_proj, x))
        )
        bias = self.masks(x, padding_mask) if masks is None else masks
        bias = None if bias is None else bias.to(q.dtype)
        p, weights = self.dropout if self.training else 0.0, None
        # As in LinearMultiheadAttention, dropout on a CPU stores less this way.
        if need_weights or (p > 0 and q.device.type == "cpu"):
            scores = (q / math.sqrt(self.head_dim)) @ keys.transpose(-2, -1)
            weights = torch.softmax(scores if bias is None else scores + bias, -1)
            context = dropped_product(weights, values, p)
        else:
            context = F.scaled_dot_product_attention(q, keys, values, bias, p)
        return self.out_proj(context.transpose(1, 2).flatten(2)), weights if need_weights else None
