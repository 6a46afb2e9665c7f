"""Exact attention to neighbors, in one softmax with the projected positions. This extends equation (7) of the paper.

    B sentences, n positions, m query positions, k' projected positions, H heads, d_h head dimension, w the reach,
    C queries per chunk, c = ceil(n / C) chunks, S = C + 2 w neighbors of a chunk; a single chunk has C = S = n

A query attends to the k' projected positions and to the keys at most w positions away, which an average over a window
blurs. Longformer (Beltagy et al. 2020) has such a local window, and Transformer-LS (Zhu et al. 2021, section 3.3)
combines it with a low-rank projection in one softmax.

Time and memory are O(n (k + w)): chunks of C consecutive queries share the S keys around them, so there is no n x n
matrix. Scores of keys out of reach are masked. Training stores the keys and values once; what chunks copy is copied
again in the backward pass.

The bias of the keys shifts all scores of a query alike and cancels in the softmax, so keys come without it.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from .windows import ceil_div

CHUNK, MAX_CHUNK = 32, 128
"""C, and its limit in fused attention, where larger chunks copy the projected keys less often."""
BACKWARD_WEIGHTS = 2**19
"""Attention weights of the sentences that the backward pass computes at a time, if it is not fused."""


def attend_locally(
    q: Tensor,
    projected: tuple[Tensor, Tensor],
    exact: tuple[Tensor, Tensor],
    value_bias: Tensor,
    bias: Tensor | None,
    padding_mask: Tensor | None,
    reach: int,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(q [projected keys, keys in reach]^T / sqrt(d_h)) [projected values, values in reach] at all positions.

    Args:
        q: (B, H, n, d_h)
        projected: keys without and values with their bias, (B, H, k', d_h) each.
        exact: keys and values without their biases, (B, H, n, d_h) each.
        value_bias: (H, 1, d_h)
        bias: added to the scores of projected keys, (B or 1, 1 or H, n or 1, k'), without gradient; None for no bias.
        padding_mask: (B, n), True at padding, or None.
        reach: w.
        dropout: attention dropout probability.

    Returns:
        (B, H, n, d_h)
    """
    tensors = [x.to(q.dtype) for x in (q, *projected, *exact, value_bias)]
    context: Tensor
    if torch.compiler.is_exporting():  # ONNX has no fused attention, for which chunks would copy the projected keys
        q, projected_keys, projected_values, keys, values, value_bias = tensors
        # An exported graph has no branches, hence no single chunk of n.
        chunks = Chunks(CHUNK, ceil_div(q.size(2), CHUNK), reach)
        mask = _neighbor_mask(padding_mask, q, chunks, reach)
        weights = _unfused_weights(q, projected_keys, keys, bias, mask, chunks)
        context = _unfused_context(weights, projected_values, values, value_bias, chunks)
    elif dropout > 0 and q.device.type == "cpu":  # not fused there: see attention.py
        chunks = plan_chunks(q.size(2), projected[0].size(2), reach, fused=False)
        mask = _neighbor_mask(padding_mask, q, chunks, reach)
        context = _UnfusedAttention.apply(*tensors, bias, mask, chunks, dropout)  # type: ignore[no-untyped-call]
    else:
        arguments: Any = (*tensors, bias, padding_mask, reach, dropout)
        if torch.is_grad_enabled():
            context = checkpoint(_attend_in_chunks, *arguments, use_reentrant=False)
        else:
            context = _attend_in_chunks(*arguments)
    return context


