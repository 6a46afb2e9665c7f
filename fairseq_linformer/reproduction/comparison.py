"""Pretrained models compared by their validation perplexities: rows, ratios, preconditions, verdicts, tables, charts.

Rows have the fields of a model, and the seed. Models from scratch are compared at several budgets: a run has a constant
learning rate after warmup. At 0.8 of each budget a branch leaves it, with its optimizer and the next batches, and the
rate of the branch decays linearly to zero at the budget (warmup, stable, decay). So one run gives a perplexity at each
budget, of a model that was trained for that budget alone. The budget is one more field.

RUNS/MODEL-stable/seed1/         a run, and
RUNS/MODEL-budget6000/seed1/     its branch to a budget of 6,000 updates

A perplexity says something about a method only if the model has learned from context, see ``check_learned``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import NamedTuple

from . import context_free
from .page import Panel, Table
from .result import Inputs, Result, Row, Rows, find_shards, in_words
from .run import Model, Run, Sizes, Trained, train_runs, trained_result
from .verdict import MIN_SEEDS, UNDECIDED, Check, Estimate, Verdict, decide, student_interval

DECAY = 0.2
"""The share of a budget in which the learning rate decays."""
ROBERTA_BITS, MODEL_BITS = 2.0, 1.0
"""Minimum bits below a model without context: of RoBERTa, and of every other model."""
STEADY = 1.05
"""Up to this factor, either way, a ratio of perplexities stays between two budgets."""


# Results


def branches(model: Model, seed: int, sizes: Sizes) -> dict[int, Run]:
    """The run to each budget."""
    starts = {budget: round((1 - DECAY) * budget) for budget in sizes.budgets}
    stable = Run(model, seed, max(starts.values()), keep_every=math.gcd(*starts.values()))
    return {budget: Run(model, seed, budget, stable, start) for budget, start in starts.items()}


def pretrain(model: Model, seed: int, sizes: Sizes, inputs: Inputs) -> Result:
    """Train a model, and measure it at each budget."""
    runs = branches(model, seed, sizes)
    trained = train_runs(list(runs.values()), sizes, inputs.folder, inputs.data)
    at = {budget: trained[run] for budget, run in runs.items()}
    configuration = {name: value for name, value in asdict(sizes).items() if name != "seeds"}
    return pretrained_result(model, seed, at, next(iter(trained.values())), inputs, configuration)


def pretrained_result(
    model: Model,
    seed: int,
    at: Mapping[int, Trained],
    whole: Trained,
    inputs: Inputs,
    configuration: Mapping[str, object] | None = None,
) -> Result:
    """Bits per predicted token on the validation split at each budget, a curve over updates, and the level of a model
    without context.

    Args:
        at: the run to each budget.
        whole: the run of the curve.
    """
    fields = {name: value for name, value in {**model.fields, "seed": seed}.items() if value is not None}
    rows = [
        Row(metric="bits", value=run.bits(inputs.data), unit="bits", **fields, budget=budget)
        for budget, run in at.items()
    ]
    rows.append(Row(metric="bits_curve", unit="bits", **fields, points=whole.curve()))
    level = context_free.measure_bits(find_shards(inputs.data)[0], model.n)
    rows.append(Row(metric="context_free_bits", value=level, unit="bits", n=model.n))
    return trained_result(rows, dict.fromkeys([whole, *at.values()]), inputs, configuration)


# Ratios


def by_budget(rows: Rows) -> dict[int, Rows]:
    """The rows at each budget, ascending, without the bits of the others."""
    budgets = sorted({row.budget for row in rows.select("bits")})
    return {budget: Rows(row for row in rows if row.metric != "bits" or row.budget == budget) for budget in budgets}


def bits_by_seed(rows: Rows, model: Model) -> dict[int, float]:
    """Bits per predicted token by seed."""
    return {row.seed: row.value for row in rows.select("bits", **model.fields)}


def log_ratios(rows: Rows, a: Model, b: Model) -> dict[int, float]:
    """log2 of the perplexity of ``a`` over that of ``b`` by seed, of those that both have."""
    x, y = (bits_by_seed(rows, model) for model in (a, b))
    return {seed: x[seed] - y[seed] for seed in sorted(x.keys() & y.keys())}


def perplexity_ratio(rows: Rows, a: Model, b: Model) -> Estimate | None:
    """Perplexity of ``a`` over that of ``b``: geometric mean over seeds, with Student's interval; None with fewer than
    two seeds."""
    found = log_ratios(rows, a, b)
    if len(found) < 2:
        return None
    mean, low, high = student_interval([*found.values()])
    text = f"{a.label} / {b.label} perplexity, {_budget(rows)}, {len(found)} seeds"
    return Estimate(2**mean, 2**low, 2**high, text)


def _budget(rows: Rows) -> str:
    """The budget of rows at a single one, in words."""
    (budget,) = {row.budget for row in rows.select("bits")}
    return _head(budget)


class Limit(NamedTuple):
    """A rule: the perplexity of ``a`` is at most ``factor`` and at least ``least`` times that of ``b``."""

    a: Model
    b: Model
    factor: float = 1.0
    least: float = -math.inf

    def check(self, rows: Rows) -> Check:
        if ratio := perplexity_ratio(rows, self.a, self.b):
            return ratio.within(self.least, self.factor)
        return Check(UNDECIDED, f"{self.a.label} or {self.b.label} is not measured with two seeds")


def trend(rows: Rows, a: Model, b: Model) -> str:
    """How the ratio of perplexities changes between the last two budgets at which both have learned, by Student's
    interval of the paired difference."""
    learned = [each for each in by_budget(rows).values() if all(check.holds for check in check_learned(each, [a, b]))]
    if len(learned) < 2:
        return "-"
    early, late = (log_ratios(each, a, b) for each in learned[-2:])
    changes = [late[seed] - early[seed] for seed in early.keys() & late.keys()]
    _, low, high = (2**value for value in student_interval(changes))
    moves = "falls" if high < 1 else "grows" if low > 1 else "unclear"
    word = "stays" if low >= 1 / STEADY and high <= STEADY else moves
    return f"{word} [{low:.3f}, {high:.3f}]"


# Verdicts


def learning_checks(rows: Rows, model: Model, needed: float) -> list[Check]:
    """Enough seeds for a verdict, the worst of which is this many bits below a model without context at its n."""
    bits = bits_by_seed(rows, model)
    checks = [decide(len(bits) >= MIN_SEEDS, f"{model.label} has {len(bits)} seeds; needs {MIN_SEEDS}", fails=False)]
    if bits:
        learned = rows.select("context_free_bits", n=model.n)[0].value - max(bits.values())
        text = f"{model.label} is {learned:.2f} bits below a model without context at {_budget(rows)}; needs {needed:g}"
        checks.append(decide(learned >= needed, text, fails=False))
    return checks


def check_learned(rows: Rows, models: Sequence[Model]) -> list[Check]:
    """With every seed, the RoBERTa of each n, which shows what can be learned, is 2 bits per predicted token below a
    model without context, and every model 1 bit."""
    needed = {Model(n): ROBERTA_BITS for n in dict.fromkeys(model.n for model in models)}
    needed |= {model: MODEL_BITS for model in models if model not in needed}
    return [check for model, bits in needed.items() for check in learning_checks(rows, model, bits)]


def perplexity_verdict(
    rows: Rows,
    name: str,
    claim: str,
    models: Sequence[Model],
    limits: Sequence[Limit],
    reported: Sequence[tuple[Model, Model]] = (),
) -> Verdict:
    """The verdict at the largest budget at which all have learned; without one, what is missing is that of the budget
    at which most have. Not measured if no two models of the rule have a seed in common.

    Args:
        models: the compared ones.
        limits: the rule.
        reported: pairs whose ratio of perplexities at this budget is a remark.
    """
    if not any(log_ratios(rows, limit.a, limit.b) for limit in limits):
        return Verdict(name, claim, [])
    needed = [(each, check_learned(each, models)) for each in reversed(by_budget(rows).values())]
    chosen, preconditions = max(needed, key=lambda each: sum(check.holds for check in each[1]))  # on a tie the first
    remarks = [str(ratio) for pair in reported if (ratio := perplexity_ratio(chosen, *pair))]
    return Verdict(name, claim, [limit.check(chosen) for limit in limits], preconditions, remarks)


# Tables and charts


def ratio_table(rows: Rows, models: Sequence[Model]) -> Table:
    """Each Linformer's perplexity over that of the RoBERTa of its n at each budget, and the trend of the ratio."""
    cells, at = [], by_budget(rows)
    for model in models:
        if model.k is not None and rows.find("bits", **model.fields):
            ratios = [ratio_in_words(each, model, Model(model.n)) for each in at.values()]
            cells.append([model.label, *ratios, trend(rows, model, Model(model.n))])
    heads = ["model", *map(_head, at), "trend"]
    return Table("Perplexity over RoBERTa's, by budget", heads, cells)


