"""The best approximation of a rank, and those that are compared with it."""

import math

import pytest
import torch

from fairseq_linformer.analysis import rank_k
from fairseq_linformer.analysis.heads import random_head


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_best_rank_k():
    """Eckart and Young: nothing of rank k is nearer, the error is that of the singular values left out."""
    head = random_head(16, 3, generator())
    head.E, head.F = (torch.randn(4, 16, generator=generator(5), dtype=torch.float64) for _ in range(2))
    found = rank_k.errors([head], [2, 4, 16], generator(1))
    s = torch.linalg.svdvals(head.P)
    for k in (2, 4):
        (best,) = found[k][rank_k.BEST]["map"]
        assert best == pytest.approx(float(s[k:].norm() / s.norm()), abs=1e-9)
        assert all(cell["map"][0] >= best - 1e-9 for cell in found[k].values() if "map" in cell)
        assert all(cell["output"][0] >= found[k][rank_k.BEST_OUTPUT]["output"][0] - 1e-9 for cell in found[k].values())
    assert found[4][rank_k.BEST_OUTPUT]["output"][0] < 1e-9 < found[2][rank_k.BEST_OUTPUT]["output"][0]  # d = 3
    assert rank_k.LEARNED in found[4] and rank_k.LEARNED not in found[2]
    assert found[16]["mean pooling"]["map"][0] < 1e-9  # k = n: windows of one
    for k, name, S in rank_k.approximations(head, [4], generator()):
        assert torch.linalg.matrix_rank(S) <= k, name
    for i in range(2):  # equation (7), one query
        keys = [sum(head.E[c, p] * head.K[p] for p in range(16)) for c in range(4)]
        weights = [math.exp(head.Q[i] @ key / math.sqrt(3)) for key in keys]
        expected = sum(weight * row for weight, row in zip(weights, head.F)) / sum(weights)
        torch.testing.assert_close(rank_k.linformer_map(head, head.E, head.F)[i], expected)
    with pytest.raises(ValueError, match="k is 17"):
        rank_k.errors([head], [17], generator())


def test_learned_matrices_of_different_k_count_where_they_are():
    heads = [random_head(16, 3, generator(seed)) for seed in (0, 1, 2)]
    for head, k in zip(heads, (4, 8, 4)):
        head.E, head.F = (torch.randn(k, 16, generator=generator(k), dtype=torch.float64) for _ in range(2))
    found = rank_k.errors(heads, [4, 8], generator())
    for k, those in ((4, [heads[0], heads[2]]), (8, [heads[1]])):
        by_hand = [
            float((rank_k.linformer_map(head, head.E, head.F) - head.P).norm() / head.P.norm()) for head in those
        ]
        assert found[k][rank_k.LEARNED]["map"] == pytest.approx(by_hand)
        assert len(found[k][rank_k.BEST]["map"]) == 3