def attend_locally_at(
    positions: Tensor,
    q: Tensor,
    projected: tuple[Tensor, Tensor],
    exact: tuple[Tensor, Tensor],
    value_bias: Tensor,
    bias: Tensor | None,
    padding_mask: Tensor | None,
    reach: int,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Like ``attend_locally``, for some positions only.

    Args:
        positions: (B or 1, m)
        q: (B, H, m, d_h)
        bias: (B or 1, 1 or H, m or 1, k') or None.

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
    scores = q @ projected[0].transpose(-2, -1)
    near = (q.unsqueeze(-2) @ keys.transpose(-2, -1)).squeeze(-2).masked_fill(is_masked.unsqueeze(1), -math.inf)
    weights = torch.softmax(torch.cat([scores if bias is None else scores + bias.to(q.dtype), near], -1), -1)
    dropped = torch.dropout(weights, dropout, dropout > 0).to(q.dtype)
    far, near = dropped.split((num_projected, span), -1)
    context = far @ projected[1] + (near.unsqueeze(-2) @ values).squeeze(-2)
    return context + near.sum(-1, keepdim=True) * value_bias, weights


def gathers_outputs(num_positions: int, n: int, reach: int) -> bool:
    """Whether to attend at all positions and gather the outputs of some, because copies of the neighbors of each would
    be more than twice as large as the input."""
    if reach == 0 or torch.compiler.is_exporting():  # an exported graph has no branches
        return False
    return num_positions * (2 * reach + 1) > 2 * n


class Chunks(NamedTuple):
    """Split of n queries into c chunks of C."""

    C: int
    c: int
    margin: int
    """Positions on each side of a chunk that belong to its neighbors: w, or 0 for a single chunk."""

    @property
    def S(self) -> int:
        return self.C + 2 * self.margin


def plan_chunks(n: int, num_projected: int, reach: int, fused: bool = True) -> Chunks:
    """One chunk without margins if n <= C. C is 32; in fused attention about half of k', a multiple of 32 from 32 to
    128."""
    C = min(MAX_CHUNK, max(CHUNK, num_projected // 64 * 32)) if fused else CHUNK
    return Chunks(n, 1, 0) if n <= C else Chunks(C, ceil_div(n, C), reach)


def _attend_in_chunks(
    q: Tensor,
    projected_keys: Tensor,
    projected_values: Tensor,
    keys: Tensor,
    values: Tensor,
    value_bias: Tensor,
    bias: Tensor | None,
    padding_mask: Tensor | None,
    reach: int,
    dropout: float,
) -> Tensor:
    """Fused attention: each chunk has a copy of the projected keys and values."""
    B, _, n, _ = q.shape
    num_projected = projected_keys.size(2)
    chunks = plan_chunks(n, num_projected, reach)
    C, c = chunks.C, chunks.c
    near = _neighbor_mask(padding_mask, q, chunks, reach)  # (B or 1, 1, c, C, S)
    if bias is None:
        bias = q.new_zeros(1, 1, 1, num_projected)
    # (B or 1, 1 or H, n or 1, k') to (B or 1, 1 or H, c, C, k'); queries after the end repeat the last one
    rows = torch.arange(c * C, device=q.device).clamp(max=n - 1)
    far = bias.to(q.dtype).expand(-1, -1, n, -1)[:, :, rows].unflatten(2, (c, C))
    mask = torch.cat([far.expand(B, -1, -1, -1, -1), near.expand(B, far.size(1), -1, -1, -1)], -1)

    def with_projected(x: Tensor, projected: Tensor) -> Tensor:
        """(B, H, c, k' + S, d_h)"""
        return torch.cat([projected.unsqueeze(2).expand(-1, -1, c, -1, -1), _to_neighbors(x, chunks)], -2)

    q, keys, values, mask = (
        x.transpose(1, 2).flatten(0, 1)  # (B c, H, ...)
        for x in (
            _to_chunks(q, chunks),
            with_projected(keys, projected_keys),
            with_projected(values + value_bias, projected_values),
            mask,
        )
    )
    context: Tensor = F.scaled_dot_product_attention(q, keys, values, mask, dropout).unflatten(0, (B, c))
    return _from_chunks(context.transpose(1, 2), n)


def _unfused_weights(
    q: Tensor, projected_keys: Tensor, keys: Tensor, bias: Tensor | None, mask: Tensor, chunks: Chunks
) -> Tensor:
    """The weights of the k' projected positions and of the S neighbors of a chunk, (B, H, n, k' + S)."""
    scaled = q / math.sqrt(q.size(-1))
    far = scaled @ projected_keys.transpose(-2, -1)  # (B, H, n, k')
    if bias is not None:
        far += bias
    near = _to_chunks(scaled, chunks) @ _to_neighbors(keys, chunks).transpose(-2, -1)
    near += mask  # (B, H, c, C, S)
    return torch.softmax(torch.cat([far, _from_chunks(near, q.size(2))], -1), -1)


def _unfused_context(
    weights: Tensor, projected_values: Tensor, values: Tensor, value_bias: Tensor, chunks: Chunks
) -> Tensor:
    """The context, (B, H, n, d_h), of the weights of ``_unfused_weights``."""
    far, near = weights.split((projected_values.size(2), chunks.S), -1)
    context = _to_chunks(near, chunks) @ (_to_neighbors(values, chunks) + value_bias.unsqueeze(1))
    result: Tensor = far @ projected_values + _from_chunks(context, values.size(2))
    return result


class _UnfusedAttention(torch.autograd.Function):
    """Attention that stores all weights (4 bytes, and 1 for dropout), and no copies of keys or values."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        projected_keys: Tensor,
        projected_values: Tensor,
        keys: Tensor,
        values: Tensor,
        value_bias: Tensor,
        bias: Tensor | None,
        mask: Tensor,
        chunks: Chunks,
        dropout: float,
    ) -> Tensor:
        with torch.autocast(q.device.type, enabled=False):
            weights = _unfused_weights(q, projected_keys, keys, bias, mask, chunks)
            dropped, kept = torch.native_dropout(weights, dropout, True)
            result = _unfused_context(dropped, projected_values, values, value_bias, chunks)
        ctx.save_for_backward(value_bias, q, projected_keys, projected_values, keys, values, weights, kept)
        ctx.chunks, ctx.scale = chunks, 1 / (1 - dropout)
        ctx.sentences = max(1, BACKWARD_WEIGHTS // max(1, weights.shape[1:].numel()))
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        # A few sentences at a time: together, copies and gradients of weights are larger than what is stored.
        value_bias, *tensors = ctx.saved_tensors
        parts = zip(*(x.split(ctx.sentences) for x in (gradient, *tensors)))
        *by_sentence, d_value_bias = zip(*(_UnfusedAttention._backward_part(ctx, value_bias, *part) for part in parts))
        return *map(torch.cat, by_sentence), torch.stack(d_value_bias).sum(0), None, None, None, None

    @staticmethod
    def _backward_part(
        ctx: Any,
        value_bias: Tensor,
        gradient: Tensor,
        q: Tensor,
        projected_keys: Tensor,
        projected_values: Tensor,
        keys: Tensor,
        values: Tensor,
        weights: Tensor,
        kept: Tensor,
    ) -> tuple[Tensor, ...]:
        chunks: Chunks = ctx.chunks
        n, num_projected = q.size(2), projected_keys.size(2)
        sizes = (num_projected, weights.size(-1) - num_projected)
        by_chunk = _to_chunks(gradient, chunks)

        far, near = (weights * kept).mul_(ctx.scale).split(sizes, -1)
        d_projected_values = far.transpose(-2, -1) @ gradient
        d_near_values = _to_chunks(near, chunks).transpose(-2, -1) @ by_chunk
        d_values = _add_neighbors(d_near_values, n, chunks)
        d_value_bias = d_near_values.sum((0, 2, 3)).unsqueeze(1)

        far = gradient @ projected_values.transpose(-2, -1)
        near_values = _to_neighbors(values, chunks) + value_bias.unsqueeze(1)
        near = _from_chunks(by_chunk @ near_values.transpose(-2, -1), n)
        d_weights = torch.cat([far, near], -1).mul_(kept).mul_(ctx.scale)
        d_scores = torch._softmax_backward_data(d_weights, weights, -1, weights.dtype).div_(math.sqrt(q.size(-1)))
        far, near = d_scores.split(sizes, -1)
        near = _to_chunks(near, chunks)
        d_q = far @ projected_keys + _from_chunks(near @ _to_neighbors(keys, chunks), n)
        d_keys = _add_neighbors(near.transpose(-2, -1) @ _to_chunks(q, chunks), n, chunks)
        return d_q, far.transpose(-2, -1) @ q, d_projected_values, d_keys, d_values, d_value_bias


def _to_chunks(x: Tensor, chunks: Chunks) -> Tensor:
    """(B, H, n, width) to (B, H, c, C, width), with zeros after the end."""
    C, c, margin = chunks
    padded = F.pad(x, (0, 0, 0, c * C - x.size(2))) if margin else x  # F.pad copies even without padding
    result: Tensor = padded.unflatten(2, (c, C))
    return result


def _from_chunks(x: Tensor, n: int) -> Tensor:
    """The inverse of ``_to_chunks``."""
    return x.flatten(2, 3)[:, :, :n]


def _to_neighbors(x: Tensor, chunks: Chunks) -> Tensor:
    """The S positions around each chunk, zero outside the input: (B, H, n, d_h) to (B, H, c, S, d_h)."""
    C, c, margin = chunks
    if margin == 0:
        return x.unsqueeze(2)
    padded = F.pad(x, (0, 0, margin, c * C - x.size(2) + margin))
    if torch.compiler.is_exporting():  # unfold needs a fixed length there
        starts, offsets = torch.arange(c, device=x.device) * C, torch.arange(chunks.S, device=x.device)
        index = (starts.unsqueeze(1) + offsets).flatten()
        neighbors: Tensor = padded.index_select(2, index).unflatten(2, (c, chunks.S))
        return neighbors  # padded[:, :, index] would be transposed twice
    return padded.unfold(2, chunks.S, C).transpose(-2, -1)


def _add_neighbors(x: Tensor, n: int, chunks: Chunks) -> Tensor:
    """The transpose of ``_to_neighbors``: the sum of the chunks' gradients of each position, (B, H, n, d_h)."""
    C, c, margin = chunks
    if margin == 0:
        return x.squeeze(2)
    B, H, _, S, d_h = x.shape
    parts = ceil_div(S, C)
    total = x.new_zeros(B, H, c + parts - 1, C, d_h)
    for i in range(parts):
        part = x[..., i * C : (i + 1) * C, :]
        total[:, :, i : i + c, : part.size(-2)] += part
    return total.flatten(2, 3)[:, :, margin : margin + n]


def _neighbor_mask(padding_mask: Tensor | None, q: Tensor, chunks: Chunks, reach: int) -> Tensor:
    """Minus infinity at keys out of reach, outside the input or at padding: (B or 1, 1, c, C, S) in the dtype of ``q``.

    Queries after the end, whose output is discarded, repeat the last one, so that no softmax is empty.
    """
    n, (C, c, margin) = q.size(2), chunks
    queries = torch.arange(c * C, device=q.device).clamp(max=n - 1).view(c, C, 1)
    keys = (torch.arange(c, device=q.device) * C - margin).view(c, 1, 1) + torch.arange(chunks.S, device=q.device)
    is_masked = ((keys - queries).abs() > reach) | (keys < 0) | (keys >= n)  # (c, C, S)
    is_masked = is_masked.unsqueeze(0)
    if padding_mask is not None:
        is_masked = is_masked | padding_mask[:, keys.clamp(0, n - 1)]
    return q.new_zeros(()).masked_fill(is_masked, -math.inf).unsqueeze(1)
