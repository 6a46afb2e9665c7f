"""Comparisons of pretrained models: preconditions from both sides, and ratios by hand."""

import math

import pytest

from fairseq_linformer.reproduction.comparison import (
    at_most,
    curves,
    decreasing,
    final_fall,
    perplexity_ratio,
    perplexity_table,
    verdict,
)
from fairseq_linformer.reproduction.result import Row, Rows, repeated
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

LEVEL = 8.0
"""Bits of a model without context."""


def model(name: str, bits, fall: float = 0.0, n: int = 64, k: int | None = None) -> list[Row]:
    """A model with these bits by seed, whose curves fall by ``fall`` over the last fifth of their updates."""
    where = {"model": name, "n": n, "k": k}
    rows = [Row(metric="perplexity", unit="perplexity", **repeated([2**b for b in bits]), **where)]
    rows.append(Row(metric="bits", unit="bits", **repeated(bits), **where))
    for seed, value in enumerate(bits, 1):
        rows.append(Row(metric="bits", value=value, unit="bits", seed=seed, **where))
        points = [[40, value + 1], [80, value + fall], [100, value]]
        rows.append(Row(metric="bits_curve", model=name, seed=seed, points=points))
    return rows


def rows_of(**models) -> Rows:
    """The keyword is the model's name."""
    found = Rows(row for name, rows in models.items() for row in model(name.replace("_", "="), **rows))
    found.append(Row(metric="context_free_bits", value=LEVEL, unit="bits", n=64))
    return found


ROBERTA, LINFORMER = {"bits": [5.0, 5.1, 5.2]}, {"bits": [5.5, 5.6, 5.7], "k": 16}


def outcome_of(rows: Rows, **options) -> str:
    return verdict(rows, "x", "x", ["k=16"], [at_most(rows, "k=16", "roberta", 2.0)], **options).outcome


def test_evaluated_if_all_preconditions_hold():
    assert outcome_of(rows_of(roberta=ROBERTA, k_16=LINFORMER)) == HOLDS
    rows = rows_of(roberta=ROBERTA, k_16=LINFORMER)
    assert verdict(rows, "x", "x", ["k=16"], [at_most(rows, "k=16", "roberta")]).outcome == FAILS
    assert verdict(Rows(), "x", "x", ["k=16"], []).outcome == UNMEASURED


def test_three_seeds_of_every_model():
    assert outcome_of(rows_of(roberta=ROBERTA, k_16={**LINFORMER, "bits": LINFORMER["bits"][:2]})) == UNDECIDED


@pytest.mark.parametrize("highest, outcome", [(6.0, HOLDS), (6.01, UNDECIDED)])
def test_roberta_is_two_bits_below_a_model_without_context(highest, outcome):
    """With its worst seed."""
    rows = rows_of(roberta={"bits": [highest - 0.2, highest - 0.1, highest]}, k_16={"bits": [6.1, 6.2, 6.3], "k": 16})
    assert outcome_of(rows) == outcome


@pytest.mark.parametrize("at_equal_updates", [False, True])
@pytest.mark.parametrize("highest, outcome", [(7.0, HOLDS), (7.01, UNDECIDED)])
def test_a_model_is_one_bit_below(highest, outcome, at_equal_updates):
    rows = rows_of(roberta={"bits": [6.0] * 3}, k_16={"bits": [6.8, 6.9, highest], "k": 16})
    checks = [at_most(rows, "k=16", "roberta", 4.0)]
    assert verdict(rows, "x", "x", ["k=16"], checks, at_equal_updates=at_equal_updates).outcome == outcome


def test_at_equal_updates_one_learned_model_is_enough():
    rows = rows_of(roberta=ROBERTA, k_16=LINFORMER, k_4={"bits": [7.5] * 3, "k": 4})
    for models, at_equal_updates, outcome in (
        (["k=16", "k=4"], True, FAILS),
        (["k=4"], True, UNDECIDED),
        (["k=16", "k=4"], False, UNDECIDED),
    ):
        checks = [at_most(rows, "k=4", "k=16")]
        assert verdict(rows, "x", "x", models, checks, at_equal_updates=at_equal_updates).outcome == outcome


@pytest.mark.parametrize("fall, outcome", [(0.0099, HOLDS), (0.01, UNDECIDED), (-1.0, HOLDS)])
def test_every_model_has_converged(fall, outcome):
    for roberta, linformer in (({**ROBERTA, "fall": fall}, LINFORMER), (ROBERTA, {**LINFORMER, "fall": fall})):
        rows = rows_of(roberta=roberta, k_16=linformer)
        assert outcome_of(rows) == outcome and outcome_of(rows, at_equal_updates=True) == HOLDS


def test_the_fall_is_interpolated():
    assert final_fall([(0, 8.0), (100, 6.0)]) == pytest.approx(0.4)
    assert final_fall([(60, 8.0), (80, 6.5), (100, 6.0)]) == pytest.approx(0.5)
    assert final_fall([(81, 8.0), (100, 6.0)]) is None
    rows = rows_of(roberta=ROBERTA, k_16=LINFORMER)
    curve = rows.find("bits_curve", model="k=16", seed=2)
    curve["points"] = curve["points"][-1:]
    assert outcome_of(rows) == UNDECIDED


def test_ratio_by_hand():
    """Differences of 0.5 bits with every seed."""
    rows = rows_of(roberta=ROBERTA, k_16=LINFORMER)
    found = perplexity_ratio(rows, "k=16", "roberta")
    assert (found.value, found.low, found.high) == pytest.approx((math.sqrt(2),) * 3)
    assert perplexity_ratio(rows, "k=16", "other") is None
    assert at_most(rows, "other", "k=16").outcome == UNDECIDED
    single = rows_of(roberta={"bits": [5.0]}, k_16={"bits": [6.0], "k": 16})
    assert perplexity_ratio(single, "k=16", "roberta").value == pytest.approx(2.0)


@pytest.mark.parametrize("factor, outcome", [(1.42, HOLDS), (1.41, FAILS)])
def test_limits_of_a_ratio(factor, outcome):
    rows = rows_of(roberta=ROBERTA, k_16=LINFORMER)
    assert at_most(rows, "k=16", "roberta", factor).outcome == outcome
    for pair in (("k=16", "roberta"), ("roberta", "k=16")):  # either way
        assert at_most(rows, *pair, factor, 1 / factor).outcome == outcome


def test_decreasing():
    rows = rows_of(roberta=ROBERTA, k_16=LINFORMER, k_4={"bits": [7.5] * 3, "k": 4})
    assert [check.outcome for check in decreasing(rows, ["k=4", "k=16", "roberta"])] == [HOLDS, HOLDS]
    assert [check.outcome for check in decreasing(rows, ["k=4", "roberta", "k=16"])] == [HOLDS, FAILS]


def test_table_and_chart():
    rows = rows_of(roberta=ROBERTA, k_16=LINFORMER)
    table = perplexity_table(rows, "A")
    assert [row[0] for row in table.rows] == ["roberta", "k=16", "without context"]
    assert table.rows[1][1:] == ["64", "48.5 [45.25, 51.98]", "3", "1.414"] and table.rows[2][2] == "256"
    panel = curves(rows, "A", lambda label: label != "roberta")
    assert list(panel.lines) == ["k=16"] and panel.lines["k=16"][0][-1] == (100, 2**5.5)
