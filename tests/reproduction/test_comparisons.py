"""Comparisons of trained models: their preconditions, and perplexities seed by seed."""

import pytest

from fairseq_linformer.reproduction import comparisons
from fairseq_linformer.reproduction.comparisons import (
    Comparison,
    bits_by_seed,
    compare_trained,
    comparison,
    decreasing_perplexity,
    final_fall,
    missing_preconditions,
    newest_record,
    perplexity_about,
    perplexity_at_most,
    perplexity_ratio,
    plan_number,
    record_name,
)
from fairseq_linformer.reproduction.records import Curve
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, MIN_SEEDS, UNDECIDED, UNMEASURED, Check

from .evidence import curves, number, record, three, trained

# Perplexities


@pytest.mark.parametrize(
    "a, b, factor, outcome",
    [
        ((5.0, 5.1, 5.2), (6.0, 6.1, 6.2), 1.0, HOLDS),
        ((6.0, 6.1, 6.2), (5.0, 5.1, 5.2), 1.0, FAILS),
        ((5.0, 5.1, 5.2), (5.1, 5.1, 5.1), 1.0, UNDECIDED),
        ((5.0, 5.1, 5.2), (5.0, 5.1, 5.2), 1.05, HOLDS),
        ((5.0, 5.0, 5.9), (5.0, 5.0, 5.0), 1.05, UNDECIDED),  # one seed of three decides nothing
        (
            (7.0, 6.0, 5.0),
            (7.1, 6.1, 5.1),
            1.0,
            HOLDS,
        ),  # seed by seed, though models differ more than 0.1 between seeds
    ],
)
def test_models_are_compared_seed_by_seed(a, b, factor, outcome):
    assert perplexity_at_most(trained("x", {"a": a, "b": b}), "a", "b", factor).outcome == outcome


def test_the_ratio_of_perplexities():
    found = perplexity_ratio(trained("x", {"a": (6.0, 7.0, 8.0), "b": (5.0, 6.0, 7.0)}), "a", "b")
    assert (found.value, found.low, found.high) == pytest.approx((2, 2, 2)) and found.basis == "3 seeds"


def test_seeds_are_paired_by_their_number():
    one = record(
        [number("bits", value, model="a", seed=seed) for seed, value in ((2, 5.2), (1, 5.1), (3, 5.3))]
        + [number("bits", 5.2, (5.1, 5.3), model="a")]
    )
    assert [*bits_by_seed(one, "a").items()] == [(1, 5.1), (2, 5.2), (3, 5.3)] and bits_by_seed(one, "b") == {}
    other = record([number("bits", value, model="b", seed=seed) for seed, value in ((1, 5.2), (2, 5.1), (4, 5.3))])
    both = record([*one.measurements, *other.measurements, number("perplexity", 36.0, (35.0, 38.0), model="a")])
    assert perplexity_ratio(both, "a", "b") is None  # different seeds are not compared
    assert "no perplexity of b" in perplexity_at_most(both, "a", "b").text


@pytest.mark.parametrize(
    "a, b, outcome",
    [((5.0, 5.1), (5.2, 5.3), HOLDS), ((5.2, 5.3), (5.0, 5.1), FAILS), ((5.0, 5.2), (5.1, 5.3), UNDECIDED)],
)
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
        one = trained("x", {"a": three(5.0), "b": three(5.0)}, configuration=runs(**a))
        return next(
            text for text in compare_trained(one, Comparison(["a", "b"], [], ["b"])).remarks if text.startswith("a: ")
        )

    assert (
        "1,500" in (said := text(made="converted-as-n1024", updates=1500, model={"start": "average"}))
        and "average" in said
    )
    assert "E and F" not in text(made="converted", updates=1500, model={"start": None})
    assert "1,500" not in text(made="continued", updates=1500)


# Preconditions


def missing(one, models=(), controls=("roberta",), **fields):
    return [check.text for check in missing_preconditions(one, Comparison(models, [], controls, **fields))]


@pytest.mark.parametrize("seeds, expected", [(3, 0), (2, 2), (1, 2)])
def test_a_comparison_needs_three_seeds(seeds, expected):
    assert MIN_SEEDS == 3
    found = missing(trained("x", {"roberta": three(5.0)[:seeds], "a": three(5.0)[:seeds]}), ["a"])
    assert len(found) == expected and all(f"has {seeds} seed" in text for text in found)


