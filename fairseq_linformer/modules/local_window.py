"""Exact attention to neighbors, in one softmax with the projected positions. This extends equation (7) of the paper.

    B sentences, n positions, m query positions, k' projected positions, s keys of one part, H heads, d_h head
    dimension, w the reach, C queries per chunk, c = ceil(n / C) chunks, S = C + 2 w neighbors of a chunk; a single
    chunk has C = S = n. Padding masks are (B, n), True at padding, or None; ``dropout`` is that of attention weights

A query attends to the k' projected positions and to the keys at most w positions away, which an average over a window
blurs. Longformer (Beltagy et al. 2020) has such a local window, and Transformer-LS (Zhu et al. 2021, section 3.3)
combines it with a low-rank projection in one softmax.

The two kinds of keys are attended to separately, each with a softmax of its own, and merged exactly. With l_1 and l_2
the log-sum-exp of a query's scores in each part,

    l = log(exp(l_1) + exp(l_2)),    output = exp(l_1 - l) output_1 + exp(l_2 - l) output_2

A key's weight in the union is exp(score - l), so the backward pass of each part is that of its kernel, with l and the
merged output instead of its own (``fused_attention.py``).

Time and memory are O(n (k + w)). On an A100 or newer, input in half precision uses flash attention with a window,
provided any padding is at the end of each sentence. Otherwise chunks of C consecutive queries share the S keys around
them, and scores of keys out of reach are masked. The copies of keys and values for chunks are not stored: the backward
pass makes them again.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .attention import LinearMultiheadAttention, Masks, apply_with_biases, gather_positions, query_dtype, zero_padding
from .dropout import dropped_product
from .fused_attention import (
    Attended,
    align_mask,
    attend,
    attend_backward,
    attend_in_chunks,
    attend_in_chunks_backward,
    attend_in_window,
    attend_in_window_backward,
    attention_dtype,
    is_supported,
    masked_score,
    supports_windows,
)
from .windows import ceil_div

CHUNK, GPU_CHUNK = 32, 64
"""C on a CPU, and on a GPU, whose kernel computes blocks of 64 queries."""


class Neighbors(NamedTuple):
    """How queries find the keys in reach; the same in all layers.

    Attributes:
        reach: w.
        is_fused: use fused attention, which does not keep the weights in memory.
        positions: (c S,), the positions around each chunk, those outside the input clamped.
        mask: (B or 1, 1, c, C, S), ``masked_score`` at keys out of reach, outside the input or at padding, else 0.
            ``positions`` and ``mask`` are None if ``attend_in_window`` is used.
        bounds: of padded sentences, for ``attend_in_window``.
    """

    reach: int
    is_fused: bool
    positions: Any = None
    mask: Any = None
    bounds: Tensor | None = None


class LocalWindowAttention(LinearMultiheadAttention):
    """Equation (7), extended: each position also attends to the keys at most w positions away, in the same softmax.

    Windows of E and F do not count the tokens in reach; a window without other tokens is masked.

    Args:
        local_window: w, at least 1.
        arguments: those of ``LinearMultiheadAttention``.
    """

    def __init__(self, *arguments: Any, local_window: int, **options: Any):
        super().__init__(*arguments, **options)
        self.local_window = local_window

    def mask_key(self, n: int, positions: Tensor | None = None) -> tuple[Any, ...]:
        computes_all = self._computes_all_positions(n, positions)
        return *super().mask_key(n), self.local_window, computes_all, self.active_dropout > 0

    def _computes_all_positions(self, n: int, positions: Tensor | None) -> bool:
        """Whether to attend at all positions, also if only some are read, because copies of the neighbors of each would
        be more than twice as large as the input."""
        if positions is None:
            return True
        # An exported graph has no branches.
        return not torch.compiler.is_exporting() and positions.size(1) * (2 * self.local_window + 1) > 2 * n

    def masks(
        self, x: Tensor, padding_mask: Tensor | None = None, positions: Tensor | None = None, need_weights: bool = False
    ) -> Masks:
        """The masks of an input; the windows of E do not count the tokens in reach. For ``need_weights`` the window of
        each query is gathered."""
        E, reach, n = self.projections[0], self.local_window, x.size(1)
        dtype, neighbors = attention_dtype(x.device, query_dtype(x)), None
        if not need_weights and self._computes_all_positions(n, positions):
            neighbors = find_neighbors(x, padding_mask, reach, self.head_dim, dtype, self.active_dropout)
            positions = None
        bias = E.bias(x, padding_mask, reach, all_positions(x) if positions is None else positions)
        if bias is None:
            bias = x.new_zeros(1, 1, 1, E.num_reached(n))
        bias = align_mask(bias.to(dtype).clamp(min=masked_score(dtype)))
        return Masks(bias, *self.row_scales(x, padding_mask), neighbors)

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        projection: Tensor | None = None,
        positions: Tensor | None = None,
        need_weights: bool = False,
        masks: Any = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Like ``LinearMultiheadAttention.forward``, but always in the order KEYS: keys in reach are computed from the
        input, so projecting keys costs less than projecting the input.

        Returns:
            (B, m, d), and the weights (B, H, m, k' + 2 w + 1) or None: the last 2 w + 1 belong to the keys from w
            positions before to w after each query.
        """
        if masks is None or (need_weights and masks.neighbors is not None):
            masks = self.masks(x, padding_mask, positions, need_weights)
        neighbors, dropout = masks.neighbors, self.active_dropout
        q = self.split_heads(self.q_proj(gather_positions(x, positions if neighbors is None else None)))
        x = zero_padding(x, padding_mask)
        reduce_keys, reduce_values = self.reductions(x.size(1), projection, padding_mask, masks)
        (keys, key_bias), (values, value_bias) = apply_with_biases(x, self.k_proj, self.v_proj)
        # The bias of the keys, also of projected ones, shifts all scores of a query alike and cancels in the softmax.
        keys = keys - key_bias
        far = self.split_heads(reduce_keys(keys)), self.split_heads(reduce_values(values - value_bias) + value_bias)
        near = self.split_heads(keys), self.split_heads(values)
        if neighbors is not None:
            context = attend_locally(q, far, near, masks.bias, neighbors, dropout)
            context = context.transpose(1, 2).flatten(2)
            return self.out_proj(gather_positions(context, positions)), None
        query_positions = all_positions(x) if positions is None else positions
        context, weights = attend_locally_at(
            query_positions, q, far, near, masks.bias, padding_mask, self.local_window, dropout
        )
        return self.project_output(context), weights if need_weights else None


