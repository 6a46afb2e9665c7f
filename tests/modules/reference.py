"""Equation (7), slowly: one sentence, one head, one query, one projected position at a time.

    head_i = softmax(Q W_i^Q (E_i K W_i^K)^T / sqrt(d_h)) F_i V W_i^V

and with the "general projections" of section 4 in the place of E_i and F_i.
"""

import math

import torch


def window(i, k, N, offset=0):
    """The positions of window i of k, of an input of up to N."""
    start = i * N // k + (offset if i > 0 else 0)
    end = (i + 1) * N // k + (offset if i < k - 1 else 0)
    return range(start, end)


def matrix_rows(E, offset, N):
    """Rows of a (k, N) matrix, for a sentence of which ``length`` rows of Y = X W are given."""

    def rows(Y):
        k, length = len(E), len(Y)
        reached = [j for j in range(k) if offset is None or window(j, k, N, offset)[0] < length]
        return {j: sum(E[j, p] * Y[p] for p in range(length)) for j in reached}

    return rows


def pooled_rows(kind, k, N, kernel=None):
    """Rows of mean-pool, max-pool or conv; ``kernel`` is (d_h, W)."""

    def rows(Y):
        result = {}
        for j in range(k):
            inside = [p for p in window(j, k, N) if p < len(Y)]
            if not inside:
                continue
            if kind == "mean-pool":
                result[j] = sum(Y[p] for p in inside) / len(inside)
            elif kind == "max-pool":
                result[j] = torch.stack([Y[p] for p in inside]).max(0).values
            else:
                result[j] = sum(kernel[:, w] * Y[p] for w, p in enumerate(inside))
        return result

    return rows


def rows_of(projection, heads):
    """For each head the function that shortens its keys or values, read from a module's attributes."""
    from fairseq_linformer.modules import Convolution, MaxPool, MeanPool
    from fairseq_linformer.modules.projection import HeadProjections

    if isinstance(projection, HeadProjections):
        return [rows_of(head, 1)[0] for head in projection.heads]
    k, N = projection.k, projection.n
    if isinstance(projection, (MeanPool, MaxPool)):
        return [pooled_rows("mean-pool" if isinstance(projection, MeanPool) else "max-pool", k, N)] * heads
    values = projection().expand(heads, *projection().shape[-2:])
    if isinstance(projection, Convolution):
        return [pooled_rows("conv", k, N, kernel) for kernel in values]
    return [matrix_rows(E, projection.offset, N) for E in values]


def linear_attention(attention, x, lengths, E, F):
    """What ``attention`` should return for the first ``lengths[b]`` positions of sentence b.

    Args:
        attention: the module, read for W and b of its four linear maps only.
        x: (B, n, d)
        lengths: real tokens of each sentence.
        E, F: for each head, what makes {projected position: row} of its keys, of its values.

    Returns:
        list of (length, d), one for each sentence.
    """
    H, d_h = attention.num_heads, attention.head_dim
    results = []
    for b, length in enumerate(lengths):
        X = x[b, :length]  # Q = K = V = X: self-attention
        heads = []
        for i in range(H):
            part = slice(i * d_h, (i + 1) * d_h)
            W_Q, b_Q = attention.q_proj.weight[part], attention.q_proj.bias[part]
            W_K, b_K = attention.k_proj.weight[part], attention.k_proj.bias[part]
            W_V, b_V = attention.v_proj.weight[part], attention.v_proj.bias[part]
            keys = {j: row + b_K for j, row in E[i](X @ W_K.T).items()}
            values = {j: row + b_V for j, row in F[i](X @ W_V.T).items()}
            outputs = []
            for token in X:
                query = W_Q @ token + b_Q
                scores = torch.stack([query @ keys[j] / math.sqrt(d_h) for j in keys])
                weights = torch.exp(scores) / torch.exp(scores).sum()
                outputs.append(sum(weight * values[j] for weight, j in zip(weights, keys)))
            heads.append(torch.stack(outputs))
        concat = torch.cat(heads, dim=1)
        results.append(concat @ attention.out_proj.weight.T + attention.out_proj.bias)
    return results
