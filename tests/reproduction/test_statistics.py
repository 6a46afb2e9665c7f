"""Verdicts and intervals."""

import math

import pytest
from scipy import stats

from fairseq_linformer.reproduction.statistics import (
    FAILS,
    HOLDS,
    OUTCOMES,
    UNDECIDED,
    UNMEASURED,
    Check,
    Estimate,
    Verdict,
    combine,
    combine_records,
    geometric_mean,
    not_measured,
    ratio_of_extremes,
    wilson,
)

from .evidence import number, record

# Verdicts


@pytest.mark.parametrize(
    "outcomes, combined",
    [((HOLDS, HOLDS), HOLDS), ((HOLDS, UNDECIDED), UNDECIDED), ((UNDECIDED, FAILS, HOLDS), FAILS), ((), UNDECIDED)],
)
def test_one_failure_decides_and_all_must_hold(outcomes, combined):
    verdict = combine([Check(outcome, outcome) for outcome in outcomes], [record([number("x", 1.0)])], ["a remark"])
    assert verdict.outcome == combined and verdict.records == ["a-record"] and verdict.numbers[-1] == "a remark"


def test_what_decides_is_reported_first():
    checks = [Check(HOLDS, "a"), Check(UNDECIDED, "b"), Check(FAILS, "c")]
    assert Verdict(FAILS, checks, ["r"], ["d"]).numbers == ["c", "b", "a", "d"]
    assert Verdict(UNDECIDED, checks, ["r"]).deciding == ["b", "c", "a"]  # nothing fails without grounds


def test_a_verdict_has_a_known_outcome_and_records():
    with pytest.raises(ValueError, match="perhaps"):
        Verdict("perhaps", [], ["r"])
    for outcome, records in ((HOLDS, []), (UNDECIDED, []), (UNMEASURED, ["r"])):
        with pytest.raises(ValueError, match="records"):
            Verdict(outcome, [], records)
    missing = not_measured("of it")
    assert missing.outcome == UNMEASURED in OUTCOMES and missing.records == [] and "of it" in missing.remarks[0]


def test_checks_of_several_records_are_named_and_combined():
    a, b, c = (record([number("x", 1.0)], name) for name in "abc")
    checks = {"a": [Check(HOLDS, "1")], "b": [Check(FAILS, "2")], "c": []}
    both = combine_records([a, b, c], lambda r: checks[r.identifier])
    assert (both.outcome, both.records, both.deciding) == (FAILS, ["a", "b"], ["b: 2", "a: 1"])
    alone = combine_records([c, a], lambda r: checks[r.identifier])
    assert (alone.outcome, alone.records, alone.deciding) == (HOLDS, ["a"], ["1"])
    nothing = combine_records([c], lambda r: checks[r.identifier])
    assert (nothing.outcome, nothing.records) == (UNDECIDED, ["c"])


# Estimates


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
    [
        (-1.0, 1.0, HOLDS),
        (-1.01, 0.0, UNDECIDED),
        (0.0, 1.01, UNDECIDED),
        (1.0, 2.0, UNDECIDED),
        (-2.0, -1.0, UNDECIDED),
        (1.01, 2.0, FAILS),
        (-2.0, -1.01, FAILS),
        (-2.0, 2.0, UNDECIDED),
    ],
)
def test_an_interval_between_two_limits(low, high, outcome):
    assert Estimate(0.0, low, high, "x").within(-1, 1).outcome == outcome


def test_a_ratio_of_medians_is_between_those_of_the_most_distant_runs():
    found = ratio_of_extremes(number("x", 4.0, (2.0, 6.0)), number("x", 2.0, (1.0, 4.0)), "x")
    assert (found.value, found.low, found.high) == (2.0, 0.5, 6.0)


def test_student_by_hand():
    """Logarithms 0, 0.1, 0.2: mean 0.1, standard error 0.1 / sqrt(3), times 4.303 for three seeds."""
    found, half = geometric_mean([0.0, 0.1, 0.2], "x"), 4.303 * 0.1 / math.sqrt(3)
    assert found.value == pytest.approx(math.exp(0.1))
    assert (found.low, found.high) == pytest.approx((math.exp(0.1 - half), math.exp(0.1 + half)), rel=1e-4)


@pytest.mark.parametrize("logarithms", [(0.0, 0.3), (0.1, -0.2, 0.4, 0.05), (0.0, 0.2) * 6])
def test_student_as_scipy_has_it(logarithms):
    found, wanted = geometric_mean(logarithms, "x"), stats.ttest_1samp(logarithms, 0).confidence_interval(0.95)
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((wanted.low, wanted.high))


def test_equal_logarithms_have_no_interval():
    found = geometric_mean([math.log(2)] * 3, "x")
    assert found.value == found.low == found.high == pytest.approx(2)


@pytest.mark.parametrize("trials", [1, 7, 60])
def test_wilson_as_scipy_has_it(trials):
    for successes in range(trials + 1):
        wanted = stats.binomtest(successes, trials).proportion_ci(0.95, "wilson")
        assert wilson(successes / trials, trials) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


def test_wilson_by_hand_and_of_a_mean_of_shares():
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.2775), abs=5e-5)  # z^2 / (n + z^2)
    assert wilson(0.5, 100) == pytest.approx((0.4038, 0.5962), abs=5e-5)
    assert wilson(0.2, 10)[0] < wilson(0.25, 10)[0] < wilson(0.3, 10)[0]
    assert wilson(1 + 1e-9, 10) == wilson(1.0, 10) and wilson(-1e-9, 10) == wilson(0.0, 10)  # rounding of a mean
