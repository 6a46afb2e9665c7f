"""The best approximation of rank k, and those compared with it."""

import math

import pytest
import torch

from fairseq_linformer.analysis import rank_k
from fairseq_linformer.analysis.heads import random_head


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_no_approximation_of_rank_k_is_better_than_the_best():
    """Eckart and Young: its error is the norm of the other singular values."""
    head = random_head(16, 3, generator())
    head.E, head.F = (torch.randn(4, 16, generator=generator(5), dtype=torch.float64) for _ in range(2))
    errors = rank_k.approximation_errors([head], [2, 4, 16], generator(1))
    s = torch.linalg.svdvals(head.P)
    for k in (2, 4):
        (best_map,), (best_output,) = errors[k][rank_k.BEST]["map"], errors[k][rank_k.BEST_OUTPUT]["output"]
        assert best_map == pytest.approx(float(s[k:].norm() / s.norm()), abs=1e-9)
        assert all(kinds["map"][0] >= best_map - 1e-9 for kinds in errors[k].values() if "map" in kinds)
        assert all(kinds["output"][0] >= best_output - 1e-9 for kinds in errors[k].values())
    assert errors[4][rank_k.BEST_OUTPUT]["output"][0] < 1e-9 < errors[2][rank_k.BEST_OUTPUT]["output"][0]  # d = 3
    assert rank_k.LEARNED in errors[4] and rank_k.LEARNED not in errors[2]
    assert errors[16]["mean pooling"]["map"][0] < 1e-9  # k = n: windows of one
    for k, name, S in rank_k.approximations(head, [4], generator()):
        assert torch.linalg.matrix_rank(S) <= k, name
    for i in range(2):  # equation (7), one query
        keys = [sum(head.E[c, p] * head.K[p] for p in range(16)) for c in range(4)]
        weights = [math.exp(head.Q[i] @ key / math.sqrt(3)) for key in keys]
        expected = sum(weight * row for weight, row in zip(weights, head.F)) / sum(weights)
        torch.testing.assert_close(rank_k.linformer_map(head, head.E, head.F)[i], expected)
    with pytest.raises(ValueError, match="k must .* 17"):
        rank_k.approximation_errors([head], [17], generator())


def test_learned_matrices_appear_only_at_their_own_k():
    heads = [random_head(16, 3, generator(seed)) for seed in (0, 1, 2)]
    for head, k in zip(heads, (4, 8, 4)):
        head.E, head.F = (torch.randn(k, 16, generator=generator(k), dtype=torch.float64) for _ in range(2))
    errors = rank_k.approximation_errors(heads, [4, 8], generator())
    for k, heads_with_k in ((4, [heads[0], heads[2]]), (8, [heads[1]])):
        expected = [
            float((rank_k.linformer_map(head, head.E, head.F) - head.P).norm() / head.P.norm()) for head in heads_with_k
        ]
        assert errors[k][rank_k.LEARNED]["map"] == pytest.approx(expected)
        assert len(errors[k][rank_k.BEST]["map"]) == 3