def ratio_in_words(rows: Rows, a: Model, b: Model) -> str:
    """A ratio of perplexities and its interval, which a single seed does not have, for a cell of a table."""
    if ratio := perplexity_ratio(rows, a, b):
        return f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
    return "".join(f"{2**bits:.3f} (one seed)" for bits in log_ratios(rows, a, b).values()) or "-"


def perplexity_table(rows: Rows, title: str, models: Sequence[Model]) -> Table:
    """The median perplexity of each model at each budget, and its extremes over seeds."""
    cells, at = [], by_budget(rows)
    for model in models:
        found = [[2**bits for bits in bits_by_seed(each, model).values()] for each in at.values()]
        if any(found):
            seeds = [str(len(each)) for each in found]
            seeds = seeds[:1] if len({*seeds}) == 1 else seeds
            cells.append([model.label, *map(_median_in_words, found), ", ".join(seeds)])
    for n, level in {row.n: row.value for row in rows.select("context_free_bits")}.items():
        cells.append([f"n={n}, without context", *[f"{2**level:.4g}"] * len(at), ""])
    return Table(title, ["model", *map(_head, at), "seeds"], cells)


def _median_in_words(values: Sequence[float]) -> str:
    extremes = {"low": min(values), "high": max(values)} if len(values) > 1 else {}
    return in_words(Row(value=median(values), **extremes) if values else None, 4)


