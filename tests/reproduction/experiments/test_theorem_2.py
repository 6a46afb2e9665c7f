"""Theorem 2: rows within epsilon at the theorem's own k."""

import pytest

from fairseq_linformer.analysis.samples import summarize
from fairseq_linformer.reproduction.experiments import theorem_2
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED

from ..evidence import number, outcome, record, verdict

PROOF, NOTHING = "proof, delta = 2^-n", "F = 0"


CLAIMS = {"theorem-2": "spectral", "theorem-2-frobenius": "frobenius"}
both_norms = pytest.mark.parametrize("claim", CLAIMS)


def rows(share, n=128, d=64, k=98, approximation=PROOF, nothing=0.2, norms=("spectral", "frobenius"), **changed):
    """d = 64, eps = 0.5: 9 d log(d) / eps^2 is 9,582, and 5 log(128) / eps^2 is 97.04, so that k is 98."""
    at = {"source": "random", "n": n, "head_dim": d}
    found = [
        number(f"{norm}_within_eps", value, (0.0, 1.0), approximation=name, k=k, **at)
        for norm in norms
        for name, value in ((approximation, share), (NOTHING, nothing))
        if value is not None
    ]
    return record(found, **{"identifier": "theorem-2-cpu", "experiment": "theorem-2", **changed})


@both_norms
@pytest.mark.parametrize(
    "share, nothing, expected",
    [
        (0.95, 0.2, HOLDS),
        (0.9, 0.89, HOLDS),
        (0.89, 0.2, FAILS),
        (0.89, 1.0, FAILS),
        (0.9, 0.9, UNDECIDED),  # F = 0 satisfies the bound too
        (0.95, None, UNDECIDED),
        (0.89, None, FAILS),
    ],
)
def test_nearly_all_rows_are_within_epsilon_and_not_with_nothing(claim, share, nothing, expected):
    assert theorem_2.MIN_SHARE == 0.9
    assert outcome(claim, rows(share, nothing=nothing)) == expected


@pytest.mark.parametrize("claim, norm", CLAIMS.items())
def test_each_claim_is_about_one_norm(claim, norm):
    (other,) = set(CLAIMS.values()) - {norm}
    both = rows(0.95, norms=(norm,)).measurements + rows(0.1, nothing=1.0, norms=(other,)).measurements
    assert outcome(claim, rows(0.95).copy_with(measurements=both)) == HOLDS
    assert outcome(claim, rows(0.95, norms=(other,))) == UNDECIDED


def test_a_bound_that_nothing_satisfies_is_noted():
    def text(share, nothing):
        return verdict("theorem-2", rows(share, nothing=nothing)).deciding[0]

    assert text(0.95, 1.0) == "random, n = 128, k = 98: 0.95 of rows; needs ≥ 0.9; F = 0: 1.00, so passing says nothing"
    assert "says nothing" in text(0.1, 1.0) and "says nothing" not in text(0.95, 0.2)


@both_norms
def test_which_branch_gives_k_is_reported(claim):
    (remark,) = verdict(claim, rows(0.95)).remarks
    for said in ("k = 98", "d = 64", "5 log(n)", "9,582", "above every n"):
        assert said in remark
    (remark,) = verdict(claim, rows(0.95, n=16384, k=195)).remarks
    assert "not above every n" in remark


@both_norms
@pytest.mark.parametrize("k", [97, 99, 128])
def test_another_k_is_not_the_theorems(claim, k):
    assert outcome(claim, rows(0.95, k=k)) == UNDECIDED


def test_the_branch_that_does_not_depend_on_n():
    """d = 2: 9 d log(d) / eps^2 is 49.9."""
    found = verdict("theorem-2", rows(0.95, d=2, k=50))
    assert found.outcome == HOLDS and "does not depend on n" in found.remarks[0]
    assert "does not depend" not in verdict("theorem-2", rows(0.95)).remarks[0]


@both_norms
def test_another_approximation_is_not_the_proofs(claim):
    assert outcome(claim, rows(0.95, approximation="proof, delta = 1")) == UNDECIDED


@both_norms
def test_every_head_decides(claim):
    both = rows(0.95).copy_with(
        measurements=[*rows(0.95).measurements, *rows(0.5, n=512, k=125, nothing=0.1).measurements]
    )
    found = verdict(claim, both)
    assert found.outcome == FAILS and len(found.checks) == 2 == len(found.remarks)
    assert "n = 512" in found.deciding[0] and "F = 0: 0.10" in found.deciding[0]


@pytest.mark.parametrize("length, said", [(9582, "above every n"), (9583, "not above every n")])
def test_the_branch_of_d_against_the_longest_n(length, said):
    """Of the heads that were measured, whichever is at the theorem's k."""
    both = rows(0.95).copy_with(measurements=[*rows(0.95, n=length, k=8).measurements, *rows(0.95).measurements])
    assert f"9,582, {said}" in verdict("theorem-2", both).remarks[0]


@pytest.mark.parametrize("other", [{"n": 129}, {"d": 32}])
def test_f_0_is_of_the_same_head(other):
    """Its k is 98 too."""
    both = rows(0.95).copy_with(measurements=[*rows(0.95).measurements, *rows(0.92, nothing=0.1, **other).measurements])
    first, second = verdict("theorem-2", both).checks
    assert "F = 0: 0.20" in first.text and "F = 0: 0.10" in second.text


def test_measurements():
    infinite = float("inf")
    error = {
        "n": 16,
        "d": 4,
        "k": 8,
        "candidates": {
            PROOF: {"spectral": summarize([1.0, 3.0]), "spectral within eps": summarize([0.5, 0.7], "mean")}
        },
    }
    step = {
        "n": 16,
        "d": 4,
        "k": 8,
        "delta": "1/n",
        "longest": summarize([2.0, infinite]),
        "longest_gamma": summarize([2.0, 4.0]),
        "rows": summarize([1.0]),
    }
    needed = {"n": 16, "d": 4, "frobenius": summarize([8.0, 8.0]), "spectral": summarize([infinite, infinite])}
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
    falling = rows(0.95).copy_with(measurements=[*rows(0.95).measurements, *rows(0.5, k=16).measurements])
    assert find("theorem-2").charts([falling])[0].series[0].runs == [[(16, 0.5), (98, 0.95)]]
