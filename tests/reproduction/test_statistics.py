"""Verdicts, intervals and comparisons of trained models."""

import math

import pytest
from scipy import stats

from fairseq_linformer.reproduction import statistics
from fairseq_linformer.reproduction.statistics import (
    FAILS,
    HOLDS,
    OUTCOMES,
    UNDECIDED,
    UNMEASURED,
    Check,
    Estimate,
    Verdict,
    bits_by_seed,
    combine,
    combine_records,
    compare_trained,
    decreasing_perplexity,
    geometric_mean,
    missing_grounds,
    not_measured,
    perplexity_about,
    perplexity_at_most,
    perplexity_ratio,
    ratio_of_extremes,
    wilson,
)

from .evidence import number, record, three, trained

# Verdicts


@pytest.mark.parametrize("outcomes, combined", [
    ((HOLDS, HOLDS), HOLDS),
    ((HOLDS, UNDECIDED), UNDECIDED),
    ((UNDECIDED, FAILS, HOLDS), FAILS),
    ((), UNDECIDED),
])  # fmt: skip
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


@pytest.mark.parametrize("low, high, at_most, more_than", [
    (0.5, 1.0, HOLDS, FAILS),
    (0.5, 1.1, UNDECIDED, UNDECIDED),
    (1.0, 1.1, UNDECIDED, UNDECIDED),
    (1.01, 1.1, FAILS, HOLDS),
])  # fmt: skip
def test_an_interval_against_a_limit(low, high, at_most, more_than):
    estimate = Estimate(1.01, low, high, "x")
    assert (estimate.at_most(1.0).outcome, estimate.more_than(1.0).outcome) == (at_most, more_than)
    assert all(str(value) in estimate.at_most(1.0).text for value in (1.01, low, high))


@pytest.mark.parametrize("low, high, outcome", [
    (-1.0, 1.0, HOLDS), (-1.01, 0.0, UNDECIDED), (0.0, 1.01, UNDECIDED), (1.0, 2.0, UNDECIDED), (-2.0, -1.0, UNDECIDED),
    (1.01, 2.0, FAILS), (-2.0, -1.01, FAILS), (-2.0, 2.0, UNDECIDED),
])  # fmt: skip
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


# Perplexities


@pytest.mark.parametrize("a, b, factor, outcome", [
    ((5.0, 5.1, 5.2), (6.0, 6.1, 6.2), 1.0, HOLDS),
    ((6.0, 6.1, 6.2), (5.0, 5.1, 5.2), 1.0, FAILS),
    ((5.0, 5.1, 5.2), (5.1, 5.1, 5.1), 1.0, UNDECIDED),
    ((5.0, 5.1, 5.2), (5.0, 5.1, 5.2), 1.05, HOLDS),
    ((5.0, 5.0, 5.9), (5.0, 5.0, 5.0), 1.05, UNDECIDED),  # one seed of three decides nothing
    ((7.0, 6.0, 5.0), (7.1, 6.1, 5.1), 1.0, HOLDS),  # seed by seed, though models differ more than 0.1 between seeds
])  # fmt: skip
def test_models_are_compared_seed_by_seed(a, b, factor, outcome):
    assert perplexity_at_most(trained("x", {"a": a, "b": b}), "a", "b", factor).outcome == outcome


def test_the_ratio_of_perplexities():
    found = perplexity_ratio(trained("x", {"a": (6.0, 7.0, 8.0), "b": (5.0, 6.0, 7.0)}), "a", "b")
    assert (found.value, found.low, found.high) == pytest.approx((2, 2, 2)) and "3" in found.text


def test_seeds_are_paired_by_their_number():
    one = record(
        [number("bits", value, model="a", seed=seed) for seed, value in ((2, 5.2), (1, 5.1), (3, 5.3))]
        + [number("bits", 5.2, (5.1, 5.3), model="a")]
    )
    assert bits_by_seed(one, "a") == [5.1, 5.2, 5.3] and bits_by_seed(one, "b") == []


@pytest.mark.parametrize("a, b, outcome", [
    ((5.0, 5.1), (5.2, 5.3), HOLDS), ((5.2, 5.3), (5.0, 5.1), FAILS), ((5.0, 5.2), (5.1, 5.3), UNDECIDED),
])  # fmt: skip
def test_without_seeds_the_extremes_are_compared(a, b, outcome):
    assert perplexity_at_most(trained("x", {"a": a, "b": b}, by_seed=False), "a", "b").outcome == outcome


