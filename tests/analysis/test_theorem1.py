"""Theorem 1 in numbers, against a slow loop, the paper's bounds and an exact formula."""

import math

import pytest
import torch

from fairseq_linformer.analysis import theorem1
from fairseq_linformer.analysis.heads import neighbor_head, random_head

from .conftest import generator


def test_bounds_equal_the_papers():
    assert theorem1.theorem_bound(512, 400, 0.5) == pytest.approx(1 - 1024 * math.exp(-12.5))
    assert theorem1.theorem_bound(512, 8, 0.5) == 0
    # With its own k the bound is 1 - 2 n^(-1/4).
    k = theorem1.stated_k(512, 0.5)
    assert 1 - 1024 * math.exp(-0.125 * k / 4) == pytest.approx(1 - 2 * 512**-0.25)


def test_probabilities_equal_a_slow_loop():
    """With the same random numbers, one k and column at a time."""
    head, same = random_head(10, 3, generator()), generator(7)
    ks, epsilons = [2, 5], [0.3, 0.6, 0.9]
    expected = torch.zeros(4, 2, 3, dtype=torch.float64)
    for draw in range(4):
        rows = torch.cat([torch.randn(k, 10, generator=same, dtype=torch.float64) for k in (2, 3)])
        for i, k in enumerate(ks):
            R = rows[:k] / math.sqrt(k)
            for w in head.V.T:
                error = head.P @ R.T @ R @ w - head.P @ w
                for j, eps in enumerate(epsilons):
                    expected[draw, i, j] += (error.norm() <= eps * (head.P @ w).norm()) / 3
    torch.testing.assert_close(theorem1.probabilities(head, ks, epsilons, 4, generator(7)), expected)
    assert 0 < expected.mean() < 1


@pytest.mark.parametrize("build", [random_head, neighbor_head])
def test_best_rank_shares_equal_a_slow_loop(build):
    """Share of columns w with ||P_k w - P w|| <= eps ||P w||, P_k from all of the SVD."""
    head = build(512, 8, generator())
    shares = theorem1.best_rank_shares(head, (0.05, 0.6))
    (k, share) = shares[0.6]
    assert 0.05 not in shares and k == math.ceil(theorem1.stated_k(512, 0.6)) < 512
    U, s, Vh = torch.linalg.svd(head.P)
    P_k = U[:, :k] @ torch.diag(s[:k]) @ Vh[:k]
    within = [(P_k @ w - head.P @ w).norm() <= 0.6 * (head.P @ w).norm() for w in head.V.T]
    assert share == pytest.approx(sum(map(float, within)) / 8)
