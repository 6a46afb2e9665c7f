"""Multi-head linear attention, equation (7) of the paper.

Equation (7):

    head_i = softmax(Q W_i^Q (E_i K W_i^K)^T / sqrt(d_h)) F_i V W_i^V

    B sentences, n positions of this input, m query positions (those whose output is needed), k projected positions,
    k' <= k of them that this input reaches, H heads, d width, d_h = d / H (the paper's d_k)
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import dropout, dropped_product
from .fused_attention import align_mask, attention_dtype, masked_score
from .linear import AnyProjection, LinearProjection
from .local_window import Neighbors, attend_locally, attend_locally_at, find_neighbors
from .order import Order, cheapest_order, exported_order

LinearFactory = Callable[[int, int], nn.Linear]
"""Builds a linear layer with bias from (in_features, out_features)."""
Reduce = Callable[[Tensor], Tensor]


class Masks(NamedTuple):
    """What attention needs besides the tokens. It depends on lengths, dtype and settings, so layers with the same
    ``mask_key`` share it.

    Attributes:
        bias: added to the scores, see ``Projection.bias``.
        E_scale, F_scale: see ``Projection.row_scale``.
        neighbors: how to attend to the keys in reach of all positions; None without a local window, and if the window
            of each query is gathered instead.
    """

    bias: Tensor | None
    E_scale: Any
    F_scale: Any
    neighbors: Neighbors | None


class LinearMultiheadAttention(nn.Module):
    """Self-attention whose keys and values are projected from n to k positions.

    The equation leaves three choices open:

    - Biases are added after the projection, ``E (x W) + b``, as in the authors' code.
    - Padding never reaches E or F: padded rows count as zero.
    - If projected positions correspond to windows of the input (windows.py), attention masks those whose window has no
      real token of the sentence, and an average counts as its number of real tokens (``Projection.bias``). With k = n
      and E = F = identity this is PyTorch's multi-head attention with its padding mask. Without windows, as in the
      authors' code, every sentence attends to all k positions.

    With a ``local_window`` w, an extension of the equation, each position also attends to the keys at most w positions
    away, in the same softmax. Windows do not count the tokens in reach; a window without other tokens is masked.

    Args:
        embed_dim: d.
        num_heads: H, which must divide d.
        E: projection of keys.
        F: projection of values; None to use E.
        shared: E belongs to the caller, who passes its matrix to ``forward`` (layerwise sharing).
        dropout: attention dropout probability.
        local_window: w; 0 for equation (7).
        linear: builds the query, key, value and output projections.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        E: AnyProjection,
        F: AnyProjection | None = None,
        shared: bool = False,
        dropout: float = 0.0,
        local_window: int = 0,
        linear: LinearFactory = nn.Linear,
    ):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout, self.local_window = dropout, local_window
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (linear(embed_dim, embed_dim) for _ in range(4))
        self.E, self.F = None if shared else E, F
        # A tuple hides the shared E from nn.Module: it is the caller's submodule.
        self._shared: tuple[AnyProjection, ...] = (E,) if shared else ()

    @property
    def projections(self) -> tuple[AnyProjection, AnyProjection]:
        """E and F."""
        E = self.E or self._shared[0]
        return E, self.F or E

    @property
    def _dropout(self) -> float:
        """The dropout probability in the current mode."""
        return self.dropout if self.training else 0.0

    def mask_key(self, n: int, positions: Tensor | None = None) -> tuple[Any, ...]:
        """What ``masks`` depend on besides the input: n positions, of which ``positions`` are read."""
        E, F_ = self.projections
        gathers_windows = self.local_window > 0 and not self._attends_at_all(n, positions)
        return E.geometry(), F_.geometry(), self.local_window, gathers_windows, self._dropout > 0

    def _attends_at_all(self, n: int, positions: Tensor | None, need_weights: bool = False) -> bool:
        """Whether to attend with a local window at all positions, also if only some are read, because copies of the
        neighbors of each would be more than twice as large as the input."""
        if need_weights or positions is None:
            return not need_weights
        # An exported graph has no branches.
        return not torch.compiler.is_exporting() and positions.size(1) * (2 * self.local_window + 1) > 2 * n

    def masks(
        self, x: Tensor, padding_mask: Tensor | None = None, positions: Tensor | None = None, need_weights: bool = False
    ) -> Masks:
        """The masks of an input; arguments as for ``forward``, ``x`` is read only for its shape, dtype and device."""
        E, F_ = self.projections
        n, reach, dtype = x.size(1), self.local_window, _query_dtype(x)
        E_scale = E.row_scale(x, padding_mask)
        scales = E_scale, E_scale if F_ is E else F_.row_scale(x, padding_mask)
        if not reach:
            bias = E.bias(x, padding_mask)
            return Masks(None if bias is None else bias.to(dtype), *scales, None)
        dtype, neighbors = attention_dtype(x.device, dtype), None
        if self._attends_at_all(n, positions, need_weights):
            neighbors = find_neighbors(x, padding_mask, reach, self.head_dim, dtype, self._dropout)
            positions = None
        if positions is None:
            positions = torch.arange(n, device=x.device).unsqueeze(0)
        bias = E.bias(x, padding_mask, reach, positions)
        if bias is None:
            bias = x.new_zeros(1, 1, 1, E.num_reached(n))
        return Masks(align_mask(bias.to(dtype).clamp(min=masked_score(dtype))), *scales, neighbors)

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        projection: Tensor | None = None,
        positions: Tensor | None = None,
        need_weights: bool = False,
        order: Order | None = None,
        masks: Masks | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """
        Args:
            x: (B, n, d), n at most the columns of E.
            padding_mask: (B, n), True at padding; None without padding.
            projection: matrix or kernel of the E that all layers share.
            positions: (B, m), the query positions; None for all.
            need_weights: also return the attention weights.
            order: order of multiplication, one of ``E.orders``; None for the cheapest. It changes the run time, and
                the result only by rounding.
            masks: those of a layer with the same ``mask_key``, for the same input; None to compute them.

        Returns:
            (B, m, d), and the weights (B, H, m, k') or None. With a local window they are (B, H, m, k' + 2 w + 1):
            the last 2 w + 1 belong to the keys from w positions before to w after each query. Values at padded
            positions are meaningless.
        """
        n = x.size(1)
        E, F_ = self.projections
        if masks is None or (need_weights and masks.neighbors is not None):
            masks = self.masks(x, padding_mask, positions, need_weights)
        read = None
        if masks.neighbors is not None:
            positions, read = None, positions
        E_value: Tensor | None = E(n) if self.E is not None else projection
        F_value: Tensor | None = E_value if F_ is E else F_(n)
        q = self._split_heads(self.q_proj(x if positions is None else gather_positions(x, positions)))
        if padding_mask is not None:
            x = x.masked_fill(padding_mask.unsqueeze(-1), 0.0)
        # Keys in reach are computed from the input, so projecting keys costs less than projecting the input.
        orders = (Order.KEYS,) if self.local_window else E.orders
        if order is None and torch.compiler.is_exporting():
            order = exported_order(num_reached_by_one=E.num_reached(1), among=orders)
        elif order is None:
            k, d, H = E.num_reached(n), self.embed_dim, self.num_heads
            order = cheapest_order(q.size(2), n, k, d, H, separate_values=F_ is not E, among=orders)

        weights: Tensor | None
        reduce_keys: Reduce = partial(E.reduce, value=E_value, padding_mask=padding_mask, scale=masks.E_scale)
        reduce_values: Reduce | None = None
        if F_ is not E:
            reduce_values = partial(F_.reduce, value=F_value, padding_mask=padding_mask, scale=masks.F_scale)
        if self.local_window:
            context, weights = self._attend_with_neighbors(
                q, x, reduce_keys, reduce_values or reduce_keys, padding_mask, positions, masks
            )
        elif order is Order.SCORES:
            assert isinstance(E, LinearProjection) and isinstance(F_, LinearProjection)  # others lack this order
            assert E_value is not None and F_value is not None
            matrices = E.reached(E_value, n), F_.reached(F_value, n)
            context, weights = self._attend_through_scores(q, x, *matrices, masks)
        else:
            keys, values = self._project(x, reduce_keys, reduce_values, order)
            context, weights = self._attend(q, keys, values, masks.bias, need_weights)
        context = context.transpose(1, 2).flatten(2)
        context = self.out_proj(context if read is None else gather_positions(context, read))
        return context, weights if need_weights else None

    def _project(
        self, x: Tensor, reduce_keys: Reduce, reduce_values: Reduce | None, order: Order
    ) -> tuple[Tensor, Tensor]:
        """E K W^K and F V W^V with their biases, each (B, H, k', d_h). ``reduce_values`` is None if F is E."""
        if order is Order.INPUT:
            reduced = reduce_keys(x)  # (B, k', d)
            keys = self.k_proj(reduced)
            values = self.v_proj(reduced if reduce_values is None else reduce_values(x))
        else:
            (keys, key_bias), (values, value_bias) = split_biases(x, self.k_proj, self.v_proj)
            keys = reduce_keys(keys - key_bias) + key_bias
            values = (reduce_values or reduce_keys)(values - value_bias) + value_bias
        return self._split_heads(keys), self._split_heads(values)

    def _attend(
        self, q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """softmax(q keys^T) values: (B, H, m, d_h), and the weights with ``need_weights``."""
        p = self._dropout
        # On CPU, PyTorch's attention with dropout is not fused and stores 12 bytes per weight; this stores 5.
        if not (need_weights or (p > 0 and q.device.type == "cpu")):
            mask = None if bias is None else bias.to(q.dtype)
            return F.scaled_dot_product_attention(q, keys, values, mask, p), None
        weights = self._softmax(self._scaled(q) @ keys.transpose(-2, -1), bias)
        return dropped_product(weights, values, p), weights

    def _attend_with_neighbors(
        self,
        q: Tensor,
        x: Tensor,
        reduce_keys: Reduce,
        reduce_values: Reduce,
        padding_mask: Tensor | None,
        positions: Tensor | None,
        masks: Masks,
    ) -> tuple[Tensor, Tensor | None]:
        """Like ``_attend``, with the exact keys and values in reach."""
        (keys, key_bias), (values, value_bias) = split_biases(x, self.k_proj, self.v_proj)
        keys = keys - key_bias  # which cancels in the softmax
        projected = reduce_keys(keys), reduce_values(values - value_bias) + value_bias
        projected = self._split_heads(projected[0]), self._split_heads(projected[1])
        exact = self._split_heads(keys), self._split_heads(values)
        assert masks.bias is not None
        if masks.neighbors is not None:
            return attend_locally(q, projected, exact, masks.bias, masks.neighbors, self._dropout), None
        if positions is None:
            positions = torch.arange(x.size(1), device=x.device).unsqueeze(0)
        reach = self.local_window
        return attend_locally_at(positions, q, projected, exact, masks.bias, padding_mask, reach, self._dropout)

    def _attend_through_scores(
        self, q: Tensor, x: Tensor, E: Tensor, F_: Tensor, masks: Masks
    ) -> tuple[Tensor, Tensor]:
        """Like ``_attend``, with (q K^T) E^T for q (E K)^T and (weights F) V for weights (F V); E and F are the (k', n)
        parts of the matrices that the input reaches."""
        (keys, key_bias), (values, value_bias) = split_biases(x, self.k_proj, self.v_proj)
        keys = self._split_heads(keys - key_bias)  # (B, H, n, d_h); the bias cancels in the softmax
        values = self._split_heads(values - value_bias)
        q = self._scaled(q)
        scores = _scale_columns((q @ keys.transpose(-2, -1)) @ E.transpose(-2, -1), masks.E_scale)  # (B, H, m, k')
        weights = self._softmax(scores, masks.bias)
        dropped = dropout(weights, self._dropout)
        # After dropout the weights no longer sum to one.
        value_bias = dropped.sum(-1, keepdim=True) * value_bias.view(self.num_heads, 1, self.head_dim)
        return (_scale_columns(dropped, masks.F_scale) @ F_) @ values + value_bias, weights

    def _scaled(self, q: Tensor) -> Tensor:
        """q / sqrt(d_h). Queries are scaled because scores are more numerous."""
        return q / math.sqrt(self.head_dim)

    def _softmax(self, scores: Tensor, bias: Tensor | None) -> Tensor:
        return torch.softmax(scores if bias is None else scores + bias.to(scores.dtype), -1)

    def _split_heads(self, x: Tensor) -> Tensor:
        """(B, length, d) -> (B, H, length, d_h)"""
        heads: Tensor = x.unflatten(-1, (self.num_heads, self.head_dim))
        return heads.transpose(1, 2)


def _scale_columns(scores: Tensor, scale: Tensor | None) -> Tensor:
    """Multiply the columns of (B, H, m, k') by the factors of rows of E or F, (B or 1, k' or 1, 1), or None."""
    return scores if scale is None else scores * scale.transpose(-2, -1).unsqueeze(1)


def _query_dtype(x: Tensor) -> torch.dtype:
    """The dtype of queries, which is that of autocast if it is enabled."""
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return x.dtype


def split_biases(x: Tensor, *linears: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """What each linear layer returns for ``x`` (B, n, d), and its bias (d,), which is what it returns for zeros.

    Each is called, once, with the rows of ``x`` and one of zeros, (B n + 1, d). It may be quantized, adapted or
    offloaded, or have hooks; its ``weight`` and ``bias`` are not read.
    """
    B, n, d = x.shape
    rows = torch.cat([x.reshape(-1, d), x.new_zeros(1, d)])
    split = [linear(rows).split((B * n, 1)) for linear in linears]
    return [(y.view(B, n, -1), bias.squeeze(0)) for y, bias in split]


def gather_positions(x: Tensor, positions: Tensor) -> Tensor:
    """Rows ``positions`` (B, m) of ``x`` (B, n, d): (B, m, d)."""
    B, n, _ = x.shape
    rows = positions + torch.arange(B, device=x.device).unsqueeze(1) * n
    # Unlike gather, index_select does not store x for the backward pass.
    return x.flatten(0, 1).index_select(0, rows.flatten()).view(B, positions.size(1), x.size(2))
