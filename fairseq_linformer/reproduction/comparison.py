"""Comparisons of pretrained models by their validation perplexities: results, preconditions, ratios, table and chart.

A perplexity says something about a method only if the model has learned from context, and about models "after
convergence" only if their validation curves are flat. Both are preconditions of a verdict:

- each model has at least three seeds;
- RoBERTa is at least 2 bits per predicted token below a model without context at its n, and every other model 1 bit,
  with every seed;
- every model has converged: with every seed its validation curve falls by less than 0.01 bits over the last 20 % of its
  updates.

Claims about equally many updates do not need convergence, and only one of the compared models must be 1 bit below.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from . import context_free
from .display import Panel, Table
from .result import Inputs, Result, Row, Rows, in_words, repeated
from .run import Model, Run, Trained, train_runs, training_environment
from .scales import SCALES, Scale
from .statistics import MIN_SEEDS, UNDECIDED, Check, Estimate, Verdict, decide, ratio_of_extremes, student_interval
from .text import find_shards

ROBERTA_BITS, MODEL_BITS = 2.0, 1.0
"""Minimum bits below a model without context: of RoBERTa, and of every other model."""
LAST_SHARE, MAX_FALL = 0.2, 0.01
"""A curve is flat if it falls by less than ``MAX_FALL`` bits over the last ``LAST_SHARE`` of its updates."""
MAX_LINES = 10
"""Lines of a chart; the table has the other models."""


# Results


def pretrain(part: str, scale: str, build: Callable[[Scale, int], Mapping[str, Run]], inputs: Inputs) -> Result:
    """Train the models with each seed, and measure them.

    Args:
        build: the run of each model at a scale, with a seed, by label.
    """
    return score_models(part, scale, *train_models(scale, build, inputs), inputs)


def train_models(
    scale: str, build: Callable[[Scale, int], Mapping[str, Run]], inputs: Inputs
) -> tuple[dict[str, list[Trained]], list[Trained]]:
    """The trained models by label, one per seed, and they with all that they started from."""
    sizes = SCALES[scale]
    seeds = [build(sizes, seed) for seed in sizes.seeds]  # the first seed of every model is trained first
    trained = train_runs([run for runs in seeds for run in runs.values()], sizes, inputs.runs / scale, inputs.text)
    return {label: [trained[runs[label]] for runs in seeds] for label in seeds[0]}, list(trained.values())


def score_models(
    part: str, scale: str, models: Mapping[str, Sequence[Trained]], every: Sequence[Trained], inputs: Inputs
) -> Result:
    """Perplexity and bits (medians over seeds, and of each seed) and curves of trained models, and the level of a model
    without context at each n.

    Args:
        models: by label, one per seed.
        every: they and all that they started from.
    """
    rows = Rows()
    for label, seeds in models.items():
        rows += score_rows(label, seeds[0].model, [run.perplexity(inputs.text) for run in seeds])
        for seed, run in enumerate(seeds, 1):
            rows.append(Row(metric="bits_curve", unit="bits", model=label, seed=seed, points=run.curve()))
    for n in dict.fromkeys(seeds[0].model.n for seeds in models.values()):
        level = context_free.measure_bits(find_shards(inputs.text)[0], n)
        rows.append(Row(metric="context_free_bits", value=level, unit="bits", n=n))
    return Result(part, scale, rows, training_environment(every, inputs))


def score_rows(label: str, model: Model, scores: Sequence[Mapping[str, float]]) -> list[Row]:
    """Perplexity and bits over the seeds, and the bits of each seed."""
    where = {"model": label, "n": model.n} | ({} if model.k is None else {"k": model.k})
    rows = [
        Row(metric=metric, unit=metric, **repeated([score[metric] for score in scores]), **where)
        for metric in ("perplexity", "bits")
    ]
    for seed, score in enumerate(scores, 1):
        rows.append(Row(metric="bits", value=score["bits"], unit="bits", seed=seed, **where))
    return rows


# Ratios


def bits_by_seed(rows: Rows, model: str) -> dict[int, float]:
    """Bits per predicted token by seed."""
    return {row.seed: row.value for row in rows.select("bits", model=model) if row.seed is not None}


def perplexity_ratio(rows: Rows, a: str, b: str) -> Estimate | None:
    """Perplexity of ``a`` over that of ``b``: geometric mean over seeds, with Student's interval; None if one is
    missing."""
    text = f"{a} / {b} perplexity"
    x, y = bits_by_seed(rows, a), bits_by_seed(rows, b)
    if x.keys() == y.keys() and len(x) >= 2:
        mean, low, high = student_interval([x[seed] - y[seed] for seed in x])
        return Estimate(2**mean, 2**low, 2**high, f"{text}, {len(x)} seeds")
    ours, theirs = (rows.find("perplexity", model=model) for model in (a, b))
    return ratio_of_extremes(ours, theirs, text) if ours and theirs else None


def at_most(rows: Rows, a: str, b: str, factor: float = 1.0, least: float = -math.inf) -> Check:
    """The perplexity of ``a`` is at most ``factor`` and at least ``least`` times that of ``b``."""
    ratio = perplexity_ratio(rows, a, b)
    return ratio.within(least, factor) if ratio else Check(UNDECIDED, f"{a} or {b} is not measured")


def decreasing(rows: Rows, models: Sequence[str]) -> list[Check]:
    """Each model has at most the perplexity of the one before it."""
    return [at_most(rows, after, before) for before, after in itertools.pairwise(models)]


# Preconditions


def final_fall(points: Sequence[tuple[float, float]]) -> float | None:
    """Bits by which a validation curve falls over the last 20 % of its updates, with points joined by straight lines;
    negative if it rises, None if the curve begins later than that."""
    updates, bits = zip(*points)
    before = (1 - LAST_SHARE) * updates[-1]
    if updates[0] > before:
        return None
    return round(float(np.interp(before, updates, bits)) - bits[-1], 4)  # points have four decimals


def has_seeds(rows: Rows, model: str) -> Check:
    row = rows.find("perplexity", model=model)
    seeds = (row.repetitions or 1) if row else 0
    return decide(seeds >= MIN_SEEDS, f"{model} has {seeds} seeds; needs {MIN_SEEDS}", fails=False)


def has_learned(rows: Rows, model: str, needed: float) -> Check:
    """The worst seed is this many bits below a model without context at its n."""
    bits = rows.find("bits", model=model, seed=None)
    level = bits and rows.find("context_free_bits", n=bits.n)
    if bits is None or level is None:
        return Check(UNDECIDED, f"{model} has no bits below a model without context")
    learned = level.value - bits.high
    text = f"{model} is {learned:.2f} bits below a model without context; needs {needed:g}"
    return decide(learned >= needed, text, fails=False)


def has_converged(rows: Rows, model: str) -> Check:
    """The curve of every seed is flat."""
    final = rows.find("perplexity", model=model)
    known = [fall for row in rows.select("bits_curve", model=model) if (fall := final_fall(row.points)) is not None]
    if final is None or len(known) < (final.repetitions or 1):
        return Check(UNDECIDED, f"{model} has no curve over the last {LAST_SHARE * 100:g} % of updates with every seed")
    text = f"{model} falls by {max(known):.3f} bits in the last {LAST_SHARE * 100:g} % of updates; needs < {MAX_FALL:g}"
    return decide(max(known) < MAX_FALL, text, fails=False)


def verdict(
    rows: Rows,
    name: str,
    claim: str,
    models: Sequence[str],
    checks: Sequence[Check],
    controls: Sequence[str] = ("roberta",),
    remarks: Sequence[str] = (),
    at_equal_updates: bool = False,
) -> Verdict:
    """The verdict on trained models.

    Args:
        models: the compared ones.
        controls: the RoBERTas, one or one per n, which show what can be learned.
        at_equal_updates: the claim is about equally many updates, not about models that have converged.
    """
    if not rows:
        return Verdict(name, claim, [])
    every = list(dict.fromkeys([*controls, *models]))
    needed = [has_seeds(rows, model) for model in every]
    needed += [has_learned(rows, model, ROBERTA_BITS) for model in controls]
    if at_equal_updates:
        learned = [has_learned(rows, model, MODEL_BITS) for model in models]
        needed += [] if any(check.holds for check in learned) else learned
    else:
        needed += [has_learned(rows, model, MODEL_BITS) for model in every if model not in controls]
        needed += [has_converged(rows, model) for model in every]
    return Verdict(name, claim, checks, needed, remarks)


# Table and chart


def perplexity_table(rows: Rows, title: str) -> Table:
    """Models with their final perplexity, its extremes over seeds, and the ratio to RoBERTa's."""
    final = rows.select("perplexity")
    robertas = {row.n: row for row in final if row.model.startswith("roberta")}
    levels = {row.n: 2**row.value for row in rows.select("context_free_bits")}
    cells = []
    for row in final:
        base = robertas.get(row.n) or rows.find("perplexity", model="roberta")
        over = f"{row.value / base.value:.3f}" if base else "-"
        cells.append([row.model, f"{row.n:,}", in_words(row, 4), str(row.repetitions or 1), over])
    cells += [["without context", f"{n:,}", f"{level:.4g}", "", ""] for n, level in levels.items()]
    heads = ["model", "n", "perplexity, median [extremes]", "seeds", "over RoBERTa's"]
    return Table(f"{title}: final validation perplexity", heads, cells)


def curves(rows: Rows, title: str, models: Callable[[str], bool]) -> Panel | None:
    """Validation perplexity over updates, a line per model and seed."""
    lines: dict[str, list] = {}
    for row in rows.select("bits_curve"):
        if models(row.model):
            lines.setdefault(row.model, []).append([(x, 2**bits) for x, bits in row.points])
    chosen = dict(list(lines.items())[:MAX_LINES])
    return Panel(title, "updates of the last stage", "validation perplexity", chosen, log_y=True) if chosen else None
