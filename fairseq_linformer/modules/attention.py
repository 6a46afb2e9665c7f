"""Multi-head linear attention, equation (7) of the paper.

    head_i = softmax(Q W_i^Q (E_i K W_i^K)^T / sqrt(d_h)) F_i V W_i^V

    B sentences, n positions of this input, m query positions (those whose output is needed), k' of the k projected
    positions, those that this input reaches, H heads, d width, d_h = d / H (the paper's d_k)
"""

import math
from functools import partial
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import dropout, dropped_product
from .order import Order, cheapest_order
from .projection import Projection


class LinearMultiheadAttention(nn.Module):
    """Self-attention whose keys and values are projected from n to k positions.

    Choices that the equation leaves open:

    - Biases are added after the projection, ``E (x W) + b``, as in the authors' code.
    - Padding never reaches E or F: padded rows count as zero.
    - Where projected positions stand for windows of the input (``Projection.offset``), those whose window holds no real
      token of a sentence are masked out of its attention. So with k = n and E = F = identity this is PyTorch's own
      multi-head attention with its padding mask. Where they do not, as in the authors' code, all k are attended to.

    Args:
        embed_dim: d.
        num_heads: H, which divides d.
        E: projects keys.
        F: projects values. None if values are projected with E.
        shared: E belongs to the caller, who hands its matrix to ``forward`` (layerwise sharing).
        dropout: probability of dropping an attention weight in training.
        linear: makes the four linear maps, with bias, from (inputs, outputs).

    Raises:
        ValueError: H does not divide d.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        E: Projection,
        F: Optional[Projection] = None,
        shared: bool = False,
        dropout: float = 0.0,
        linear=nn.Linear,
    ):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"num_heads is {num_heads}; it must divide embed_dim, which is {embed_dim}")
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (linear(embed_dim, embed_dim) for _ in range(4))
        self.E, self.F = None if shared else E, F
        # In a tuple, so that it is not a submodule here: it is one of the caller's.
        self._shared = (E,) if shared else ()

    @property
    def projections(self) -> Tuple[Projection, Projection]:
        """E and F. E may be registered by the encoder, which shares it between layers."""
        E = self.E or self._shared[0]
        return E, self.F or E

    def forward(
        self,
        x: Tensor,
        padding_mask: Optional[Tensor] = None,
        projection: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
        need_weights: bool = False,
        order: Optional[Order] = None,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """
        Args:
            x: (B, n, d), n at most the columns of E.
            padding_mask: (B, n), True at padding; None if there is none.
            projection: the matrix or kernel of the E that is shared by all layers.
            positions: (B, m), the query positions; None for all of them.
            need_weights: return the attention weights too.
            order: the order of multiplication; None for the cheapest. It changes the time, and the result by rounding
                only.

        Returns:
            (B, m, d), and the weights (B, H, m, k') or None. What stands at padded positions has no meaning.

        Raises:
            ValueError: ``order`` is none that this kind of projection allows.
        """
        n = x.size(1)
        E, F_ = self.projections
        E_value = E() if self.E is not None else projection
        F_value = E_value if F_ is E else F_()
        mask = E.mask(n, padding_mask)
        q = self._split_heads(self.q_proj(x if positions is None else gather(x, positions)))
        if padding_mask is not None:
            x = x.masked_fill(padding_mask.unsqueeze(-1), 0.0)
        reached = E.reached(n)
        if order is None:
            order = cheapest_order(q.size(2), n, reached, self.embed_dim, self.num_heads,
                                   separate_values=F_ is not E, among=E.orders)  # fmt: skip
        elif order not in E.orders:
            raise ValueError(f"order is {order}; with {type(E).__name__} it must be one of {E.orders}")

        if order is Order.SCORES:
            context, weights = self._attend_through_scores(
                q, x, E_value[..., :reached, :n], F_value[..., :reached, :n], mask
            )
        else:
            reduce_keys = partial(E.reduce, value=E_value, padding_mask=padding_mask)
            reduce_values = None if F_ is E else partial(F_.reduce, value=F_value, padding_mask=padding_mask)
            keys, values = self._project(x, reduce_keys, reduce_values, order)
            context, weights = self._attend(q, keys, values, mask, need_weights)
        context = self.out_proj(context.transpose(1, 2).flatten(2))
        return context, weights if need_weights else None

    def _project(self, x: Tensor, reduce_keys, reduce_values, order: Order) -> Tuple[Tensor, Tensor]:
        """E K W^K and F V W^V with their biases, each (B, H, k', d_h). Without ``reduce_values`` F is E."""
        if order is Order.INPUT:
            reduced = reduce_keys(x)  # (B, k', d)
            keys = self.k_proj(reduced)
            values = self.v_proj(reduced if reduce_values is None else reduce_values(x))
        else:
            keys = reduce_keys(product(self.k_proj, x)) + self.k_proj.bias
            values = (reduce_values or reduce_keys)(product(self.v_proj, x)) + self.v_proj.bias
        return self._split_heads(keys), self._split_heads(values)

    def _attend(self, q, keys, values, mask, need_weights) -> Tuple[Tensor, Optional[Tensor]]:
        """softmax(q keys^T) values: (B, H, m, d_h), and the weights with ``need_weights``."""
        p = self.dropout if self.training else 0.0
        # On a CPU PyTorch does not fuse attention with dropout, and keeps twelve bytes a weight where ours keeps five.
        if not (need_weights or (p > 0 and q.device.type == "cpu")):
            return F.scaled_dot_product_attention(q, keys, values, mask, p), None
        weights = self._softmax(self._scaled(q) @ keys.transpose(-2, -1), mask)
        return dropped_product(weights, values, p), weights

    def _attend_through_scores(self, q, x, E, F_, mask) -> Tuple[Tensor, Tensor]:
        """The same with (q K^T) E^T in place of q (E K)^T, and (weights F) V for weights (F V)."""
        keys = self._split_heads(product(self.k_proj, x))  # (B, H, n, d_h)
        values = self._split_heads(product(self.v_proj, x))
        q = self._scaled(q)
        # The bias of the keys is the same for all k scores of a query and cancels in the softmax. It is added so that
        # its gradient is there (and zero) in every order.
        bias = (q * self._head_bias(self.k_proj)).sum(-1, keepdim=True)
        scores = (q @ keys.transpose(-2, -1)) @ E.transpose(-2, -1) + bias  # (B, H, m, k)
        weights = self._softmax(scores, mask)
        kept = dropout(weights, self.dropout, self.training)
        # Weights sum to one before dropout, not after it.
        bias = kept.sum(-1, keepdim=True) * self._head_bias(self.v_proj)
        return (kept @ F_) @ values + bias, weights

    def _scaled(self, q: Tensor) -> Tensor:
        """q / sqrt(d_h): before the product, because there are more scores than queries."""
        return q / math.sqrt(self.head_dim)

    def _softmax(self, scores: Tensor, mask: Optional[Tensor]) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return torch.softmax(scores, -1)

    def _split_heads(self, x: Tensor) -> Tensor:
        """(B, length, d) -> (B, H, length, d_h)"""
        return x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def _head_bias(self, linear: nn.Module) -> Tensor:
        """The bias of a linear map as (H, 1, d_h)."""
        return linear.bias.view(self.num_heads, 1, self.head_dim)


def product(linear: nn.Module, x: Tensor) -> Tensor:
    """``x W^T``: a linear map without its bias."""
    if type(linear) is nn.Linear and not linear._forward_pre_hooks:
        return F.linear(x, linear.weight)
    # Quantisation noise and the like work in the call of the module.
    return linear(x) - linear.bias


def gather(x: Tensor, positions: Tensor) -> Tensor:
    """The rows ``positions`` (B, m) of ``x`` (B, n, d): (B, m, d)."""
    return x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.size(-1)))