def all_positions(x: Tensor) -> Tensor:
    """(1, n) of (B, n, d)"""
    return torch.arange(x.size(1), device=x.device).unsqueeze(0)


def find_neighbors(
    x: Tensor, padding_mask: Tensor | None, reach: int, head_dim: int, dtype: torch.dtype, dropout: float
) -> Neighbors:
    """How the queries of an input find the keys in reach. For flash attention, the padding mask is read, which
    synchronizes with the GPU.

    Args:
        x: (B, n, d), read only for its shape and device.
        dtype: ``attention_dtype`` of the queries.
    """
    (B, n, _), device = x.shape, x.device
    # Kernels reject empty batches and inputs.
    is_fused = is_supported(device, dtype, head_dim, dropout) and B > 0 and n > 0
    if is_fused and supports_windows(device, dtype, head_dim):
        if padding_mask is None:
            return Neighbors(reach, is_fused)
        # Reading the mask would break a compiled graph.
        if not torch.compiler.is_compiling() and is_at_end(padding_mask):
            return Neighbors(reach, is_fused, bounds=find_bounds(padding_mask))
    # An exported graph has no branches, hence no single chunk of n.
    C = CHUNK if device.type == "cpu" else GPU_CHUNK
    is_single = not torch.compiler.is_exporting() and n <= C
    C, c, margin = (n, 1, 0) if is_single else (C, ceil_div(n, C), reach)
    # Queries after the end, whose output is discarded, repeat the last one.
    queries = torch.arange(c * C, device=device).clamp(max=n - 1).view(c, C, 1)
    keys = (torch.arange(c, device=device) * C - margin).view(c, 1, 1) + torch.arange(C + 2 * margin, device=device)
    is_masked = ((keys - queries).abs() > reach) | (keys < 0) | (keys >= n)  # (c, C, S)
    is_masked = is_masked.unsqueeze(0)
    positions = keys.clamp(0, n - 1)  # (c, 1, S)
    if padding_mask is not None:
        is_masked = is_masked | padding_mask[:, positions]
    mask = torch.zeros((), dtype=dtype, device=device).masked_fill(is_masked, masked_score(dtype)).unsqueeze(1)
    if is_fused:  # fused attention takes the B c chunks as a batch
        mask = align_mask(mask.expand(B, -1, -1, -1, -1))
    return Neighbors(reach, is_fused, positions.flatten(), mask)


