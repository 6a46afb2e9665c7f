"""Theorem 2: rows within epsilon at the theorem's own k."""

import pytest

from fairseq_linformer.analysis.samples import summary
from fairseq_linformer.reproduction.experiments import theorem_2
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED

from ..evidence import number, outcome, record, verdict

PROOF, NOTHING = "proof, delta = 2^-n", "F = 0"


def rows(share, n=128, d=64, k=98, approximation=PROOF, nothing=0.2, **changed):
    """d = 64, eps = 0.5: 9 d log(d) / eps^2 is 9,582, and 5 log(128) / eps^2 is 97.04, so that k is 98."""
    at = {"source": "random", "n": n, "head_dim": d}
    found = [
        number(metric, value, (0.0, 1.0), approximation=name, k=k, **at)
        for metric, name, value in (
            ("spectral_within_eps", approximation, share),
            ("spectral_within_eps", NOTHING, nothing),
            ("frobenius_within_eps", NOTHING, 0.01),
            ("frobenius_within_eps", PROOF, 0.5 + nothing),
        )
    ]
    return record(found, **{"identifier": "theorem-2-cpu", "experiment": "theorem-2", **changed})


@pytest.mark.parametrize("share, expected", [(0.95, HOLDS), (0.9, HOLDS), (0.89, FAILS)])
def test_nearly_all_rows_are_within_epsilon(share, expected):
    assert theorem_2.ALMOST_ALL == 0.9
    assert outcome("theorem-2", rows(share)) == expected


def test_the_numbers_beside():
    (check,) = verdict("theorem-2", rows(0.95)).checks
    for said in ("0.95", "k = 98", "9,582", "above every n", "gives 0.20", "0.70"):
        assert said in check.text
    (check,) = verdict("theorem-2", rows(0.95, n=16384, k=195)).checks
    assert "not above every n" in check.text


@pytest.mark.parametrize("k", [97, 99, 128])
def test_another_k_is_not_the_theorems(k):
    assert outcome("theorem-2", rows(0.95, k=k)) == UNDECIDED


def test_the_branch_that_does_not_depend_on_n():
    """d = 2: 9 d log(d) / eps^2 is 49.9."""
    (check,) = verdict("theorem-2", rows(0.95, d=2, k=50)).checks
    assert (
        check.outcome == HOLDS
        and "does not depend on n" in check.text
        and "does not depend" not in verdict("theorem-2", rows(0.95)).deciding[0]
    )


def test_another_approximation_is_not_the_proofs():
    assert outcome("theorem-2", rows(0.95, approximation="proof, delta = 1")) == UNDECIDED


def test_every_head_decides():
    both = rows(0.95).changed(
        measurements=[*rows(0.95).measurements, *rows(0.5, n=512, k=125, nothing=0.1).measurements]
    )
    found = verdict("theorem-2", both)
    assert found.outcome == FAILS and len(found.checks) == 2
    assert all(said in found.deciding[0] for said in ("n = 512", "gives 0.10", "0.60"))


@pytest.mark.parametrize("length, said", [(9582, "above every n"), (9583, "not above every n")])
def test_the_branch_of_d_against_the_longest_n(length, said):
    """Of the heads that were measured, whichever is at the theorem's k."""
    both = rows(0.95).changed(measurements=[*rows(0.95, n=length, k=8).measurements, *rows(0.95).measurements])
    assert f"9,582, {said}" in verdict("theorem-2", both).checks[0].text


@pytest.mark.parametrize("other", [{"n": 129}, {"d": 32}])
def test_the_numbers_beside_are_of_the_same_head(other):
    """Its k is 98 too."""
    both = rows(0.95).changed(measurements=[*rows(0.95).measurements, *rows(0.92, nothing=0.1, **other).measurements])
    first, second = verdict("theorem-2", both).checks
    assert "gives 0.20" in first.text and "0.70" in first.text and "gives 0.10" in second.text and "0.60" in second.text


def test_measurements():
    infinite = float("inf")
    error = {
        "n": 16,
        "d": 4,
        "k": 8,
        "candidates": {PROOF: {"spectral": summary([1.0, 3.0]), "spectral within eps": summary([0.5, 0.7], "mean")}},
    }
    step = {
        "n": 16,
        "d": 4,
        "k": 8,
        "delta": "1/n",
        "longest": summary([2.0, infinite]),
        "longest_gamma": summary([2.0, 4.0]),
        "rows": summary([1.0]),
    }
    needed = {"n": 16, "d": 4, "frobenius": summary([8.0, 8.0]), "spectral": summary([infinite, infinite])}
    numbers = {"theorem2": {"errors": [error], "step1": [], "step3": [step], "needed_k": [needed]}}
    one = record(list(theorem_2.measurements(numbers, "random")))
    found = {(m.metric, m.k, m.delta): m.value for m in one.measurements}
    assert found == {
        ("spectral", 8, None): 2.0,
        ("spectral_within_eps", 8, None): pytest.approx(0.6),
        ("longest", 8, "1/n"): 2.0,
        ("longest_share", 8, "1/n"): 0.5,
        ("longest_gamma", 8, "1/n"): 3.0,
        ("longest_gamma_share", 8, "1/n"): 1.0,
        ("rows", 8, "1/n"): 1.0,
        ("k_needed_frobenius", None, None): 8.0,
        ("k_needed_frobenius_share", None, None): 1.0,
        ("k_needed_spectral_share", None, None): 0.0,
    }
    assert {(m.source, m.n, m.head_dim) for m in one.measurements} == {("random", 16, 4)}
    assert one.find("spectral").approximation == PROOF
    assert "share" in one.find("spectral_within_eps").unit and "share" not in one.find("spectral").unit


def test_chart():
    (chart,) = find("theorem-2").charts([rows(0.95)])
    assert chart.log_x and "theorem-2-cpu" in chart.identifier
    assert {series.name: series.runs for series in chart.series} == {
        f"random, n = 128, {PROOF}": [[(98, 0.95)]],
        f"random, n = 128, {NOTHING}": [[(98, 0.2)]],
    }
    assert len(find("theorem-2").charts([rows(0.95, approximation="step 2 alone")])[0].series) == 1
    falling = rows(0.95).changed(measurements=[*rows(0.95).measurements, *rows(0.5, k=16).measurements])
    assert find("theorem-2").charts([falling])[0].series[0].runs == [[(16, 0.5), (98, 0.95)]]
