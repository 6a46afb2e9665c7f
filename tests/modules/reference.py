"""Equation (7), slowly: one sentence, one head, one query at a time.

    head_i = softmax(Q W_i^Q (E_i K W_i^K)^T / sqrt(d_h)) F_i V W_i^V
"""

import math

import torch


def linear_attention(attention, x, lengths, E, F):
    """What ``attention`` should return for the first ``lengths[b]`` positions of sentence b.

    Args:
        attention: the module, read for W and b of its four linear maps only.
        x: (B, n, d)
        lengths: real tokens of each sentence.
        E, F: (H, k, columns), one matrix for each head.

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
            E_i, F_i = E[i, :, :length], F[i, :, :length]
            keys = E_i @ (X @ W_K.T) + b_K  # (k, d_h)
            values = F_i @ (X @ W_V.T) + b_V
            # Windows that lie behind the end of this sentence are not attended to.
            rows = [j for j in range(len(E_i)) if E_i[j].any() or F_i[j].any()
                    or not (E[i, j].any() or F[i, j].any())] or list(range(len(E_i)))  # fmt: skip
            outputs = []
            for token in X:
                query = W_Q @ token + b_Q
                scores = torch.stack([query @ keys[j] / math.sqrt(d_h) for j in rows])
                weights = torch.exp(scores) / torch.exp(scores).sum()
                outputs.append(sum(weight * values[j] for weight, j in zip(weights, rows)))
            heads.append(torch.stack(outputs))
        concat = torch.cat(heads, dim=1)
        results.append(concat @ attention.out_proj.weight.T + attention.out_proj.bias)
    return results
