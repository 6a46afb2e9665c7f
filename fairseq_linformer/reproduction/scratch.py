"""Models pretrained from scratch, compared at several budgets by their validation perplexities.

A run has a constant learning rate after warmup. At 0.8 of each budget a branch leaves it, with its optimizer and the
next batches, and the rate of the branch decays linearly to zero at the budget (warmup, stable, decay). So one run gives
a perplexity at each budget, of a model that was trained for that budget alone.

RUNS/MODEL-stable/seed1/         a run, and
RUNS/MODEL-budget6000/seed1/     its branch to a budget of 6,000 updates

Rows have the fields of their model (n, k, sharing, W, start), the seed, and the budget.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from . import context_free
from .display import Panel, Table
from .result import Inputs, Result, Row, Rows
from .run import Model, Run, Trained, train_runs, training_environment
from .scales import Sizes
from .statistics import MIN_SEEDS, UNDECIDED, Check, Estimate, Verdict, decide, student_interval
from .text import find_shards

DECAY = 0.2
"""The share of a budget in which the learning rate decays."""
ROBERTA_BITS, MODEL_BITS = 2.0, 1.0
"""Minimum bits below a model without context: of RoBERTa, and of every other model."""
SAME = 1.05
"""Up to this factor, either way, a ratio of perplexities stays between two budgets."""


@dataclass(frozen=True, kw_only=True)
class Scratch(Sizes):
    """How models are pretrained from scratch.

    Attributes:
        budgets: updates, ascending.
    """

    budgets: tuple[int, ...]


def branches(model: Model, seed: int, sizes: Scratch) -> dict[int, Run]:
    """The run to each budget."""
    starts = {budget: round((1 - DECAY) * budget) for budget in sizes.budgets}
    stable = Run(model, seed, "stable", max(starts.values()), keep_every=math.gcd(*starts.values()))
    return {
        budget: Run(model, seed, f"budget{budget}", budget, stable, decays=True, branches_at=start)
        for budget, start in starts.items()
    }


def pretrain(part: str, scale: str, model: Model, seed: int, sizes: Scratch, inputs: Inputs) -> Result:
    """Train a model, and measure it at each budget."""
    runs = branches(model, seed, sizes)
    trained = train_runs(list(runs.values()), sizes, inputs.runs / scale, inputs.text)
    curve = trained[next(iter(runs.values())).history[0]].curve()
    result = score(part, scale, model, seed, {budget: trained[run] for budget, run in runs.items()}, curve, inputs)
    result.environment = training_environment(trained.values(), inputs)
    result.configuration = {name: value for name, value in asdict(sizes).items() if name != "seeds"}
    return result


def score(
    part: str,
    scale: str,
    model: Model,
    seed: int,
    trained: Mapping[int, Trained],
    curve: Sequence[tuple[int, float]],
    inputs: Inputs,
) -> Result:
    """The bits of a model at each budget, its curve, and the level of a model without context."""
    fields = {name: value for name, value in model.fields.items() if value is not None}
    rows = Rows(
        Row(metric="bits", value=run.perplexity(inputs.text)["bits"], unit="bits", **fields, seed=seed, budget=budget)
        for budget, run in trained.items()
    )
    rows.append(Row(metric="bits_curve", unit="bits", **fields, seed=seed, points=curve))
    level = context_free.measure_bits(find_shards(inputs.text)[0], model.n)
    rows.append(Row(metric="context_free_bits", value=level, unit="bits", n=model.n))
    return Result(part, scale, rows, training_environment(trained.values(), inputs))


def label(model: Model) -> str:
    """A model in words, for display.

    >>> label(Model(64)), label(Model(64, 16)), label(Model(64, 16, "layerwise", start="average", local_window=4))
    ('n=64, RoBERTa', 'n=64, k=16', 'n=64, k=16, layerwise, average, W=4')
    """
    if model.k is None:
        return f"n={model.n}, RoBERTa"
    words = [f"n={model.n}", f"k={model.k}"]
    words += [model.sharing] if model.sharing != "headwise" else []
    words += [model.start] if model.start else []
    return ", ".join([*words, f"W={model.local_window}"] if model.local_window else words)


# Ratios


def budgets_of(rows: Rows) -> list[int]:
    """All budgets, ascending."""
    return sorted({row.budget for row in rows.select("bits")})


def bits_by_seed(rows: Rows, model: Model, budget: int) -> dict[int, float]:
    """Bits per predicted token by seed."""
    return {row.seed: row.value for row in rows.select("bits", budget=budget, **model.fields)}


def log_ratios(rows: Rows, a: Model, b: Model, budget: int) -> list[float]:
    """log2 of the perplexity of ``a`` over that of ``b`` with each seed that both have."""
    x, y = (bits_by_seed(rows, model, budget) for model in (a, b))
    return [x[seed] - y[seed] for seed in sorted(x.keys() & y.keys())]


def perplexity_ratio(rows: Rows, a: Model, b: Model, budget: int) -> Estimate | None:
    """Perplexity of ``a`` over that of ``b``: geometric mean over seeds, with Student's interval; None with fewer than
    two seeds."""
    found = log_ratios(rows, a, b, budget)
    text = f"{label(a)} / {label(b)} perplexity, {budget:,} updates, {len(found)} seeds"
    if len(found) < 2:
        return None
    mean, low, high = student_interval(found)
    return Estimate(2**mean, 2**low, 2**high, text)


def at_most(rows: Rows, a: Model, b: Model, budget: int, factor: float = 1.0, least: float = -math.inf) -> Check:
    """The perplexity of ``a`` is at most ``factor`` and at least ``least`` times that of ``b``."""
    ratio = perplexity_ratio(rows, a, b, budget)
    return ratio.within(least, factor) if ratio else Check(UNDECIDED, f"{label(a)} or {label(b)} is not measured")


def trend(rows: Rows, a: Model, b: Model) -> str:
    """How the ratio of perplexities changes between the last two budgets, by Student's interval of the paired
    difference."""
    pairs = [log_ratios(rows, a, b, budget) for budget in budgets_of(rows)[-2:]]
    changes = [late - early for early, late in zip(*pairs)] if len(pairs) == 2 else []
    if len(changes) < MIN_SEEDS:
        return "-"
    _, low, high = (2**value for value in student_interval(changes))
    word = "stays" if low >= 1 / SAME and high <= SAME else "falls" if high < 1 else "grows" if low > 1 else "unclear"
    return f"{word} [{low:.3f}, {high:.3f}]"


# Verdicts


def preconditions(rows: Rows, models: Sequence[Model], budget: int) -> list[Check]:
    """At a budget, every model has enough seeds, and with each of them has learned from context."""
    checks = []
    for model in models:
        bits = bits_by_seed(rows, model, budget)
        level = rows.find("context_free_bits", n=model.n)
        text = f"{label(model)} has {len(bits)} seeds; needs {MIN_SEEDS}"
        checks.append(decide(len(bits) >= MIN_SEEDS, text, fails=False))
        if bits and level:
            learned, needed = level.value - max(bits.values()), ROBERTA_BITS if model.k is None else MODEL_BITS
            text = f"{label(model)} is {learned:.2f} bits below a model without context at {budget:,} updates"
            checks.append(decide(learned >= needed, f"{text}; needs {needed:g}", fails=False))
    return checks


def verdict(
    rows: Rows,
    name: str,
    claim: str,
    models: Sequence[Model],
    check: Callable[[int], Sequence[Check]],
    remarks: Sequence[str] = (),
) -> Verdict:
    """The verdict at the largest budget at which the preconditions hold; without one, those of the largest are missing.

    Args:
        models: the compared ones; RoBERTas of their n are added.
        check: the rule at a budget.
    """
    every = list(dict.fromkeys([*(Model(model.n) for model in models), *models]))
    budgets = budgets_of(rows)
    if not any(bits_by_seed(rows, model, budgets[-1]) for model in models if budgets):
        return Verdict(name, claim, [])
    needed = {budget: preconditions(rows, every, budget) for budget in budgets}
    budget = next((b for b in reversed(budgets) if all(each.holds for each in needed[b])), budgets[-1])
    return Verdict(name, claim, check(budget), needed[budget], remarks)


# Tables and charts


def ratio_table(rows: Rows, models: Sequence[Model]) -> Table:
    """Each Linformer's perplexity over that of the RoBERTa of its n at each budget, and the trend of the ratio."""
    cells = []
    for model in models:
        if model.k is not None and rows.find("bits", **model.fields):
            ratios = [perplexity_ratio(rows, model, Model(model.n), budget) for budget in budgets_of(rows)]
            words = [f"{each.value:.3f} [{each.low:.3f}, {each.high:.3f}]" if each else "-" for each in ratios]
            cells.append([label(model), *words, trend(rows, model, Model(model.n))])
    heads = ["model", *(f"{budget:,} updates" for budget in budgets_of(rows)), "trend, ratio of the last two"]
    return Table("Perplexity over RoBERTa's, by budget", heads, cells)