def _head(budget: int) -> str:
    return f"{budget:,} updates"


def curves(rows: Rows, title: str, models: Sequence[Model]) -> Panel:
    """Validation perplexity over updates, a line per model and seed."""
    lines: dict[str, list[list[tuple[float, float]]]] = {}
    for model in models:
        found = [row.points for row in rows.select("bits_curve", **model.fields)]
        lines |= {model.label: [[(x, 2**bits) for x, bits in points] for points in found]} if found else {}
    return Panel(title, "updates", "validation perplexity", lines, log_y=True)


def ratios_over_budgets(rows: Rows, title: str, models: Sequence[Model]) -> Panel:
    """Perplexity over that of the RoBERTa of the same n over the budget, a line per Linformer and seed."""
    lines: dict[str, list[list[tuple[float, float]]]] = {}
    for model in models:
        found = {budget: log_ratios(each, model, Model(model.n)) for budget, each in by_budget(rows).items()}
        seeds = sorted({seed for each in found.values() for seed in each}) if model.k is not None else []
        if seeds:
            lines[model.label] = [[(x, 2 ** each[seed]) for x, each in found.items() if seed in each] for seed in seeds]
    heads = "budget in updates", "perplexity over RoBERTa's"
    return Panel(title, *heads, lines, {"RoBERTa": 1.0}, log_x=True, log_y=True)
