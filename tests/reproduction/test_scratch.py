"""Models from scratch compared at budgets: branches, preconditions, the deciding budget, ratios and trends by hand."""

import math

import pytest

from fairseq_linformer.fairseq_log import read_split
from fairseq_linformer.reproduction import scratch
from fairseq_linformer.reproduction.experiments.figure_3 import SIZES
from fairseq_linformer.reproduction.result import Row, Rows
from fairseq_linformer.reproduction.run import Model, as_authors, build_job, train_runs
from fairseq_linformer.reproduction.scratch import Scratch, at_most, branches, perplexity_ratio, trend
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..forked_worker import quick_workers  # noqa: F401

ROBERTA, QUARTER = Model(64), Model(64, 16)
LEVEL = 8.0
"""Bits of a model without context."""
TINY = Scratch(
    device="cpu", layers=1, width=16, heads=2, tokens=64, lr=0.1, warmup=1, validate=4, seeds=(1,), budgets=(5, 10)
)


def bits(model: Model, budget: int, *values: float) -> list[Row]:
    """The bits of a model with seeds 1, 2, ..."""
    fields = {name: value for name, value in model.fields.items() if value is not None}
    return [Row(metric="bits", value=v, seed=s, budget=budget, **fields) for s, v in enumerate(values, 1)]


def rows_of(roberta, quarter) -> Rows:
    """Bits of both at each budget, and the level of a model without context."""
    rows = Rows([Row(metric="context_free_bits", value=LEVEL, n=64)])
    for model, budgets in ((ROBERTA, roberta), (QUARTER, quarter)):
        for budget, values in budgets.items():
            rows += bits(model, budget, *values)
    return rows


def outcome_of(rows: Rows, factor: float = 2.0) -> str:
    found = scratch.verdict(rows, "x", "x", [QUARTER], lambda budget: [at_most(rows, QUARTER, ROBERTA, budget, factor)])
    return found.outcome


def test_ratio_by_hand():
    """Half a bit, with every seed that both have."""
    rows = rows_of({100: [5.0, 5.1, 5.2]}, {100: [5.5, 5.6, 5.7, 5.9]})
    found = perplexity_ratio(rows, QUARTER, ROBERTA, 100)
    assert (found.value, found.low, found.high) == pytest.approx((math.sqrt(2),) * 3)
    assert found.text == "n=64, k=16 / n=64, RoBERTa perplexity, 100 updates, 3 seeds"
    assert perplexity_ratio(rows, QUARTER, ROBERTA, 200) is None
    assert [outcome_of(rows, factor) for factor in (1.42, 1.41)] == [HOLDS, FAILS]


def test_models_that_differ_in_a_field_are_not_mixed():
    """The authors' start, a local window, another sharing and another n."""
    others = (as_authors(QUARTER), Model(64, 16, local_window=4), Model(64, 16, "none"), Model(128, 16))
    rows = Rows(row for model in others for row in bits(model, 100, 1.0))
    assert scratch.bits_by_seed(rows, QUARTER, 100) == scratch.bits_by_seed(rows, ROBERTA, 100) == {}
    assert all(scratch.bits_by_seed(rows, model, 100) == {1: 1.0} for model in others)


@pytest.mark.parametrize(
    "roberta, quarter, outcome",
    [
        ([6.0, 5.9, 5.8], [7.0, 6.9, 6.8], FAILS),
        ([6.01, 5.9, 5.8], [7.0, 6.9, 6.8], UNDECIDED),  # RoBERTa: 2 bits with every seed
        ([6.0, 5.9, 5.8], [7.01, 6.9, 6.8], UNDECIDED),  # the other model: 1 bit
        ([6.0, 5.9], [7.0, 6.9], UNDECIDED),  # three seeds
    ],
)
def test_preconditions(roberta, quarter, outcome):
    assert outcome_of(rows_of({100: roberta}, {100: quarter}), 1.5) == outcome
    assert outcome_of(Rows()) == UNMEASURED


def test_decided_at_the_largest_budget_at_which_both_have_learned():
    at_100, at_200 = {100: [5.0] * 3}, {200: [7.5] * 3}
    holds_at_100 = rows_of({**at_100, 200: [4.0] * 3}, {100: [5.1] * 3, **at_200})
    assert outcome_of(holds_at_100, 1.2) == HOLDS  # at 200 the Linformer has not learned
    assert outcome_of(rows_of({**at_100, 200: [4.0] * 3}, {100: [5.1] * 3, 200: [5.0] * 3}), 1.2) == FAILS


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
    rows = rows_of({budget: [b] * len(changes) for budget, b in ((50, 8.0), (100, 5.0), (200, 4.0))}, quarter)
    assert trend(rows, QUARTER, ROBERTA).split()[0] == word


def test_tables():
    rows = rows_of({100: [5.0] * 3, 200: [4.0] * 3}, {100: [6.0] * 3, 200: [5.5] * 3})
    (ratios,) = scratch.ratio_table(rows, [ROBERTA, QUARTER]).rows
    assert ratios[:3] == ["n=64, k=16", "2.000 [2.000, 2.000]", "2.828 [2.828, 2.828]"] and "grows" in ratios[3]
    roberta, quarter, without = scratch.perplexity_table(rows, [ROBERTA, QUARTER]).rows
    assert roberta == ["n=64, RoBERTa", "32 [32, 32]", "16 [16, 16]", "3"] and without[1] == "256"


def test_branches_leave_one_run_at_four_fifths_of_each_budget():
    runs = branches(QUARTER, 2, SIZES["cpu"])
    (stable,) = {run.parent for run in runs.values()}
    assert (stable.updates, stable.keep_every, stable.decays) == (19200, 4800, False)
    assert [(run.branches_at, run.updates) for run in runs.values()] == [(4800, 6000), (9600, 12000), (19200, 24000)]
    assert len({run.name for run in (*runs.values(), stable)}) == 4


@pytest.mark.slow
def test_a_branch_continues_with_the_next_batches_and_a_falling_rate(smoke_inputs, tmp_path, quick_workers):  # noqa: F811
    """A branch to the end of a run at a constant rate sees the batches that the run has seen, at a rate that falls to 0
    at its budget."""
    runs = branches(Model(16, 4), 1, TINY)
    trained = train_runs(list(runs.values()), TINY, tmp_path, smoke_inputs / "text")
    folder = trained[runs[10]].folder
    job = build_job(runs[10], trained[runs[10]].initial_checkpoint, TINY, tmp_path, smoke_inputs / "text")
    assert job.folder == folder and job.cfg.checkpoint.continue_once.endswith("_8.pt")
    lines = (folder / "logs/train.txt").read_text().splitlines()
    (last,) = [each for each in read_split(lines, "train") if int(each["train_num_updates"]) == 10]
    assert float(last["train_lr"]) == 0.0
    assert any("(epoch" in line and "@ 8 updates" in line for line in lines)
    for run in runs.values():
        assert trained[run].perplexity(smoke_inputs / "text")["bits"] > 0
