"""Multi-head linear attention, equation (7) of the paper.

Equation (7):

    head_i = softmax(Q W_i^Q (E_i K W_i^K)^T / sqrt(d_h)) F_i V W_i^V

    B sentences, n positions of this input, m query positions (those whose output is needed), k projected positions,
    k' <= k of them that this input reaches, H heads, d width, d_h = d / H (the paper's d_k)
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional  # not its functions, so that replacing them has an effect

from .dropout import dropout, dropped_product
from .linear import AnyProjection, LinearProjection
from .order import Order, cheapest_order

Reduce = Callable[[Tensor], Tensor]
"""Projects positions, (B, n, d) to (B, k', d)."""


class Masks(NamedTuple):
    """What attention needs besides the tokens. It depends on lengths, dtype and settings, so layers with the same
    ``mask_key`` share it.

    Attributes:
        bias: added to the scores, see ``Projection.bias``.
        E_scale, F_scale: see ``Projection.row_scale``.
        neighbors: of a local window, ``local_window.Neighbors``; None if the window of each query is gathered.
    """

    bias: Tensor | None
    E_scale: Any
    F_scale: Any
    neighbors: Any = None


class SelfAttention(nn.Module):
    """What linear and full attention have in common: heads, dropout, and softmax(q keys^T) values.

    Args:
        embed_dim: d.
        num_heads: H, which must divide d.
        dropout: attention dropout probability.
    """

    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear
    out_proj: nn.Linear

    def __init__(self, embed_dim: int, num_heads: int, dropout: float):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim, self.dropout = embed_dim // num_heads, dropout

    @property
    def projections(self) -> tuple[AnyProjection | None, AnyProjection | None]:
        """E and F."""
        return None, None

    @property
    def active_dropout(self) -> float:
        """The dropout probability in the current mode."""
        return self.dropout if self.training else 0.0

    def attend(
        self, q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """softmax(q keys^T) values: (B, H, m, d_h), and the weights with ``need_weights``."""
        p = self.active_dropout
        # On CPU, PyTorch's attention with dropout is not fused and stores 12 bytes per weight; this stores 5.
        if not (need_weights or (p > 0 and q.device.type == "cpu")):
            mask = None if bias is None else bias.to(q.dtype)
            return functional.scaled_dot_product_attention(q, keys, values, mask, p), None
        weights = self._softmax(self._scaled(q) @ keys.transpose(-2, -1), bias)
        return dropped_product(weights, values, p), weights if need_weights else None

    def _scaled(self, q: Tensor) -> Tensor:
        """q / sqrt(d_h). Queries are scaled because scores are more numerous."""
        return q / math.sqrt(self.head_dim)

    def _softmax(self, scores: Tensor, bias: Tensor | None) -> Tensor:
        return torch.softmax(scores if bias is None else scores + bias.to(scores.dtype), -1)

    def project_output(self, context: Tensor) -> Tensor:
        """(B, H, m, d_h) to (B, m, d)"""
        output: Tensor = self.out_proj(context.transpose(1, 2).flatten(2))
        return output

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, length, d) -> (B, H, length, d_h)"""
        heads: Tensor = x.unflatten(-1, (self.num_heads, self.head_dim))
        return heads.transpose(1, 2)


class LinearMultiheadAttention(SelfAttention):
    """Self-attention whose keys and values are projected from n to k positions.

    The equation leaves three choices open:

    - Biases are added after the projection, ``E (x W) + b``, as in the authors' code.
    - Padding never reaches E or F: padded rows count as zero.
    - If projected positions correspond to windows of the input (windows.py), attention masks those whose window has no
      real token of the sentence, and an average counts as its number of real tokens (``Projection.bias``). With k = n
      and E = F = identity this is PyTorch's multi-head attention with its padding mask. Without windows, as in the
      authors' code, every sentence attends to all k positions.

    Args:
        embed_dim: d.
        num_heads: H, which must divide d.
        E: projection of keys.
        F: projection of values; None to use E.
        shared: E belongs to the caller, who passes its matrix to ``forward`` (layerwise sharing).
        dropout: attention dropout probability.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        E: AnyProjection,
        F: AnyProjection | None = None,
        shared: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__(embed_dim, num_heads, dropout)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))
        self.E, self.F = None if shared else E, F
        # A tuple hides the shared E from nn.Module: it is the caller's submodule.
        self._shared: tuple[AnyProjection, ...] = (E,) if shared else ()

    @property
    def projections(self) -> tuple[AnyProjection, AnyProjection]:
        E = self.E or self._shared[0]
        return E, self.F or E

    def mask_key(self, n: int, positions: Tensor | None = None) -> tuple[Any, ...]:
        """What ``masks`` depend on besides the input: n positions, of which ``positions`` are read."""
        E, F_ = self.projections
        return E.geometry(), F_.geometry()

    def masks(self, x: Tensor, padding_mask: Tensor | None = None, positions: Tensor | None = None) -> Any:
        """The masks of an input; arguments as for ``forward``, ``x`` is read only for its shape, dtype and device."""
        bias = self.projections[0].bias(x, padding_mask)
        return Masks(None if bias is None else bias.to(query_dtype(x)), *self.row_scales(x, padding_mask))

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        projection: Tensor | None = None,
        positions: Tensor | None = None,
        need_weights: bool = False,
        masks: Any = None,
    ) -> tuple[Tensor, Tensor | None]:
        """
        Args:
            x: (B, n, d), n at most the columns of E.
            padding_mask: (B, n), True at padding; None without padding.
            projection: matrix or kernel of the E that all layers share.
            positions: (B, m), the query positions; None for all.
            need_weights: also return the attention weights.
            masks: those of a layer with the same ``mask_key``, for the same input; None to compute them.

        Returns:
            (B, m, d), and the weights (B, H, m, k') or None. Values at padded positions are meaningless.
        """
        if masks is None:
            masks = self.masks(x, padding_mask)
        q = self.split_heads(self.q_proj(gather_positions(x, positions)))
        x = zero_padding(x, padding_mask)
        order = self._choose_order(q.size(2), x.size(1))
        weights: Tensor | None
        if order is Order.SCORES:
            context, weights = self._attend_through_scores(q, x, *self._matrices(x.size(1), projection), masks)
        else:
            reductions = self.reductions(x.size(1), projection, padding_mask, masks)
            context, weights = self.attend(q, *self._project(x, *reductions, order), masks.bias, need_weights)
        return self.project_output(context), weights if need_weights else None

    def _choose_order(self, m: int, n: int) -> Order:
        """The cheapest order of multiplication. It changes the run time, and the result only by rounding."""
        E, F_ = self.projections
        if torch.compiler.is_exporting():
            # A graph for inputs of any length has no branches, so the cost must not exceed that of the input's own n
            # positions. INPUT multiplies k' rows by the weights, at most n only with windows; SCORES is quadratic in n.
            return Order.INPUT if Order.INPUT in E.orders and E.num_reached(1) == 1 else Order.KEYS
        k, d, H = E.num_reached(n), self.embed_dim, self.num_heads
        return cheapest_order(m, n, k, d, H, separate_values=F_ is not E, among=E.orders)

    def row_scales(self, x: Tensor, padding_mask: Tensor | None) -> tuple[Any, Any]:
        """Those of E and F."""
        E, F_ = self.projections
        E_scale = E.row_scale(x, padding_mask)
        return E_scale, E_scale if F_ is E else F_.row_scale(x, padding_mask)

    def _matrices(self, n: int, projection: Tensor | None) -> tuple[Any, Any]:
        """The matrices or kernels of E and F for n positions; arguments as for ``forward``."""
        E, F_ = self.projections
        E_value = projection if self.E is None else E(n)
        return E_value, E_value if F_ is E else F_(n)

    def reductions(
        self, n: int, projection: Tensor | None, padding_mask: Tensor | None, masks: Any
    ) -> tuple[Reduce, Reduce]:
        """The projections of keys and of values."""
        E, F_ = self.projections
        E_value, F_value = self._matrices(n, projection)
        reduce_keys = partial(E.reduce, value=E_value, padding_mask=padding_mask, scale=masks.E_scale)
        return reduce_keys, partial(F_.reduce, value=F_value, padding_mask=padding_mask, scale=masks.F_scale)

    def _project(self, x: Tensor, reduce_keys: Reduce, reduce_values: Reduce, order: Order) -> tuple[Tensor, Tensor]:
        """E K W^K and F V W^V with their biases, each (B, H, k', d_h)."""
        if order is Order.INPUT:
            reduced = reduce_keys(x)  # (B, k', d)
            keys = self.k_proj(reduced)
            values = self.v_proj(reduced if self.F is None else reduce_values(x))
        else:
            (keys, key_bias), (values, value_bias) = apply_with_biases(x, self.k_proj, self.v_proj)
            keys = reduce_keys(keys - key_bias) + key_bias
            values = reduce_values(values - value_bias) + value_bias
        return self.split_heads(keys), self.split_heads(values)

    def _attend_through_scores(
        self, q: Tensor, x: Tensor, E_matrix: Tensor, F_matrix: Tensor, masks: Masks
    ) -> tuple[Tensor, Tensor]:
        """Like ``attend``, with (q K^T) E^T for q (E K)^T and (weights F) V for weights (F V)."""
        E, F_ = cast(tuple[LinearProjection, LinearProjection], self.projections)  # others lack this order
        n = x.size(1)
        E_matrix, F_matrix = E.reached(E_matrix, n), F_.reached(F_matrix, n)  # (k', n)
        (keys, key_bias), (values, value_bias) = apply_with_biases(x, self.k_proj, self.v_proj)
        # The bias, added after E, shifts all scores of a query alike and cancels in the softmax.
        keys = self.split_heads(keys - key_bias)  # (B, H, n, d_h)
        values = self.split_heads(values - value_bias)
        q = self._scaled(q)
        scores = _scale_columns(
            (q @ keys.transpose(-2, -1)) @ E_matrix.transpose(-2, -1), masks.E_scale
        )  # (B, H, m, k')
        weights = self._softmax(scores, masks.bias)
        dropped = dropout(weights, self.active_dropout)
        # After dropout the weights no longer sum to one.
        value_bias = dropped.sum(-1, keepdim=True) * self.split_heads(value_bias)
        return (_scale_columns(dropped, masks.F_scale) @ F_matrix) @ values + value_bias, weights


