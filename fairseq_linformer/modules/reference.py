"""The whole method, slowly: one sentence, one head, one query and one projected position at a time.

Read it from top to bottom: windows, what E and F do to a sentence, equation (7), a layer, the encoder. The other files
compute the same numbers fast, for padded batches, and the tests compare both in double precision.

    head_i = softmax(Q W_i^Q (E_i K W_i^K)^T / sqrt(d_h)) F_i V W_i^V                                    equation (7)

    n tokens of a sentence, N the longest input, k projected positions, H heads, d width, d_h = d / H

A sentence is never padded here: padding does not reach E and F. Weights are read from modules, which have to be
``double()`` and ``eval()``. The products are in one order, E (X W); ``order.py`` chooses the cheapest of three.
"""

import itertools
import math
from functools import partial

import torch
from torch import Tensor, nn

from . import Convolution, Linformer, LinformerEncoder, LinformerEncoderLayer, MeanPool, Projection
from .attention import SelfAttention
from .linear import AnyProjection, HeadProjections
from .local_window import LocalWindowAttention

ProjectedRows = dict[int, Tensor]
"""Projected position to its row; without an entry it is masked, because the sentence has no token in its window."""


# Windows: N positions in k adjacent intervals, for inputs of any length


def regular_length(k: int, N: int, singletons: int) -> int:
    """Length of the shortest window after the singletons, which are windows of one position at the beginning."""
    first = min(singletons, k - 1)
    return N // k if first <= 1 else (N - first) // (k - first)