def is_at_end(padding_mask: Tensor) -> bool:
    """Whether the padding of each sentence follows its tokens, (B, n)."""
    return not (padding_mask[:, :-1] & ~padding_mask[:, 1:]).any()


def find_bounds(padding_mask: Tensor) -> Tensor:
    """[0, length of sentence 0, n, n + length of sentence 1, 2 n, ...]: the tokens of each sentence, and the padding at
    its end, as sequences of their own, (2 B + 1,)."""
    B, n = padding_mask.shape
    starts = torch.arange(0, (B + 1) * n, n, device=padding_mask.device)
    ends = starts[:-1] + (~padding_mask).sum(1)
    return torch.cat([torch.stack([starts[:-1], ends], 1).flatten(), starts[-1:]]).int()


def attend_locally(
    q: Tensor,
    projected: tuple[Tensor, Tensor],
    exact: tuple[Tensor, Tensor],
    bias: Tensor,
    neighbors: Neighbors,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(q [projected keys, keys in reach]^T / sqrt(d_h)) [projected values, values in reach] at all positions.

    Args:
        q: (B, H, n, d_h)
        projected: keys and values, (B, H, k', d_h) each. The bias of the keys shifts all scores of a query alike and
            cancels in the softmax, so it may be left out of both ``projected`` and ``exact``.
        exact: keys and values, (B, H, n, d_h) each.
        bias: added to the scores of projected keys, (B or 1, 1 or H, n or 1, k'), without gradient.
        neighbors: of ``find_neighbors``.

    Returns:
        (B, H, n, d_h)
    """
    dtype = attention_dtype(q.device, q.dtype)
    function: Any = _MergedAttention.apply if neighbors.is_fused else _attend_unfused
    output: Tensor = function(*(x.to(dtype) for x in (q, *projected, *exact, bias)), neighbors, dropout)
    return output.to(q.dtype)


def attend_locally_at(
    positions: Tensor,
    q: Tensor,
    projected: tuple[Tensor, Tensor],
    exact: tuple[Tensor, Tensor],
    bias: Tensor,
    padding_mask: Tensor | None,
    reach: int,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Like ``attend_locally``, for some positions only.

    Args:
        positions: (B or 1, m)
        q: (B, H, m, d_h)
        bias: (B or 1, 1 or H, m or 1, k')

    Returns:
        (B, H, m, d_h), and the weights (B, H, m, k' + 2 w + 1): those of the projected positions, then those of the
        keys from w positions before to w after each query.
    """
    B, H, m, d_h = q.shape
    n, num_projected, span = exact[0].size(2), projected[0].size(2), 2 * reach + 1
    neighbors = positions.unsqueeze(-1) + torch.arange(-reach, reach + 1, device=q.device)  # (B or 1, m, 2 w + 1)
    is_masked = (neighbors < 0) | (neighbors >= n)
    neighbors = neighbors.clamp(0, n - 1).expand(B, -1, -1).flatten(1)  # (B, m (2 w + 1))
    if padding_mask is not None:
        is_masked = is_masked | padding_mask.gather(1, neighbors).view(B, m, span)
    index = neighbors[:, None, :, None].expand(-1, H, -1, d_h)
    keys, values = (x.gather(2, index).unflatten(2, (m, span)) for x in exact)  # (B, H, m, 2 w + 1, d_h)
    q = q / math.sqrt(d_h)
    far = q @ projected[0].transpose(-2, -1) + bias.to(q.dtype)
    near = (
        (q.unsqueeze(-2) @ keys.transpose(-2, -1))
        .squeeze(-2)
        .masked_fill(is_masked.unsqueeze(1), masked_score(q.dtype))
    )
    weights = torch.softmax(torch.cat([near, far], -1), -1)  # in the order of ``_attend_unfused``
    dropped = torch.dropout(weights, dropout, dropout > 0).to(q.dtype)
    near, far = dropped.split((span, num_projected), -1)
    return far @ projected[1] + (near.unsqueeze(-2) @ values).squeeze(-2), weights.roll(num_projected, -1)


class _MergedAttention(torch.autograd.Function):
    """``attend_locally`` with fused attention."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        projected_keys: Tensor,
        projected_values: Tensor,
        keys: Tensor,
        values: Tensor,
        bias: Tensor,
        neighbors: Neighbors,
        dropout: float,
    ) -> Tensor:
        far = attend(q, projected_keys, projected_values, bias, dropout)
        near = _attend_near(q, keys, values, neighbors, dropout)
        share = torch.sigmoid(far.lse - near.lse).unsqueeze(-1).to(q.dtype)  # exp(l_1 - l)
        output = torch.lerp(near.output, far.output, share)
        inputs = (q, projected_keys, projected_values, keys, values, bias)
        ctx.save_for_backward(*inputs, output, far.lse, near.lse, *far.dropout_state, *near.dropout_state)
        ctx.neighbors, ctx.dropout = neighbors, dropout
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        # once_differentiable says nothing if the gradient is a constant, as that of a sum is.
        if torch.is_grad_enabled():
            raise NotImplementedError("fused attention with a local window cannot be differentiated twice")
        q, projected_keys, projected_values, keys, values, bias, output, far_lse, near_lse, *states = ctx.saved_tensors
        dropout = ctx.dropout
        # Gradients have any layout, and hooks of saved tensors, such as those that offload them, may change it.
        gradient, output = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (gradient, output))
        bias = align_mask(bias)
        lse = torch.logaddexp(far_lse, near_lse)
        far, near = Attended(output, lse, tuple(states[:2])), Attended(output, lse, tuple(states[2:]))
        d_q, *d_projected = attend_backward(gradient, q, projected_keys, projected_values, bias, far, dropout)
        d_q_near, *d_exact = _attend_near_backward(gradient, q, keys, values, ctx.neighbors, near, dropout)
        return d_q + d_q_near, *d_projected, *d_exact, None, None, None


def _attend_near(q: Tensor, keys: Tensor, values: Tensor, neighbors: Neighbors, dropout: float) -> Attended:
    """Attention to the keys in reach alone."""
    if neighbors.mask is None:
        return attend_in_window(q, keys, values, neighbors.reach, neighbors.bounds, dropout)
    C, mask = neighbors.mask.size(3), _to_batch(neighbors.mask)
    keys, values = (_to_batch(_to_neighbors(x, neighbors)) for x in (keys, values))
    return attend_in_chunks(q, keys, values, mask, C, dropout)


def _attend_near_backward(
    gradient: Tensor, q: Tensor, keys: Tensor, values: Tensor, neighbors: Neighbors, attended: Attended, dropout: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of ``_attend_near``."""
    if neighbors.mask is None:
        reach, bounds = neighbors.reach, neighbors.bounds
        return attend_in_window_backward(gradient, q, keys, values, reach, bounds, attended, dropout)
    n, (c, C) = q.size(2), neighbors.mask.shape[2:4]
    keys, values = (_to_batch(_to_neighbors(x, neighbors)) for x in (keys, values))
    mask = _to_batch(neighbors.mask)
    d_q, *d_chunks = attend_in_chunks_backward(gradient, q, keys, values, mask, C, attended, dropout)
    d_keys, d_values = (_add_neighbors(x.unflatten(0, (-1, c)).transpose(1, 2), n, neighbors) for x in d_chunks)
    return d_q, d_keys, d_values


def _attend_unfused(
    q: Tensor,
    projected_keys: Tensor,
    projected_values: Tensor,
    keys: Tensor,
    values: Tensor,
    bias: Tensor,
    neighbors: Neighbors,
    dropout: float,
) -> Tensor:
    """Attention with all weights in memory: for dropout on a CPU, exported graphs, and what no kernel supports."""
    mask, n, num_projected = neighbors.mask, q.size(2), projected_keys.size(2)
    q = q / math.sqrt(q.size(-1))
    far = q @ projected_keys.transpose(-2, -1) + bias  # (B, H, n, k')
    near = _to_chunks(q, neighbors) @ _to_neighbors(keys, neighbors).transpose(-2, -1) + mask
    # Projected positions come last: masked ones then only append zeros to the sums of the softmax.
    weights = torch.softmax(torch.cat([_from_chunks(near, n), far], -1), -1)
    near, far = weights.split((mask.size(-1), num_projected), -1)
    near_values = _to_neighbors(values, neighbors)
    context = dropped_product(_to_chunks(near, neighbors), near_values, dropout)
    return dropped_product(far, projected_values, dropout) + _from_chunks(context, n)


def _to_chunks(x: Tensor, neighbors: Neighbors) -> Tensor:
    """(B, H, n, width) to (B, H, c, C, width), with zeros after the end."""
    c, C = neighbors.mask.shape[2:4]
    missing = c * C - x.size(2)
    # F.pad copies even without padding. An exported graph has no branches.
    padded = F.pad(x, (0, 0, 0, missing)) if torch.compiler.is_exporting() or missing else x
    chunks: Tensor = padded.unflatten(2, (c, C))
    return chunks


def _from_chunks(x: Tensor, n: int) -> Tensor:
    """The inverse of ``_to_chunks``."""
    return x.flatten(2, 3)[:, :, :n]


def _to_neighbors(x: Tensor, neighbors: Neighbors) -> Tensor:
    """The S positions around each chunk: (B, H, n, d_h) to (B, H, c, S, d_h). Those outside the input are masked."""
    c, C, S = neighbors.mask.shape[2:]
    if C == S:
        return x.unsqueeze(2)
    chunks: Tensor = x.transpose(1, 2).index_select(1, neighbors.positions).unflatten(1, (c, S))
    return chunks.permute(0, 3, 1, 2, 4)


def _add_neighbors(x: Tensor, n: int, neighbors: Neighbors) -> Tensor:
    """The transpose of ``_to_neighbors``: the sum of the chunks' gradients of each position, (B, H, n, d_h)."""
    B, H, c, S, d_h = x.shape
    C = neighbors.mask.size(3)
    if C == S:
        return x.squeeze(2)
    parts = ceil_div(S, C)
    total = x.new_zeros(B, c + parts - 1, C, H, d_h).permute(0, 3, 1, 2, 4)
    for i in range(parts):
        part = x[..., i * C : (i + 1) * C, :]
        total[:, :, i : i + c, : part.size(-2)] += part
    return total.flatten(2, 3)[:, :, neighbors.reach : neighbors.reach + n]


def _to_batch(x: Tensor) -> Tensor:
    """(B, H, c, ...) to (B c, H, ...)"""
    return x.transpose(1, 2).flatten(0, 1)
