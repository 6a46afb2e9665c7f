"""Outcomes of rules, and intervals against a second implementation."""

import pytest
from scipy import stats

from fairseq_linformer.reproduction.verdict import (
    FAILS,
    HOLDS,
    UNDECIDED,
    UNMEASURED,
    Check,
    Estimate,
    Verdict,
    student_interval,
    wilson,
)


@pytest.mark.parametrize(
    "outcomes, preconditions, outcome",
    [
        ([], [], UNMEASURED),
        ([HOLDS, HOLDS], [], HOLDS),
        ([HOLDS, UNDECIDED], [], UNDECIDED),
        ([HOLDS, UNDECIDED, FAILS], [], FAILS),
        ([HOLDS], [HOLDS], HOLDS),
        ([FAILS], [HOLDS, UNDECIDED], UNDECIDED),
        ([HOLDS], [FAILS], UNDECIDED),
    ],
)
def test_outcome(outcomes, preconditions, outcome):
    checks = [[Check(each, each) for each in some] for some in (outcomes, preconditions)]
    assert Verdict("", "", *checks).outcome == outcome


@pytest.mark.parametrize(
    "low, high, at_most, more_than",
    [
        (0.5, 1.0, HOLDS, FAILS),
        (0.5, 1.1, UNDECIDED, UNDECIDED),
        (1.0, 1.1, UNDECIDED, UNDECIDED),
        (1.01, 1.1, FAILS, HOLDS),
    ],
)
def test_an_interval_against_a_limit(low, high, at_most, more_than):
    estimate = Estimate(1.01, low, high, "x")
    assert (estimate.at_most(1.0).outcome, estimate.more_than(1.0).outcome) == (at_most, more_than)
    assert all(str(value) in estimate.at_most(1.0).text for value in (1.01, low, high))


@pytest.mark.parametrize(
    "low, high, outcome",
    [(-1.0, 1.0, HOLDS), (-1.01, 0.0, UNDECIDED), (1.0, 2.0, UNDECIDED), (1.01, 2.0, FAILS), (-2.0, -1.01, FAILS)],
)
def test_an_interval_between_two_limits(low, high, outcome):
    assert Estimate(0.0, low, high, "x").within(-1, 1).outcome == outcome


@pytest.mark.parametrize("values", [(0.0, 0.3), (0.1, -0.2, 0.4, 0.05), (0.0, 0.2) * 6])
def test_student_as_scipy_has_it(values):
    wanted = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert student_interval(values)[1:] == pytest.approx((wanted.low, wanted.high))


def test_equal_values_have_no_interval():
    assert student_interval([2.0] * 3) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize("trials", [1, 7, 60])
def test_wilson_as_scipy_has_it(trials):
    for successes in range(trials + 1):
        wanted = stats.binomtest(successes, trials).proportion_ci(0.95, "wilson")
        assert wilson(successes / trials, trials) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


def test_wilson_of_a_mean_of_shares():
    assert wilson(0.2, 10)[0] < wilson(0.25, 10)[0] < wilson(0.3, 10)[0]
    assert wilson(1 + 1e-9, 10) == wilson(1.0, 10) and wilson(-1e-9, 10) == wilson(0.0, 10)  # rounding of a mean