@pytest.mark.parametrize("bits, expected", [((5.0, 5.5, 6.0), 0), ((5.0, 5.5, 6.01), 1), ((6.01, 6.01, 6.01), 1)])
def test_every_seed_of_roberta_is_two_bits_below_the_level_without_context(bits, expected):
    assert comparisons.ROBERTA_BITS == 2
    found = missing(trained("x", {"roberta": bits}))
    assert len(found) == expected and all("RoBERTa is 1.99 bits below" in text for text in found)


@pytest.mark.parametrize("bits, expected", [((6.0, 6.5, 7.0), 0), ((6.0, 6.5, 7.01), 1), ((9.0, 9.0, 9.0), 1)])
def test_every_seed_of_a_model_is_one_bit_below_the_level_without_context(bits, expected):
    assert comparisons.MODEL_BITS == 1
    found = missing(trained("x", {"roberta": three(5.0), "a": bits, "b": three(5.0)}), ["a", "b"])
    side = "below" if max(bits) <= 8 else "above"
    assert len(found) == expected and all(f"a is {abs(8 - max(bits)):.2f} bits {side}" in text for text in found)


def test_the_level_is_that_of_the_same_n_or_the_only_one():
    bits = {"roberta": three(5.0), "roberta n=128": three(6.0)}
    assert len(missing(trained("x", bits), controls=list(bits))) == 1
    assert not missing(trained("x", bits, levels=[(128, 8.3)]), controls=list(bits))
    assert len(missing(trained("x", bits, levels=[(128, 8.1)]), controls=list(bits))) == 1
    linformers = {"roberta": three(5.0), "n=128": three(7.0)}
    assert len(missing(trained("x", linformers), ["n=128"])) == 1
    assert not missing(trained("x", linformers, levels=[(128, 8.3)]), ["n=128"])


@pytest.mark.parametrize(
    "points, fall",
    [
        ([(100, 6.0), (400, 5.5), (500, 5.4)], 0.1),
        ([(300, 6.0), (400, 5.0), (500, 5.4)], -0.4),  # it rises
        ([(390, 6.0), (410, 5.0), (500, 5.0)], 0.5),  # between two points
        ([(400, 5.5), (500, 5.5)], 0.0),
        ([(401, 5.5), (500, 5.5)], None),  # begins too late
        ([(500, 5.5)], None),
    ],
)
def test_the_fall_over_the_last_fifth_of_the_updates(points, fall):
    assert (comparisons.LAST_SHARE, comparisons.MAX_FALL) == (0.2, 0.01)
    assert final_fall(Curve(metric="bits", points=points)) == fall


@pytest.mark.parametrize(
    "falls, converged", [((0.0, 0.0, 0.0099), True), ((0.0, 0.0, 0.01), False), ((-1, 0, 0), True)]
)
@pytest.mark.parametrize("model", ["roberta", "a"])
def test_every_curve_of_every_model_is_flat(falls, converged, model):
    one = trained("x", {"roberta": three(5.0), "a": three(5.0)})
    other = [curve for curve in one.curves if curve.model != model]
    found = missing(one.copy_with(curves=[*other, *curves(model, three(5.0), falls)]), ["a"])
    assert found == [] if converged else len(found) == 1 and "0.010 bits" in found[0]
    assert all(text.startswith({"roberta": "RoBERTa", "a": "a"}[model] + " has not converged") for text in found)


def test_a_curve_of_each_seed_is_needed():
    one = trained("x", {"roberta": three(5.0), "a": three(5.0)})
    assert not missing(one, ["a"])
    for kept in ([], one.curves[:-1], [*one.curves[:-1], one.curves[-1].model_copy(update={"points": [(500, 5.0)]})]):
        assert any("curve" in text and " a " in text for text in missing(one.copy_with(curves=kept), ["a"]))
    perplexities = [curve.model_copy(update={"metric": "perplexity"}) for curve in one.curves]
    assert len(missing(one.copy_with(curves=perplexities), ["a"])) == 2


