"""Theorem 1 in numbers, against slow loops, closed forms and provable bounds."""

import math

import pytest
import torch

from fairseq_linformer.analysis import theorem1
from fairseq_linformer.analysis.heads import neighbor_head, random_head


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_bounds_equal_the_papers():
    assert theorem1.theorem_bound(512, 400, 0.5) == pytest.approx(1 - 1024 * math.exp(-12.5))
    assert theorem1.theorem_bound(512, 8, 0.5) == 0
    # With its own k the bound is 1 - 2 n^(-1/4).
    k = theorem1.stated_k(512, 0.5)
    assert 1 - 1024 * math.exp(-0.125 * k / 4) == pytest.approx(1 - 2 * 512**-0.25)
    for epsilon in (0, 1, 1.5):
        with pytest.raises(ValueError, match=f"eps must .* {epsilon:g}"):
            theorem1.exponent(epsilon)


def test_probabilities_equal_a_slow_loop():
    """With the same random numbers, one k, column and row at a time."""
    head = random_head(10, 3, generator())
    ks, epsilons = [2, 5], [0.3, 0.6, 0.9]
    measured = theorem1.probabilities(head.P, head.V, ks, epsilons, 4, generator(7))
    same, P = generator(7), head.P
    expected = torch.zeros(5, 4, 2, 3, dtype=torch.float64)
    for draw in range(4):
        rows = torch.cat(
            [
                torch.randn(2, 10, generator=same, dtype=torch.float64),
                torch.randn(3, 10, generator=same, dtype=torch.float64),
            ]
        )
        for i, k in enumerate(ks):
            R = rows[:k] / math.sqrt(k)
            for w in head.V.T:
                error = P @ R.T @ R @ w - P @ w
                for j, eps in enumerate(epsilons):
                    expected[4, draw, i, j] += ((R @ w).norm() <= (1 + eps) * w.norm()) / 3
                    expected[0, draw, i, j] += (error.norm() <= eps * (P @ w).norm()) / 3
                    expected[1, draw, i, j] += (error.norm() <= eps * P.norm() * w.norm()) / 3
                    for u in P:
                        pair_error = abs(u @ R.T @ R @ w - u @ w)
                        expected[2, draw, i, j] += (pair_error <= eps * abs(u @ w)) / 30
                        expected[3, draw, i, j] += (pair_error <= eps * u.norm() * w.norm()) / 30
    for i, name in enumerate(theorem1.MEASURED):
        torch.testing.assert_close(measured[name], expected[i])


def test_measured_error_equals_the_expected_error():
    head = random_head(12, 4, generator(1))
    measured = theorem1.probabilities(head.P, head.V, [4, 12], [0.5], 800, generator(2))
    torch.testing.assert_close(measured["squared_error"].mean(0), measured["expected_error"], rtol=0.1, atol=0)


def norm_bound(k, epsilon):
    """The lemma's lower bound on Pr(||R w|| <= (1 + eps) ||w||)."""
    return 1 - math.exp(-theorem1.exponent(epsilon) * k / 4)


def test_lemma_holds_with_norms_but_not_as_printed():
    head = random_head(12, 4, generator(1))
    measured = theorem1.probabilities(head.P, head.V, [16, 64], [0.5], 300, generator(3))
    means = {name: measured[name].mean((0, 2)).tolist() for name in theorem1.MEASURED}
    for i, k in enumerate((16, 64)):
        assert means["norms"][i] >= norm_bound(k, 0.5)
    assert 0.9 < means["norms"][0] < means["norms"][1]
    assert means["pair_lengths"][1] >= theorem1.theorem_bound(1, 64, 0.5) > means["pair"][1]


def test_printed_lemma_fails_for_orthogonal_vectors():
    """If u w = 0, the printed lemma allows no error, but there is one for every k."""
    P = torch.zeros(2, 6, dtype=torch.float64)
    P[:, 0] = 1  # u = e_1
    W = torch.zeros(6, 1, dtype=torch.float64)
    W[0], W[1] = 1e-9, 1  # w = e_2, nearly
    measured = theorem1.probabilities(P, W, [6], [0.9], 50, generator())
    assert measured["pair"].mean().item() == measured["theorem"].mean().item() == 0
    assert measured["pair_lengths"].mean().item() > 0.8
    # If ||P w|| = ||P|| ||w||, both inequalities are the same.
    parallel = theorem1.probabilities(P, torch.eye(6, 1, dtype=torch.float64), [6], [0.9], 50, generator())
    assert parallel["theorem"].mean().item() == parallel["lengths"].mean().item() > 0.5


@pytest.mark.parametrize("build", [random_head, neighbor_head])
def test_the_best_approximation_of_the_theorems_rank(build):
    """Column by column, with P_k written out; at eps = 0.3 k is 441, above n."""
    n, epsilons = 256, (0.3, 0.5, 0.65)
    head = build(n, 8, generator())
    found = theorem1.best_rank_shares(head, epsilons)
    assert {epsilon: k for epsilon, (k, _) in found.items()} == {0.5: 222, 0.65: 188}
    U, s, Vh = torch.linalg.svd(head.P)
    for epsilon, (k, share) in found.items():
        best = U[:, :k] @ torch.diag(s[:k]) @ Vh[:k]
        near = [(best @ w - head.P @ w).norm() <= epsilon * (head.P @ w).norm() for w in head.V.T]
        assert share == sum(map(bool, near)) / 8
    assert found[0.5] == (222, 1.0)


@pytest.mark.slow
def test_neighbor_heads_attend_to_the_next_position():
    head = neighbor_head(256, 64, generator())
    assert float(head.P.max(1).values.min()) > 0.99 and (head.P.argmax(1) == (torch.arange(256) + 1) % 256).all()
    # All singular values are near 1, so that P_k leaves 1 - k / n of the square of P w.
    assert theorem1.best_rank_shares(head, (0.3, 0.65)) == {0.65: (188, 1.0)}
    assert theorem1.best_rank_shares(neighbor_head(1024, 64, generator()), (0.65,)) == {0.65: (235, 0.0)}


@pytest.mark.parametrize(
    "ks, epsilons, draws, message",
    [
        ([4, 2], [0.5], 1, "k must .*4, 2"),
        ([0, 2], [0.5], 1, "k must .*0, 2"),
        ([2], [0.5], 0, "draws must .* 0"),
        ([2], [1.0], 1, "eps must .* 1"),
    ],
)
def test_rejected_arguments(ks, epsilons, draws, message):
    head = random_head(8, 2, generator())
    with pytest.raises(ValueError, match=message):
        theorem1.probabilities(head.P, head.V, ks, epsilons, draws, generator())
