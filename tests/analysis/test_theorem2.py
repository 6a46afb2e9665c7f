"""Theorem 2 and the steps of its proof in numbers, against slow loops, exact arithmetic and provable bounds."""

import math
import statistics
from decimal import Decimal, localcontext

import pytest
import torch

from fairseq_linformer.analysis import theorem2
from fairseq_linformer.analysis.heads import Head, random_head


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_stated_k_equals_the_theorems():
    """k = min{9 d log(d) / eps^2, 5 log(n) / eps^2}."""
    stated = theorem2.stated_k(512, 64, 0.5)
    assert (stated.of_d, stated.of_n) == (pytest.approx(9 * 64 * math.log(64) * 4), pytest.approx(20 * math.log(512)))
    assert [round(theorem2.stated_k(n, 64, 0.5).k) for n in (128, 512, 2048)] == [97, 125, 152]
    # The branches meet at n = exp(9 d log(d) / 5): 2 log(2) 9 / 5 = 2.495, n = 12.1 for d = 2, and e^30 for d = 8.
    assert theorem2.stated_k(12, 2, 0.5).k == theorem2.stated_k(12, 2, 0.5).of_n < theorem2.stated_k(12, 2, 0.5).of_d
    assert theorem2.stated_k(13, 2, 0.5).k == theorem2.stated_k(13, 2, 0.5).of_d < theorem2.stated_k(13, 2, 0.5).of_n
    assert theorem2.stated_k(10**12, 8, 0.5).k == theorem2.stated_k(10**12, 8, 0.5).of_n


def test_construction_of_theorem_2_has_equal_rows():
    """With delta = 2^-n, exp(x E^T) is 1, softmax is 1/k, and each output row is the mean of the rows of R V."""
    head, R = random_head(40, 4, generator()), theorem2.draw(8, 40, generator(1))
    X = theorem2.construction(head, R, theorem2.proof_delta(40)) @ head.V
    torch.testing.assert_close(X, (R @ head.V).mean(0).expand(40, -1), rtol=0, atol=1e-9)
    errors = theorem2.candidate_errors([head], 8, 0.5, 3, generator(2))
    assert max(errors["proof, delta = 2^-n"]["same rows"]) < 1e-8 < 0.1 < min(errors["P V itself"]["same rows"])
    assert len(errors["proof, delta = 2^-n"]["spectral"]) == 3 and len(errors["P V itself"]["same rows"]) == 1  # draws
    # F = 0 satisfies the theorem with eps = 1 by Cauchy-Schwarz; its relative error is 1.
    assert max(errors["F = 0"]["spectral"]) <= 1 and errors["F = 0"]["true"] == pytest.approx([1, 1, 1])
    expected = []
    P = torch.softmax(head.Q @ head.K.T / 2, -1)
    for i in range(40):
        expected.append(float((X[i] - P[i] @ head.V).norm() / (P[i].norm() * head.V.norm())))
    torch.testing.assert_close(theorem2.row_errors(head, X)["frobenius"], torch.tensor(expected, dtype=torch.float64))


def test_steps_of_the_proof_equal_slow_loops():
    head, R = random_head(30, 3, generator()), theorem2.draw(12, 30, generator(1))
    E = 0.01 * R
    A = head.Q @ head.K.T / math.sqrt(3)
    needed = [float((torch.exp(x @ E.T) - torch.exp(x) @ R.T).norm() / torch.exp(x).norm()) for x in A]
    printed = [float((torch.exp(x @ E.T) - torch.exp(0.01 * x) @ R.T).norm() / torch.exp(x).norm()) for x in A]
    V, F = head.V, math.exp(-0.01) * R
    whole = [
        float((torch.exp(x @ E.T) @ F @ V - torch.exp(x) @ V).norm() / (torch.exp(x).norm() * V.norm())) for x in A
    ]
    sums = [float(torch.exp(x @ E.T).sum() / torch.exp(x).sum()) for x in A]
    for name, values in (("needed", needed), ("printed", printed), ("whole", whole), ("sums", sums)):
        assert theorem2.step1(head, R, 0.01)[name] == pytest.approx(statistics.median(values), rel=1e-9)
    step3 = theorem2.step3(head, R, 1.0, generator())
    assert step3["rank"] == 6 and step3["limit"] == 0 and 1 <= step3["longest"] < math.inf
    # If V has rank 1, each block has rank 1 instead of 3, for every delta.
    flat = Head(head.Q, head.K, head.V[:, :1].expand(-1, 3).clone())
    assert theorem2.step3(flat, R, 1.0, generator()) == {
        "rank": 2,
        "wanted": 6,
        "limit": 0,
        "longest": math.inf,
        "longest_random": math.inf,
    }
    assert theorem2.needed_k(head, [1, 4000], 0.5, 3, generator())["spectral"] == 4000


def exact_gamma(head, R, delta, rows):
    """Gamma with 80 digits: exp(delta A R^T) R V and exp(A) V, and Gaussian elimination."""

    def to_decimals(matrix):
        return [[Decimal(value) for value in row] for row in matrix.tolist()]

    def multiply(X, Y):
        return [[sum(x * y for x, y in zip(row, column)) for column in zip(*Y)] for row in X]

    with localcontext() as context:
        context.prec = 80
        A, RV, V = to_decimals(head.A), multiply(to_decimals(R), to_decimals(head.V)), to_decimals(head.V)
        scores = multiply(A, to_decimals(R.T))
        first = multiply([[(delta * value).exp() for value in row] for row in scores], RV)
        second = multiply([[value.exp() for value in row] for row in A], V)
        M = [first_row + second_row for first_row, second_row in zip(first, second)]
        # Row i of Gamma solves x M_s = M_i: eliminate in M_s^T, augmented with all right-hand sides.
        table = [[M[r][c] for r in rows] + [row[c] for row in M] for c in range(len(rows))]
        for i in range(len(rows)):
            pivot = max(range(i, len(rows)), key=lambda j: abs(table[j][i]))
            table[i], table[pivot] = table[pivot], table[i]
            table[i] = [value / table[i][i] for value in table[i]]
            for j in range(len(rows)):
                if j != i:
                    table[j] = [a - table[j][i] * b for a, b in zip(table[j], table[i])]
        return torch.tensor([[float(row[len(rows) + i]) for row in table] for i in range(len(M))], dtype=torch.float64)


@pytest.mark.parametrize("delta", [2.0**-60, 2.0**-40, 1e-4, 1.0])
def test_gamma_equals_exact_arithmetic(delta):
    """Also with delta = 2^-60, where exp(delta A R^T) rounds to 1 and the rank drops unless the limit is used."""
    head, R = random_head(9, 2, generator(3)), theorem2.draw(5, 9, generator(4))
    M, limit = theorem2.gamma_columns(head, R, delta)
    assert limit == (delta < 1e-8) and M.shape == (9, 4)
    rows = torch.tensor([1, 4, 6, 7])
    torch.testing.assert_close(
        theorem2.gamma(M, rows), exact_gamma(head, R, Decimal(delta), rows.tolist()), rtol=1e-6, atol=1e-7
    )
    step3 = theorem2.step3(head, R, delta, generator())
    assert step3["rank"] == 4 and 1 <= step3["longest"] <= step3["longest_random"] < math.inf