def windows(k: int, N: int, offset: int = 0, singletons: int = 0) -> list[range]:
    """The positions of each window. With several singletons the other windows share the rest evenly, the shorter ones
    first. Otherwise they are those of N positions without a singleton, moved by it. All but the first of them begin
    ``offset`` positions later."""
    first = min(singletons, k - 1)
    if first <= 1:
        begins = [first + i * N // k for i in range(k - first)]
    else:
        shorter = (k - first) - (N - first) % (k - first)  # how many have the regular length
        length = regular_length(k, N, singletons)
        begins = [first + i * length + max(0, i - shorter) for i in range(k - first)]
    edges = [*range(first), begins[0], *(begin + offset for begin in begins[1:]), N]
    return [range(begin, end) for begin, end in itertools.pairwise(edges)]


def windows_of(projection: Projection) -> list[range] | None:
    """The windows of a projection; None for a matrix without windows."""
    held = projection.layout.windows
    return None if held is None else windows(held.k, held.N, held.offset, held.singletons)


def triangle(held: list[range], N: int, singletons: int) -> Tensor:
    """The (k, N) start of an E whose windows overlap: weights fall from the middle of each window to zero at a distance
    of N / k positions, or, with several singletons, of the regular length."""
    k, first = len(held), min(singletons, len(held) - 1)
    distance = N / k if first <= 1 else regular_length(k, N, singletons)
    weights = torch.zeros(k, N, dtype=torch.float64)
    for j, window in enumerate(held):
        for p in range(N):
            share = 1 - abs(p - (window[0] + window[-1]) / 2) / distance
            weights[j, p] = float(j == p) if j < first or p < first else max(0.0, share)
    return weights / weights.sum(1, keepdim=True)


# E and F: the kinds of projection (section 4), for one head


def matrix_rows(E: Tensor, Y: Tensor, held: list[range] | None, fills: bool, start: Tensor | None) -> ProjectedRows:
    """E Y of a (k, N) matrix and the (n, d_h) keys or values, in rows that make up for missing tokens if E ``fills``.
    ``start`` is that of overlapping windows."""
    n, rows = len(Y), {}
    for j in range(len(E)):
        scale = math.sqrt(E.size(1) / n)  # the size of a sum of random terms
        if held is not None:
            num_real = sum(p < n for p in held[j])
            if not num_real:
                continue
            scale = len(held[j]) / num_real if start is None else 1 / float(start[j, :n].sum())
        rows[j] = (scale if fills else 1) * (E[j, :n] @ Y)
    return rows


def pooled_rows(projection: Projection, kernel: Tensor | None, Y: Tensor, held: list[range]) -> ProjectedRows:
    """The mean or maximum of each window, or its product with a (d_h, W) kernel."""
    rows = {}
    for j, window in enumerate(held):
        inside = [p for p in window if p < len(Y)]
        if inside and kernel is None:
            rows[j] = Y[inside].mean(0) if isinstance(projection, MeanPool) else Y[inside].amax(0)
        elif inside and kernel is not None:
            # A first position by itself meets the last entry. The others count in the windows without it, the last two
            # of which are one window here.
            layout, regular = projection.layout, windows(len(held), projection.n)
            assert layout.windows is not None
            first = min(layout.windows.singletons, len(held) - 1)
            entries = [p - first - each[0] for p in inside for each in regular if p - first in each]
            products = kernel[:, entries or [-1]].T * Y[inside]
            rows[j] = products.sum(0) * (kernel.size(1) / len(inside) if layout.fills else 1)
    return rows


def project(projection: AnyProjection | None, head: int, H: int, Y: Tensor) -> ProjectedRows:
    """What E or F makes of the (n, d_h) keys or values of a head. With sharing ``none`` it has a matrix or kernel for
    each head (or a projection, if their k differ), otherwise one for all. Full attention has no E, and all rows."""
    if projection is None:
        return dict(enumerate(Y))
    if isinstance(projection, HeadProjections):
        return project(projection.heads[head], 0, 1, Y)
    held, layout, value = windows_of(projection), projection.layout, projection()
    E = None if value is None else value.expand(H, *value.shape[-2:])[head]
    if E is None or isinstance(projection, Convolution):
        assert held is not None
        return pooled_rows(projection, E, Y, held)
    start = None
    if layout.windows is not None and held is not None and layout.overlaps:
        start = triangle(held, projection.n, layout.windows.singletons)
    return matrix_rows(E, Y, held, layout.fills, start)


def biases(projection: AnyProjection | None, head: int, t: int, n: int, reach: int) -> dict[int, float]:
    """What is added to the scores of query t. An average of m keys counts as m keys (Bolya et al. 2023, equation 1),
    except for those that the query attends to exactly; with no other key it is masked."""
    if projection is None:
        return dict.fromkeys(range(n), 0.0)
    if isinstance(projection, HeadProjections):
        return biases(projection.heads[head], 0, t, n, reach)
    held = windows_of(projection)
    if held is None:
        return dict.fromkeys(range(projection.k), 0.0)
    far = [[p for p in window if p < n and not (reach and abs(p - t) <= reach)] for window in held]
    return {
        j: math.log(len(window)) if projection.layout.proportional else 0.0 for j, window in enumerate(far) if window
    }


# Equation (7)


def linear_attention(attention: SelfAttention, X: Tensor) -> Tensor:
    """Self-attention, Q = K = V = X: (n, d) to (n, d). With a local window w, an extension of the equation, each query
    also attends to the exact keys at most w positions away, in the same softmax."""
    heads = torch.cat([attention_head(attention, i, X) for i in range(attention.num_heads)], 1)
    return heads @ attention.out_proj.weight.T + attention.out_proj.bias


def attention_head(attention: SelfAttention, i: int, X: Tensor) -> Tensor:
    """head_i of each query: (n, d) to (n, d_h)."""
    H, d_h, n = attention.num_heads, attention.head_dim, len(X)
    reach = attention.local_window if isinstance(attention, LocalWindowAttention) else 0
    E, F = attention.projections
    part = slice(i * d_h, (i + 1) * d_h)
    linears = (attention.q_proj, attention.k_proj, attention.v_proj)
    (W_Q, b_Q), (W_K, b_K), (W_V, b_V) = ((linear.weight[part], linear.bias[part]) for linear in linears)
    # Biases are added after the projection, as in the authors' code.
    keys = {j: row + b_K for j, row in project(E, i, H, X @ W_K.T).items()}
    values = {j: row + b_V for j, row in project(F, i, H, X @ W_V.T).items()}
    outputs = []
    for t in range(n):
        attended = [(keys[j], values[j], bias) for j, bias in biases(E, i, t, n, reach).items()]
        if reach:
            near = range(max(0, t - reach), min(n, t + reach + 1))
            attended += [(W_K @ X[p] + b_K, W_V @ X[p] + b_V, 0.0) for p in near]
        outputs.append(attend(W_Q @ X[t] + b_Q, attended))
    return torch.stack(outputs)


def attend(query: Tensor, attended: list[tuple[Tensor, Tensor, float]]) -> Tensor:
    """What a query of width d_h makes of keys, their values, and what is added to their scores."""
    scores = torch.stack([query @ key / math.sqrt(len(query)) + bias for key, _, bias in attended])
    weights = torch.exp(scores) / torch.exp(scores).sum()
    return weights @ torch.stack([value for _, value, _ in attended])


# The encoder, RoBERTa's


def encoder_layer(layer: LinformerEncoderLayer, X: Tensor) -> Tensor:
    """Attention and feed-forward network, each added to its input: (n, d) to (n, d)."""

    def feed_forward(X: Tensor) -> Tensor:
        return layer.activation_fn(X @ layer.fc1.weight.T + layer.fc1.bias) @ layer.fc2.weight.T + layer.fc2.bias

    attention = partial(linear_attention, layer.self_attn)
    for part, norm in ((attention, layer.self_attn_layer_norm), (feed_forward, layer.final_layer_norm)):
        X = X + part(layer_norm(norm, X)) if layer.normalize_before else layer_norm(norm, X + part(X))
    return X


def layer_norm(norm: nn.Module | None, X: Tensor) -> Tensor:
    """Mean 0 and variance 1 of each row, then weights and biases; X itself without a norm."""
    if not isinstance(norm, nn.LayerNorm):
        return X
    centered = X - X.mean(1, keepdim=True)
    return centered / torch.sqrt(centered.square().mean(1, keepdim=True) + norm.eps) * norm.weight + norm.bias


def encode(encoder: LinformerEncoder, tokens: Tensor) -> Tensor:
    """The features (n, d) of a sentence of n token IDs."""
    positions = encoder.config.padding_idx + 1 + torch.arange(len(tokens))  # as fairseq counts
    X = encoder.embed_tokens.weight[tokens] + encoder.embed_positions.weight[positions]
    return encode_vectors(encoder, layer_norm(encoder.layernorm_embedding, X))


def encode_vectors(encoder: LinformerEncoder | Linformer, X: Tensor) -> Tensor:
    """The features of n vectors: (n, d) to (n, d)."""
    for layer in encoder.layers:
        assert isinstance(layer, LinformerEncoderLayer)
        X = encoder_layer(layer, X)
    return layer_norm(encoder.layer_norm, X)
