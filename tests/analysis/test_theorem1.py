"""Theorem 1 in numbers, against slow loops, closed forms and what can be proved."""

import math

import pytest
import torch

from fairseq_linformer.analysis import theorem1
from fairseq_linformer.analysis.heads import random_head


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_bounds_are_those_of_the_paper():
    assert theorem1.lemma_bound(256, 0.5) == pytest.approx(1 - 2 * math.exp(-0.125 * 256 / 4))
    assert theorem1.theorem_bound(512, 400, 0.5) == pytest.approx(1 - 1024 * math.exp(-12.5))
    assert theorem1.theorem_bound(512, 8, 0.5) == 0
    # With its own k the bound is 1 - 2 n^(-1/4).
    k = theorem1.stated_k(512, 0.5)
    assert 1 - 1024 * math.exp(-0.125 * k / 4) == pytest.approx(1 - 2 * 512**-0.25)
    assert theorem1.norm_bound(64, 0.5) == pytest.approx(1 - math.exp(-0.125 * 16))
    for epsilon in (0, 1, 1.5):
        with pytest.raises(ValueError, match=f"eps is {epsilon:g}"):
            theorem1.exponent(epsilon)


def test_probabilities_are_those_of_a_slow_loop():
    """One draw for each k alone, the same numbers, one column and one row at a time."""
    head = random_head(10, 3, generator())
    ks, epsilons = [2, 5], [0.3, 0.6, 0.9]
    found = theorem1.probabilities(head.P, head.V, ks, epsilons, 4, generator(7))
    again, P = generator(7), head.P
    held = torch.zeros(5, 4, 2, 3, dtype=torch.float64)
    for draw in range(4):
        rows = torch.cat(
            [
                torch.randn(2, 10, generator=again, dtype=torch.float64),
                torch.randn(3, 10, generator=again, dtype=torch.float64),
            ]
        )
        for i, k in enumerate(ks):
            R = rows[:k] / math.sqrt(k)
            for w in head.V.T:
                error = P @ R.T @ R @ w - P @ w
                for j, eps in enumerate(epsilons):
                    held[4, draw, i, j] += ((R @ w).norm() <= (1 + eps) * w.norm()) / 3
                    held[0, draw, i, j] += (error.norm() <= eps * (P @ w).norm()) / 3
                    held[1, draw, i, j] += (error.norm() <= eps * P.norm() * w.norm()) / 3
                    for u in P:
                        one = abs(u @ R.T @ R @ w - u @ w)
                        held[2, draw, i, j] += (one <= eps * abs(u @ w)) / 30
                        held[3, draw, i, j] += (one <= eps * u.norm() * w.norm()) / 30
    for i, name in enumerate(theorem1.MEASURED):
        torch.testing.assert_close(found[name], held[i])


def test_the_expected_error_is_what_is_measured():
    head = random_head(12, 4, generator(1))
    found = theorem1.probabilities(head.P, head.V, [4, 12], [0.5], 800, generator(2))
    torch.testing.assert_close(found["squared_error"].mean(0), found["expected_error"], rtol=0.1, atol=0)
    # The lemma with lengths, and the one on norms, hold as often as they promise; the printed one does not.
    far = theorem1.probabilities(head.P, head.V, [16, 64], [0.5], 300, generator(3))
    for i, k in enumerate((16, 64)):
        assert far["norms"][:, i].mean().item() >= theorem1.norm_bound(k, 0.5)
    assert 0.9 < far["norms"][:, 0].mean().item() < far["norms"][:, 1].mean().item()  # for k = 16 it is not certain
    assert far["pair_lengths"][:, 1].mean().item() >= theorem1.lemma_bound(64, 0.5) > far["pair"][:, 1].mean().item()


def test_the_printed_lemma_fails_for_vectors_at_right_angles():
    """u w = 0: no error is allowed, and there always is one, whatever k."""
    P = torch.zeros(2, 6, dtype=torch.float64)
    P[:, 0] = 1  # u = e_1
    W = torch.zeros(6, 1, dtype=torch.float64)
    W[0], W[1] = 1e-9, 1  # w = e_2, all but
    found = theorem1.probabilities(P, W, [6], [0.9], 50, generator())
    assert (
        found["pair"].mean().item() == found["theorem"].mean().item() == 0 and found["pair_lengths"].mean().item() > 0.8
    )
    # Where P w is as long as ||P|| ||w||, both are the same.
    same = theorem1.probabilities(P, torch.eye(6, 1, dtype=torch.float64), [6], [0.9], 50, generator())
    assert same["theorem"].mean().item() == same["lengths"].mean().item() > 0.5


@pytest.mark.parametrize(
    "ks, epsilons, draws, named",
    [([4, 2], [0.5], 1, "k is"), ([0, 2], [0.5], 1, "k is"), ([2], [0.5], 0, "draws"), ([2], [1.0], 1, "eps is 1")],
)
def test_refusals(ks, epsilons, draws, named):
    head = random_head(8, 2, generator())
    with pytest.raises(ValueError, match=named):
        theorem1.probabilities(head.P, head.V, ks, epsilons, draws, generator())