def _scale_columns(scores: Tensor, scale: Tensor | None) -> Tensor:
    """Multiply the columns of (B, H, m, k') by the factors of rows of E or F, (B or 1, k' or 1, 1), or None."""
    return scores if scale is None else scores * scale.transpose(-2, -1).unsqueeze(1)


def query_dtype(x: Tensor) -> torch.dtype:
    """The dtype of queries, which is that of autocast if it is enabled."""
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return x.dtype


def apply_with_biases(x: Tensor, *linears: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """What each linear layer returns for ``x`` (B, n, d), and its bias (B, 1, d), which is what it returns for zeros.

    Each is called, once, with a position of zeros after those of each sentence, (B, n + 1, d). It may be quantized,
    offloaded, adapted (by an adapter for each sentence), or have hooks; its ``weight`` and ``bias`` are not read.
    """
    padded = functional.pad(x, (0, 0, 0, 1))
    return [linear(padded).split((x.size(1), 1), 1) for linear in linears]


def zero_padding(x: Tensor, padding_mask: Tensor | None) -> Tensor:
    """(B, n, d), zero at padding."""
    return x if padding_mask is None else x.masked_fill(padding_mask.unsqueeze(-1), 0.0)


def gather_positions(x: Tensor, positions: Tensor | None) -> Tensor:
    """Rows ``positions`` (B, m) of ``x`` (B, n, d): (B, m, d); all for None."""
    if positions is None:
        return x
    B, n, _ = x.shape
    positions = positions.to(x.device)  # the layers of a model may be on several
    rows = positions + torch.arange(B, device=x.device).unsqueeze(1) * n
    # Unlike gather, index_select does not store x for the backward pass.
    return x.flatten(0, 1).index_select(0, rows.flatten()).view(B, positions.size(1), x.size(2))
