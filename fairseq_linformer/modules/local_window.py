"""Exact attention to neighbors, in one softmax with the projected positions. This extends equation (7) of the paper.

    B sentences, n positions, m query positions, k' projected positions, H heads, d_h head dimension, w the reach,
    C queries per chunk, c = ceil(n / C) chunks, S = k' + C + 2 w keys per chunk

A query attends to the k' projected positions and to the keys at most w positions away, which an average over a window
blurs. Longformer (Beltagy et al. 2020) has such a local window, and Transformer-LS (Zhu et al. 2021, section 3.3)
combines it with a low-rank projection in one softmax.

Time and memory are O(n (k + w)): chunks of C consecutive queries share the C + 2 w keys around them, so there is no
n x n matrix. Scores of keys out of reach are masked.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .dropout import dropped_product

MIN_CHUNK, MAX_CHUNK = 32, 128
"""Limits on C. Larger chunks copy the projected keys less often; smaller ones have fewer masked scores."""


def attend_locally(
    q: Tensor,
    projected: tuple[Tensor, Tensor],
    exact: tuple[Tensor, Tensor],
    bias: Tensor | None,
    padding_mask: Tensor | None,
    reach: int,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(q [projected keys, keys in reach]^T / sqrt(d_h)) [projected values, values in reach] at all positions.

    Args:
        q: (B, H, n, d_h)
        projected: keys and values, (B, H, k', d_h) each.
        exact: keys and values, (B, H, n, d_h) each.
        bias: added to the scores of projected keys, (B or 1, 1 or H, n or 1, k'); None for no bias.
        padding_mask: (B, n), True at padding, or None.
        reach: w.
        dropout: attention dropout probability.

    Returns:
        (B, H, n, d_h)
    """
    B, _, n, d_h = q.shape
    C = chunk_size(projected[0].size(2))
    c = -(-n // C)
    q = F.pad(q, (0, 0, 0, c * C - n)).unflatten(2, (c, C)).transpose(1, 2).flatten(0, 1)  # (B c, H, C, d_h)
    keys, values = (
        torch.cat([p.unsqueeze(1).expand(-1, c, -1, -1, -1), _neighborhoods(x, C, c, reach)], -2).flatten(0, 1)
        for p, x in zip(projected, exact)
    )  # (B c, H, S, d_h)
    mask = _chunk_mask(bias, padding_mask, n, projected[0].size(2), C, c, reach, q)
    mask = mask.expand(B, -1, -1, -1, -1).flatten(0, 1)  # (B c, 1 or H, C, S)
    if dropout > 0 and q.device.type == "cpu":  # not fused there: see attention.py
        weights = torch.softmax(q / math.sqrt(d_h) @ keys.transpose(-2, -1) + mask, -1)
        context = dropped_product(weights, values, dropout)
    else:
        context = F.scaled_dot_product_attention(q, keys, values, mask, dropout)
    chunks: Tensor = context.unflatten(0, (B, c))
    return chunks.transpose(1, 2).flatten(2, 3)[:, :, :n]


def attend_locally_at(
    positions: Tensor,
    q: Tensor,
    projected: tuple[Tensor, Tensor],
    exact: tuple[Tensor, Tensor],
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
    n, num_projected = exact[0].size(2), projected[0].size(2)
    neighbors = positions.unsqueeze(-1) + torch.arange(-reach, reach + 1, device=q.device)  # (B or 1, m, 2 w + 1)
    is_masked = (neighbors < 0) | (neighbors >= n)
    neighbors = neighbors.clamp(0, n - 1).expand(B, -1, -1).flatten(1)  # (B, m (2 w + 1))
    if padding_mask is not None:
        is_masked = is_masked | padding_mask.gather(1, neighbors).view(B, m, -1)
    index = neighbors[:, None, :, None].expand(-1, H, -1, d_h)
    keys, values = (x.gather(2, index).unflatten(2, (m, -1)) for x in exact)  # (B, H, m, 2 w + 1, d_h)
    q = q / math.sqrt(d_h)
    scores = q @ projected[0].transpose(-2, -1)
    near = (q.unsqueeze(-2) @ keys.transpose(-2, -1)).squeeze(-2).masked_fill(is_masked.unsqueeze(1), -math.inf)
    weights = torch.softmax(torch.cat([scores if bias is None else scores + bias.to(q.dtype), near], -1), -1)
    dropped = torch.dropout(weights, dropout, dropout > 0).to(q.dtype)
    far, near = dropped.split((num_projected, 2 * reach + 1), -1)
    return far @ projected[1] + (near.unsqueeze(-2) @ values).squeeze(-2), weights


def chunk_size(num_projected: int) -> int:
    """C: about half of k', a multiple of 32."""
    return min(MAX_CHUNK, max(MIN_CHUNK, num_projected // 64 * 32))


def _neighborhoods(x: Tensor, C: int, c: int, reach: int) -> Tensor:
    """The C + 2 w positions around each chunk, zero outside the input: (B, H, n, d_h) to (B, c, H, C + 2 w, d_h)."""
    padded = F.pad(x, (0, 0, reach, c * C - x.size(2) + reach))
    return padded.unfold(2, C + 2 * reach, C).permute(0, 2, 1, 4, 3)


def _chunk_mask(
    bias: Tensor | None, padding_mask: Tensor | None, n: int, num_projected: int, C: int, c: int, reach: int, q: Tensor
) -> Tensor:
    """Bias of the scores of each chunk, (B or 1, c, 1 or H, C, S), in the dtype of ``q``."""
    # Queries after the end, whose output is discarded, repeat the last one, so that no softmax is empty.
    queries = torch.arange(c * C, device=q.device).clamp(max=n - 1).view(c, C, 1)
    keys = (torch.arange(c, device=q.device) * C - reach).view(c, 1, 1) + torch.arange(C + 2 * reach, device=q.device)
    is_masked = ((keys - queries).abs() > reach) | (keys < 0) | (keys >= n)  # (c, C, C + 2 w)
    is_masked = is_masked.unsqueeze(0)
    if padding_mask is not None:
        is_masked = is_masked | padding_mask[:, keys.clamp(0, n - 1)]
    near = q.new_zeros(()).masked_fill(is_masked, -math.inf).unsqueeze(2)  # (B or 1, c, 1, C, C + 2 w)
    if bias is None:
        bias = q.new_zeros(1, 1, 1, num_projected)
    # (B or 1, 1 or H, n or 1, k') to (B or 1, c, 1 or H, C, k')
    far = bias.to(q.dtype).expand(-1, -1, n, -1)[:, :, queries.flatten()].unflatten(2, (c, C)).transpose(1, 2)
    batch, heads = max(far.size(0), near.size(0)), far.size(2)
    return torch.cat([far.expand(batch, -1, -1, -1, -1), near.expand(batch, -1, heads, -1, -1)], -1)
