"""Theorem 2 in numbers, against slow loops and provable bounds."""

import math

import pytest
import torch

from fairseq_linformer.analysis import theorem2
from fairseq_linformer.analysis.heads import random_head

from .conftest import generator


def test_stated_k_equals_the_theorems():
    """k = min{9 d log(d) / eps^2, 5 log(n) / eps^2}."""
    of_d, of_n = theorem2.stated_k(512, 64, 0.5)
    assert (of_d, of_n) == (pytest.approx(9 * 64 * math.log(64) * 4), pytest.approx(20 * math.log(512)))
    assert [round(min(theorem2.stated_k(n, 64, 0.5))) for n in (128, 512, 2048)] == [97, 125, 152]
    # The branches meet at n = exp(9 d log(d) / 5): 2 log(2) 9 / 5 = 2.495, n = 12.1 for d = 2, and e^30 for d = 8.
    for n, d, is_of_n in ((12, 2, True), (13, 2, False), (10**12, 8, True)):
        of_d, of_n = theorem2.stated_k(n, d, 0.5)
        assert (of_n < of_d) == is_of_n


def test_construction_of_theorem_2_has_equal_rows():
    """With delta = 2^-n, exp(x E^T) is 1, softmax is 1/k, and each output row is the mean of the rows of R V."""
    head, R = random_head(40, 4, generator()), theorem2.draw(8, 40, generator(1))
    X = theorem2.construction(head, R)
    torch.testing.assert_close(X, (R @ head.V).mean(0).expand(40, -1), rtol=0, atol=1e-9)
    P = torch.softmax(head.Q @ head.K.T / 2, -1)
    expected = [float((X[i] - P[i] @ head.V).norm() / (P[i].norm() * head.V.norm())) for i in range(40)]
    torch.testing.assert_close(theorem2.row_errors(head, X)["frobenius"], torch.tensor(expected, dtype=torch.float64))


def test_shares_count_rows_within_eps():
    head = random_head(40, 4, generator())
    shares = theorem2.shares_within(head, 8, 0.5, 3, generator(2))
    R = theorem2.draw(8, 40, generator(2))
    errors = theorem2.row_errors(head, theorem2.construction(head, R))
    first = {norm: values[0] for norm, values in shares["proof, delta = 2^-n"].items()}
    assert first == {norm: pytest.approx(sum(error <= 0.5 for error in errors[norm]).item() / 40) for norm in errors}
    assert all(len(values) == 3 for norms in shares.values() for values in norms.values())
    # F = 0 satisfies the theorem with eps = 1 by Cauchy-Schwarz.
    assert min(theorem2.shares_within(head, 8, 1.0, 1, generator())["F = 0"]["spectral"]) == 1