def perplexity_table(rows: Rows, models: Sequence[Model]) -> Table:
    """The median perplexity of each model at each budget, and its extremes over seeds."""
    cells = []
    for model in models:
        found = [[2**bits for bits in bits_by_seed(rows, model, budget).values()] for budget in budgets_of(rows)]
        if any(found):
            words = [f"{median(each):.4g} [{min(each):.4g}, {max(each):.4g}]" if each else "-" for each in found]
            cells.append([label(model), *words, str(max(map(len, found)))])
    for n, level in {row.n: row.value for row in rows.select("context_free_bits")}.items():
        cells.append([f"n={n}, without context", *[f"{2**level:.4g}"] * len(budgets_of(rows)), ""])
    heads = ["model", *(f"{budget:,} updates" for budget in budgets_of(rows)), "seeds"]
    return Table("Validation perplexity, median [extremes], by budget", heads, cells)


def curves(rows: Rows, title: str, models: Sequence[Model]) -> Panel:
    """Validation perplexity over updates at the constant learning rate, a line per model and seed."""
    lines: dict[str, list[list[tuple[float, float]]]] = {}
    for model in models:
        found = [row.points for row in rows.select("bits_curve", **model.fields)]
        lines |= {label(model): [[(x, 2**bits) for x, bits in points] for points in found]} if found else {}
    return Panel(title, "updates", "validation perplexity", lines, log_y=True)


def ratios_over_budgets(rows: Rows, title: str, models: Sequence[Model]) -> Panel:
    """Perplexity over that of the RoBERTa of the same n over the budget, a line per Linformer and seed."""
    lines: dict[str, list[list[tuple[float, float]]]] = {}
    for model in models:
        found = [log_ratios(rows, model, Model(model.n), budget) for budget in budgets_of(rows)]
        if model.k is not None and all(found):
            by_seed = zip(*found)
            lines[label(model)] = [[(x, 2**y) for x, y in zip(budgets_of(rows), seed)] for seed in by_seed]
    return Panel(
        title, "budget in updates", "perplexity over RoBERTa's", lines, {"RoBERTa": 1.0}, log_x=True, log_y=True
    )