def test_at_equal_updates_one_model_must_have_learned_and_none_have_converged():
    def found(a, b):
        one = trained("x", {"roberta": three(5.0), "a": three(a), "b": three(b)}, fall=0.5)
        return missing(one, ["a", "b"], at_equal_updates=True)

    assert not found(6.79, 8.5) and not found(8.5, 6.79)  # the worst seed is 0.2 bits above the best
    (text,) = found(6.81, 8.5)
    assert text.endswith("0.99")
    learned_little = trained("x", {"roberta": three(5.81), "a": three(5.0)})
    assert len(missing(learned_little, ["a"], at_equal_updates=True)) == 1


def test_missing_models_and_levels_are_named():
    found = missing(trained("x", {"a": three(5.0)}), ["a", "b"])
    assert sum("roberta" in text for text in found) == 1 and any("RoBERTa" in text for text in found)
    assert any(text.endswith(" b") for text in found)
    assert len(missing(trained("x", {"roberta": three(5.0)}, level=None))) == 1


def test_without_preconditions_nothing_is_decided_and_everything_reported():
    one = trained("x", {"roberta": (5.0, 5.5), "a": (4.0, 4.5)})
    failed = [Check(FAILS, "f"), Check(FAILS, "f")]
    verdict = compare_trained(one, Comparison(["a"], failed))
    assert verdict.outcome == UNDECIDED and verdict.records == ["x-cpu"]
    assert [check.outcome for check in verdict.checks] == [UNDECIDED, UNDECIDED, FAILS]
    assert compare_trained(one, Comparison(["a"], failed, ["a"])).outcome == UNDECIDED


# Verdicts


def test_perplexities_are_reported_with_their_spread():
    one = trained("x", {"roberta": three(5.0), "a": (4.0, 5.0, 6.0), "b": (5.0,)})
    verdict = compare_trained(one, Comparison(["a", "b"], [Check(HOLDS, "h")], remarks=["first"]))
    roberta, a, b = (text.split(": ", 1) for text in verdict.remarks[-3:])
    assert [roberta[0], a[0], b[0]] == ["roberta", "a", "b"] and verdict.remarks[0] == "first"
    assert b[1] == "perplexity 32" and "32 [16, 64], 3" in a[1]


def test_models_of_several_commits_are_named():
    def remarks(**commits):
        models = {name: three(5.0) for name in ("roberta", "a", "other")}
        one = trained("x", models, configuration={"n": 64, "commits": commits})
        return [text for text in compare_trained(one, Comparison(["a"], [])).remarks if "commit" in text]

    assert not remarks(roberta="1" * 40, a="1" * 40, other="2" * 40)  # the other is not compared
    (text,) = remarks(roberta="1" * 40, a="1" * 40 + "; " + "2" * 40)
    assert "a at 11111111, 22222222" in text and "roberta at 11111111" in text and "1" * 9 not in text


# Plans


def of_plan(number, bits=5.0, **changed):
    models = {"roberta": three(5.0), "a": three(bits)}
    return trained("x", models, **{"identifier": record_name("x", "cpu", number), **changed})


def test_the_newest_plan_is_evaluated():
    assert [record_name("x", "cpu", number) for number in (1, 2, 10)] == ["x-cpu", "x-cpu-plan2", "x-cpu-plan10"]
    assert [plan_number(of_plan(number)) for number in (1, 2, 10)] == [1, 2, 10]
    assert plan_number(of_plan(1, identifier="x-cpu-again")) is None
    records = [of_plan(number) for number in (2, 10, 1)]
    assert (
        newest_record(records, "x", "cpu").identifier == "x-cpu-plan10" and newest_record(records, "x", "gpu") is None
    )

    def compare(record):
        return Comparison(["a"], [perplexity_at_most(record, "a", "roberta")])

    evaluate = comparison("x", compare, ["it was smaller"])
    old, new = of_plan(1, 6.0), of_plan(2, 4.0)
    assert (found := evaluate([old, new], "cpu")).outcome == HOLDS and found.records == ["x-cpu-plan2"]
    assert not any("plan" in text for text in found.remarks)
    found = evaluate([old], "cpu")
    assert found.outcome == FAILS and found.records == ["x-cpu"] and "it was smaller" in found.remarks[0]
    assert evaluate([], "cpu").outcome == UNMEASURED and "x-cpu-plan2" in evaluate([], "cpu").remarks[0]
    others = [old.copy_with(experiment="y"), old.copy_with(scale="gpu"), old.copy_with(made_by="script")]
    assert evaluate([*others, old.copy_with(identifier="x-cpu-again")], "cpu").outcome == UNMEASURED
