"""Comparisons of pretrained models: preconditions from both sides, the deciding budget, ratios and trends by hand."""

import math

import pytest

from fairseq_linformer.reproduction.comparison import (
    Limit,
    bits_by_seed,
    perplexity_ratio,
    perplexity_table,
    perplexity_verdict,
    ratios_over_budgets,
    trend,
)
from fairseq_linformer.reproduction.result import Row, Rows
from fairseq_linformer.reproduction.run import AUTHORS, Model
from fairseq_linformer.reproduction.verdict import FAILS, HOLDS, UNDECIDED, UNMEASURED

LEVEL = 8.0
"""Bits of a model without context."""
ROBERTA, QUARTER, SMALL = Model(64), Model(64, 16), Model(64, 4)
GOOD, WORSE = [5.0, 5.1, 5.2], [5.5, 5.6, 5.7]


def bits(model: Model, values, budget: int = 100) -> list[Row]:
    """The bits of a model with seeds 1, 2, ..., and curves."""
    rows = []
    for seed, value in enumerate(values, 1):
        rows.append(Row(metric="bits", value=value, seed=seed, budget=budget, **model.fields))
        points = [[50, value + 1], [100, value]]
        rows.append(Row(metric="bits_curve", seed=seed, points=points, **model.fields))
    return rows


def rows_of(models) -> Rows:
    """The bits of models, and the level of a model without context."""
    level = Row(metric="context_free_bits", value=LEVEL, n=64)
    return Rows([level, *(row for model, values in models.items() for row in bits(model, values))])


def at_budgets(roberta, quarter) -> Rows:
    """Bits of both at each budget."""
    models = ((ROBERTA, roberta), (QUARTER, quarter))
    budgets = [(model, *each) for model, values in models for each in values.items()]
    return Rows([*rows_of({}), *(row for model, budget, values in budgets for row in bits(model, values, budget))])


def outcome_of(rows: Rows, factor: float = 2.0, models=(QUARTER,)) -> str:
    return perplexity_verdict(rows, "x", "x", models, [Limit(models[0], ROBERTA, factor)]).outcome


def test_nothing_to_compare():
    assert outcome_of(rows_of({QUARTER: WORSE})) == outcome_of(rows_of({ROBERTA: GOOD})) == UNMEASURED


def test_three_seeds_of_every_model():
    for roberta, quarter in ((GOOD[:2], WORSE), (GOOD, WORSE[:2])):
        assert outcome_of(rows_of({ROBERTA: roberta, QUARTER: quarter})) == UNDECIDED


@pytest.mark.parametrize("above, outcome", [(0.0, HOLDS), (0.01, UNDECIDED)])
def test_bits_below_a_model_without_context(above, outcome):
    """RoBERTa is two below with its worst seed, and another model one."""
    assert outcome_of(rows_of({ROBERTA: [5.8, 5.9, 6.0 + above], QUARTER: [6.1, 6.2, 6.3]})) == outcome
    assert outcome_of(rows_of({ROBERTA: [6.0] * 3, QUARTER: [6.8, 6.9, 7.0 + above]}), 4.0) == outcome


def test_ratio_by_hand():
    """Half a bit, with every seed that both have."""
    rows = at_budgets({100: GOOD}, {100: [*WORSE, 5.9]})
    found = perplexity_ratio(rows, QUARTER, ROBERTA)
    assert (found.value, found.low, found.high) == pytest.approx((math.sqrt(2),) * 3)
    assert found.text == "n=64, k=16 / n=64, RoBERTa perplexity, 100 updates, 3 seeds"
    assert Limit(SMALL, QUARTER).check(rows).outcome == UNDECIDED
    assert perplexity_ratio(rows_of({ROBERTA: [5.0], QUARTER: [6.0]}), QUARTER, ROBERTA) is None


def test_models_that_differ_in_a_field_are_not_mixed():
    """The authors' start, a local window, another sharing and another n."""
    others = (Model(64, 16, start=AUTHORS), Model(64, 16, local_window=4), Model(64, 16, "none"), Model(128, 16))
    rows = Rows(row for model in others for row in bits(model, [1.0], 100))
    assert bits_by_seed(rows, QUARTER) == bits_by_seed(rows, ROBERTA) == {}
    assert all(bits_by_seed(rows, model) == {1: 1.0} for model in others)


def test_decided_at_the_largest_budget_at_which_both_have_learned():
    at_100, at_200 = {100: [5.0] * 3}, {200: [7.5] * 3}
    holds_at_100 = at_budgets({**at_100, 200: [4.0] * 3}, {100: [5.1] * 3, **at_200})
    assert outcome_of(holds_at_100, 1.2) == HOLDS  # at 200 the Linformer has not learned
    assert outcome_of(at_budgets({**at_100, 200: [4.0] * 3}, {100: [5.1] * 3, 200: [5.0] * 3}), 1.2) == FAILS


def test_a_model_that_was_not_trained_to_the_largest_budget():
    rows = at_budgets({b: [5.0] * 3 for b in (50, 100, 200)}, {50: [6.0] * 3, 100: [5.1] * 3, 200: [5.0]})
    assert outcome_of(rows, 1.2) == HOLDS  # at 100
    assert trend(rows, QUARTER, ROBERTA).startswith("falls")  # from 50 to 100
    (quarter, _) = perplexity_table(rows, "A", [QUARTER]).rows
    assert quarter == ["n=64, k=16", "64 [64, 64]", "34.3 [34.3, 34.3]", "32", "3, 3, 1"]
    lines = ratios_over_budgets(rows, "A", [ROBERTA, QUARTER]).lines
    assert [[x for x, _ in points] for points in lines["n=64, k=16"]] == [[50, 100, 200], [50, 100], [50, 100]]


def test_no_trend_from_a_plateau():
    """RoBERTa has not learned at 50."""
    rows = at_budgets({50: [7.0] * 3, 100: [5.0] * 3}, {50: [6.0] * 3, 100: [5.5] * 3})
    assert trend(rows, QUARTER, ROBERTA) == "-"


@pytest.mark.parametrize(
    "changes, word",
    [
        ([0.05, 0.06, 0.05], "stays"),  # 1.05 is 0.0704 bits
        ([0.5, 0.51, 0.52], "grows"),
        ([-0.5, -0.51, -0.52], "falls"),
        ([-0.5, 0.5, 0.0], "unclear"),
        ([0.1, 0.1], "-"),  # two seeds
    ],
)
def test_trend_between_the_last_two_budgets(changes, word):
    early = [0.3] * len(changes)
    quarter = {50: [9.0] * len(changes), 100: [5 + e for e in early], 200: [4 + e + c for e, c in zip(early, changes)]}
    rows = at_budgets({budget: [b] * len(changes) for budget, b in ((50, 8.0), (100, 5.0), (200, 4.0))}, quarter)
    assert trend(rows, QUARTER, ROBERTA).split()[0] == word
