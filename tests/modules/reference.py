"""Equation (7), slowly: one sentence, one head, one query, one projected position at a time.

    head_i = softmax(Q W_i^Q (E_i K W_i^K)^T / sqrt(d_h)) F_i V W_i^V

with the "general projections" of section 4 in the place of E_i and F_i, windows that count as the tokens they hold, and
exact keys near each query.
"""

import itertools
import math

import torch


def lengths_of(k, N, singletons):
    """Windows of one position at the start, and two numbers whose ratio is the mean length of the others."""
    first = min(singletons, k - 1)
    return first, *((N - first, k - first) if first > 1 else (N, k))


def windows(k, N, offset=0, singletons=0):
    """The positions of each of k windows, of an input of up to N."""
    first, positions, regular = lengths_of(k, N, singletons)
    if first > 1:
        length, longer = divmod(positions, regular)
        starts = [first]
        for i in range(regular - 1):
            starts.append(starts[-1] + length + (i >= regular - longer))
    else:
        starts = [i * N // k + first for i in range(k - first)]
    edges = [*range(first), starts[0], *(start + offset for start in starts[1:]), N]
    return [range(start, end) for start, end in itertools.pairwise(edges)]


def windows_of(projection):
    """The windows of a projection, or None; read from a module's buffers."""
    k, N = projection.k, projection.n
    singletons = int(projection.window_options[0])
    delay = float(getattr(projection, "windows", 0))
    _, positions, regular = lengths_of(k, N, singletons)
    return None if delay == -1 else windows(k, N, int(delay * (positions // regular)), singletons)


def triangle(held, N, singletons):
    """Weights of overlapping windows: from the middle of each window to zero at the length of regular ones from it, of
    several singletons at that of the shortest."""
    weights = torch.zeros(len(held), N, dtype=torch.float64)
    first, positions, regular = lengths_of(len(held), N, singletons)
    if first > 1:
        positions, regular = positions // regular, 1
    for j, window in enumerate(held):
        for p in range(N):
            weights[j, p] = max(0.0, 1 - abs(p - (window[0] + window[-1]) / 2) * regular / positions)
            if j < first or p < first:
                weights[j, p] = float(j == p)
    return weights / weights.sum(1, keepdim=True)


def matrix_rows(E, held, N, fills, weights=None):
    """Rows of a (k, N) matrix, for a sentence whose ``length`` rows of Y = X W are passed."""

    def rows(Y):
        length, result = len(Y), {}
        for j in range(len(E)):
            if held is None:
                scale = math.sqrt(N / length)
            else:
                real = [p for p in held[j] if p < length]
                if not real:
                    continue
                scale = len(held[j]) / len(real) if weights is None else 1 / weights[j, :length].sum()
            result[j] = sum(E[j, p] * Y[p] for p in range(length)) * (scale if fills else 1)
        return result

    return rows


def pooled_rows(kind, held, N, singletons, fills, kernel=None):
    """Rows of mean-pool, max-pool or conv; ``kernel`` is (d_h, W)."""
    k, first = len(held), 1 if singletons and len(held) > 1 else 0

    def rows(Y):
        result = {}
        for j, window in enumerate(held):
            inside = [p for p in window if p < len(Y)]
            if not inside:
                continue
            if kind == "mean-pool":
                result[j] = sum(Y[p] for p in inside) / len(inside)
            elif kind == "max-pool":
                result[j] = torch.stack([Y[p] for p in inside]).max(0).values
            else:
                # Entry of the kernel: the place in a regular window; the last one of a separate first position.
                regular = [[range(i * N // k, (i + 1) * N // k), p - first] for p in inside for i in range(k)]
                entries = [p - window[0] for window, p in regular if p in window] or [kernel.size(1) - 1]
                total = sum(kernel[:, w] * Y[p] for w, p in zip(entries, inside))
                result[j] = total * (kernel.size(1) / len(inside) if fills else 1)
        return result

    return rows


def rows_of(projection, heads):
    """For each head the function that shortens its keys or values, read from a module's attributes."""
    from fairseq_linformer.modules import Convolution, MaxPool, MeanPool
    from fairseq_linformer.modules.linear import HeadProjections

    if isinstance(projection, HeadProjections):
        return [rows_of(head, 1)[0] for head in projection.heads]
    held, N = windows_of(projection), projection.n
    singletons, fills = int(projection.window_options[0]), bool(projection.window_options[1])
    weights = triangle(held, N, singletons) if int(projection.window_options[1]) == 2 else None
    if isinstance(projection, (MeanPool, MaxPool)):
        kind = "mean-pool" if isinstance(projection, MeanPool) else "max-pool"
        return [pooled_rows(kind, held, N, singletons, fills)] * heads
    values = projection().expand(heads, *projection().shape[-2:])
    if isinstance(projection, Convolution):
        return [pooled_rows("conv", held, N, singletons, fills, kernel) for kernel in values]
    return [matrix_rows(E, held, N, fills, weights) for E in values]


def biases_of(projection, heads, reach=0):
    """For each head what is added to the scores of a query at position t: {projected position: number}. A position
    without tokens that are not attended to exactly has no entry."""
    from fairseq_linformer.modules.linear import HeadProjections

    if isinstance(projection, HeadProjections):
        return [biases_of(head, 1, reach)[0] for head in projection.heads]
    held, counted = windows_of(projection), bool(projection.window_options[2])

    def biases(t, length):
        if held is None:
            return dict.fromkeys(range(projection.k), 0.0)
        result = {}
        for j, window in enumerate(held):
            far = [p for p in window if p < length and not (reach and abs(p - t) <= reach)]
            if far:
                result[j] = math.log(len(far)) if counted else 0.0
        return result

    return [biases] * heads


def linear_attention(attention, x, lengths, E, F, biases, reach=0):
    """What ``attention`` should return for the first ``lengths[b]`` positions of sentence b.

    Args:
        attention: the module, read for W and b of its four linear maps only.
        x: (B, n, d)
        lengths: real tokens of each sentence.
        E, F: for each head, what makes {projected position: row} of its keys, of its values.
        biases: for each head, what is added to its scores; see ``biases_of``.
        reach: keys at most this far from the query are attended to exactly; 0 for none.

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
            for t, token in enumerate(X):
                query = W_Q @ token + b_Q
                attended = [(keys[j], values[j], bias) for j, bias in biases[i](t, length).items()]
                if reach:
                    near = range(max(0, t - reach), min(length, t + reach + 1))
                    attended += [(W_K @ X[p] + b_K, W_V @ X[p] + b_V, 0.0) for p in near]
                scores = torch.stack([query @ key / math.sqrt(d_h) + bias for key, _, bias in attended])
                weights = torch.exp(scores) / torch.exp(scores).sum()
                outputs.append(sum(weight * value for weight, (_, value, _) in zip(weights, attended)))
            heads.append(torch.stack(outputs))
        concat = torch.cat(heads, dim=1)
        results.append(concat @ attention.out_proj.weight.T + attention.out_proj.bias)
    return results