@pytest.mark.parametrize("a, b", [((5.0, 6.0, 7.0), (5.0, 6.0)), ((6.0,), (5.0,))])
def test_unequal_seeds_and_single_ones_are_compared_by_their_extremes(a, b):
    found = perplexity_ratio(trained("x", {"a": a, "b": b}), "a", "b")
    middle = 2.0 ** (a[len(a) // 2] - b[len(b) // 2])
    assert (found.value, found.low, found.high) == (middle, 2 ** (min(a) - max(b)), 2 ** (max(a) - min(b)))


def test_a_perplexity_that_is_missing_is_named():
    one = trained("x", {"a": three(5.0)})
    for compare in (perplexity_at_most, perplexity_about):
        for pair in (("a", "other"), ("other", "a")):
            check = compare(one, *pair, 1.1)
            assert check.outcome == UNDECIDED and check.text.endswith("other")
    assert perplexity_ratio(one, "a", "other") is None


@pytest.mark.parametrize("bits, outcome", [(0.13, HOLDS), (-0.13, HOLDS), (0.14, FAILS), (-0.14, FAILS)])
def test_about_the_same_either_way(bits, outcome):
    one = trained("x", {"a": three(5.0 + bits), "b": three(5.0)})
    assert perplexity_about(one, "a", "b", 1.1).outcome == outcome  # log2(1.1) is 0.1375


def test_each_model_against_the_one_before_it():
    one = trained("x", {"a": three(6.0), "b": three(5.0), "c": three(5.5)})
    assert [check.outcome for check in decreasing_perplexity(one, ["a", "b", "c"])] == [HOLDS, FAILS]


def test_a_converted_model_is_reported_with_its_updates_and_start():
    def runs(**a):
        return {"n": 64, "runs": {"a": a, "b": {"made": "continued", "updates": 1500}}}

    def text(**a):
        return perplexity_ratio(
            trained("x", {"a": three(5.0), "b": three(5.0)}, configuration=runs(**a)), "a", "b"
        ).text

    assert (
        "1,500" in (said := text(made="converted-as-n1024", updates=1500, model={"start": "average"}))
        and "average" in said
    )
    assert "E and F" not in text(made="converted", updates=1500, model={"start": None})
    assert "1,500" not in text(made="continued", updates=1500)


# Grounds


@pytest.mark.parametrize("seeds, missing", [(3, 0), (2, 2), (1, 2)])
def test_a_comparison_needs_three_seeds(seeds, missing):
    assert statistics.MIN_SEEDS == 3
    found = missing_grounds(trained("x", {"roberta": three(5.0)[:seeds], "a": three(5.0)[:seeds]}), ["a"], ["roberta"])
    assert len(found) == missing and {check.outcome for check in found} <= {UNDECIDED}


@pytest.mark.parametrize("bits, outcomes", [
    ((5.0, 5.5, 6.0), []), ((5.0, 5.5, 6.01), [UNDECIDED]), ((6.01, 6.01, 6.01), [UNDECIDED]),
])  # fmt: skip
def test_every_seed_of_roberta_is_two_bits_below_the_level_without_context(bits, outcomes):
    assert statistics.MIN_BITS_LEARNED == 2
    assert [check.outcome for check in missing_grounds(trained("x", {"roberta": bits}), [], ["roberta"])] == outcomes


def test_the_level_is_that_of_the_same_n_or_the_only_one():
    bits = {"roberta": three(5.0), "roberta n=128": three(6.0)}
    assert len(missing_grounds(trained("x", bits), [], list(bits))) == 1
    assert not missing_grounds(trained("x", bits, levels=[(128, 8.3)]), [], list(bits))
    assert len(missing_grounds(trained("x", bits, levels=[(128, 8.1)]), [], list(bits))) == 1


def test_missing_models_and_levels_are_named():
    found = missing_grounds(trained("x", {"a": three(5.0)}), ["a", "b"], ["roberta"])
    assert len(found) == 3 and sum("roberta" in check.text for check in found) == 1
    assert any(check.text.endswith(" b") for check in found) and any("RoBERTa" in check.text for check in found)
    assert len(missing_grounds(trained("x", {"roberta": three(5.0)}, level=None), [], ["roberta"])) == 1


def test_without_grounds_nothing_is_decided_and_everything_reported():
    one = trained("x", {"roberta": (5.0, 5.5), "a": (4.0, 4.5)})
    verdict = compare_trained(one, ["a"], [Check(FAILS, "f"), Check(FAILS, "f")])
    assert verdict.outcome == UNDECIDED and verdict.records == ["x-cpu"]
    assert [check.outcome for check in verdict.checks] == [UNDECIDED, UNDECIDED, FAILS]
    assert compare_trained(one, ["a"], [Check(FAILS, "f")], controls=("a",)).outcome == UNDECIDED


def test_perplexities_are_reported_with_their_spread():
    one = trained("x", {"roberta": three(5.0), "a": (4.0, 5.0, 6.0), "b": (5.0,)})
    verdict = compare_trained(one, ["a", "b"], [Check(HOLDS, "h")], remarks=["first"])
    roberta, a, b = (text.split(": ", 1) for text in verdict.remarks[-3:])
    assert [roberta[0], a[0], b[0]] == ["roberta", "a", "b"] and verdict.remarks[0] == "first"
    assert b[1] == "perplexity 32" and "32 (16 to 64, 3" in a[1]


def test_models_of_several_commits_are_named():
    def remarks(**commits):
        models = {name: three(5.0) for name in ("roberta", "a", "other")}
        one = trained("x", models, configuration={"n": 64, "commits": commits})
        return [text for text in compare_trained(one, ["a"], []).remarks if "commit" in text]

    assert not remarks(roberta="1" * 40, a="1" * 40, other="2" * 40)  # the other is not compared
    (text,) = remarks(roberta="1" * 40, a="1" * 40 + "; " + "2" * 40)
    assert "a at 11111111, 22222222" in text and "roberta at 11111111" in text and "1" * 9 not in text
