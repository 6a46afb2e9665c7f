"""Far-token recall: whether a model finds what was said too far away for its local window.

Usage:

    fairseq-linformer reproduce recall --scale cpu --minutes 30
    fairseq-linformer reproduce recall-long --scale cpu --minutes 30

Start the command once per core; the processes share the runs.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import torch

from ...files import write_sealed
from ...machine import current_commit
from ..claim import Claim
from ..experiment import Experiment, Unfinished
from ..inputs import Inputs
from ..recall_runs import (
    EVALUATION_SEED,
    FULL,
    LONG_SIZES,
    SIZES,
    STARTS,
    RecallRun,
    Sizes,
    build_task,
    describe_run,
    label,
    measure_run,
    plan_runs,
    read_run,
)
from ..records import Curve, Measurement, Paper, Record, ScaleName, circumstances
from ..report.charts import Chart, Series
from ..report.tables import Table
from ..rules import rule
from ..runs import default_start
from ..shared_work import Unit, describe_unfinished, work_through
from ..statistics import FAILS, HOLDS, MIN_SEEDS, UNDECIDED, Check, Estimate, Evaluate, student_interval, wilson

NAME, LONG = "recall", "recall-long"
DATA = "none: random sequences, seeds in the configuration"
RECALLED = 0.95
"""Accuracy that full attention needs."""
ABOVE_CHANCE = 0.05
"""How far above a guess the control may be."""
MARGIN = 0.01
"""How much less than a smaller k a larger one may recall: with accuracies near 100 %, a difference of one sequence in a
thousand can exceed its interval."""
TOLERANCE = {"share of sequences": 0.25}
"""On another processor rounding differs, and after some hundred updates so do the weights."""


# Rules


def accuracies(record: Record, **fields: Any) -> list[Measurement]:
    """The accuracy of each seed, in ascending order."""
    return sorted(record.select("accuracy", **fields), key=lambda m: m.seed)


def lengths_of(record: Record) -> list[int]:
    return sorted({m.n for m in record.select("accuracy")})


def starts_of(record: Record) -> list[str | None]:
    return record.configuration.get("starts", list(STARTS))


def estimate(m: Measurement) -> Estimate:
    return Estimate(m.value, m.low, m.high, f"n = {m.n}, {m.model}, seed {m.seed}")


def full_checks(record: Record, n: int) -> list[Check]:
    """Full attention recalls more than 95 % with every seed."""
    return [estimate(m).more_than(RECALLED) for m in accuracies(record, model=FULL, n=n)]


def control_checks(record: Record, n: int) -> list[Check]:
    """A model of k = 1, whatever its local window and seed, is at most 5 points better than a guess."""
    limit = record.configuration["chance"] + ABOVE_CHANCE
    return [estimate(m).at_most(limit) for m in accuracies(record, k=1, n=n)]


def mean_difference(after: Sequence[Measurement], before: Sequence[Measurement]) -> Estimate | None:
    """Mean over seeds of the difference in accuracy, with Student's 95 % interval; None with fewer than 3 seeds."""
    if [m.seed for m in after] != [m.seed for m in before] or len(after) < MIN_SEEDS:
        return None
    values = [a.value - b.value for a, b in zip(after, before)]
    text = f"n = {after[0].n}, accuracy of {after[0].model} minus that of {before[0].model}"
    return Estimate(*student_interval(values), text, f"{len(values)} seeds")


def increase_checks(record: Record, n: int) -> list[Check]:
    """No k is a point less accurate than the one before it, and the largest is clearly more accurate than k = 1."""
    configuration, checks = record.configuration, []
    for window in configuration["windows"]:
        for start in starts_of(record):
            larger = [label(n // part, window, start) for part in configuration["parts"]]
            chain = [accuracies(record, model=model, n=n) for model in (label(1, window, None), *larger)]
            for before, after in [*pairwise(chain), (chain[0], chain[-1])]:
                is_whole = before is chain[0] and after is chain[-1]
                difference = mean_difference(after, before)
                if difference is None:
                    text = f"n = {n}, {larger[-1]}: needs {MIN_SEEDS} seeds of every k"
                    checks.append(Check(UNDECIDED, text))
                elif is_whole:
                    checks.append(difference.more_than(0))
                else:
                    outcome = FAILS if difference.high < -MARGIN else HOLDS
                    checks.append(Check(outcome, f"{difference}; needs an interval not below {-MARGIN:g}"))
    return checks


def recall_rule(name: str, checks_of: Callable[[Record, int], list[Check]], needs_full: bool = True) -> Evaluate:
    """A rule on the records of an experiment.

    Args:
        checks_of: (record, n) to checks.
        needs_full: at an n where full attention does not recall, the rule is undecided.
    """

    def checks(record: Record) -> list[Check]:
        found = []
        for n in lengths_of(record):
            full = full_checks(record, n)
            if needs_full and not (full and all(check.outcome == HOLDS for check in full)):
                found.append(
                    Check(UNDECIDED, f"n = {n}: full attention does not recall more than 95 % with every seed")
                )
            else:
                found += checks_of(record, n)
        return found

    return rule(name, f"{name}-*", checks)


_PRECONDITION = (
    " Not enough evidence at an n where full attention does not recall ({}-full): the task or the budget is then "
    "unsuitable."
)


def claims(name: str, where: str, order: str) -> tuple[Claim, ...]:
    """
    Args:
        order: of k in the third rule, from k = 1 to n / 2.
    """
    return (
        Claim(
            f"{name}-full",
            where,
            "Full attention recalls values that are far away.",
            "Accuracy on new sequences, one query of each, 95 % interval by Wilson: holds if with every seed, at every "
            "n, the interval is above 95 %; does not hold if with one it is at most 95 %; otherwise not enough "
            "evidence.",
            recall_rule(name, full_checks, needs_full=False),
        ),
        Claim(
            f"{name}-control",
            where,
            "With k = 1, a model guesses, whatever its local window: the task requires distance.",
            f"Accuracy as in {name}-full: holds if with every seed, n and local window the upper end of the interval "
            "of k = 1 is at most 5 points above a guess; does not hold if with one the lower end is more; otherwise "
            f"not enough evidence.{_PRECONDITION.format(name)}",
            recall_rule(name, control_checks),
        ),
        Claim(
            f"{name}-k",
            where,
            "Accuracy increases with k.",
            f"For each n, local window and start of E and F, in the order k = 1 (default start), {order}: mean over "
            f"seeds of the difference in accuracy to the k before, and of n / 2 to k = 1, with Student's "
            f"95 % interval. Holds if no interval is below -1 point, and that of n / 2 to k = 1 is above "
            f"0; does not hold if one is below -1 point, or that of n / 2 to k = 1 at or below 0; "
            f"otherwise, or with fewer than {MIN_SEEDS} seeds, not enough evidence.{_PRECONDITION.format(name)}",
            recall_rule(name, increase_checks),
        ),
    )


class RecallExperiment(Experiment):
    """Trains a small encoder per model and seed; each run is a file, so that a rerun resumes.

    RUNS/SCALE/NAME/    as in ``recall_runs.py``

    Args:
        sizes: by scale.
    """

    def __init__(self, name: str, title: str, claims: Sequence[Claim], sizes: dict[str, Sizes]):
        self.name, self.title, self.claims, self.sizes = name, title, tuple(claims), sizes
        self.scales = tuple(sizes)

    def cost(self, scale: str) -> str:
        sizes = self.sizes[scale]
        updates = [(run.num_updates(sizes), run.n) for run in plan_runs(sizes)]
        tokens = sum(count * n for count, n in updates) * sizes.batch
        return f"{len(updates)} runs, {sum(count for count, _ in updates):,} updates, {tokens / 1e6:,.1f} M tokens"

    def configuration(self, scale: str) -> dict[str, Any]:
        """All that the numbers depend on. Sizes that earlier records lack are omitted if they have the same value."""
        sizes = self.sizes[scale]
        tasks = [build_task(n) for n in sizes.lengths]
        earlier = {"starts": STARTS, "grown": 0}
        values = {name: value for name, value in asdict(sizes).items() if earlier.get(name) != value}
        plan = {**values, "tasks": [asdict(task) for task in tasks], "chance": tasks[0].chance}
        plan |= {"evaluation_seed": EVALUATION_SEED, "default_start": default_start()}
        return plan

    def _path(self, run: RecallRun, scale: str, inputs: Inputs) -> Path:
        return inputs.folder / scale / self.name / f"{run.name}.json"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        sizes = self.sizes[scale]
        if sizes.device == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"--scale {scale} needs a GPU, but PyTorch finds none")
        runs = plan_runs(sizes)
        units = [self._unit(run, scale, inputs) for run in runs]
        left = work_through(units, inputs.folder / scale / self.name, inputs.deadline())
        if left:
            raise Unfinished(f"{self.name}: {describe_unfinished(left, units)}")
        finished = {run: read_run(self._path(run, scale, inputs), describe_run(run, sizes)) for run in runs}
        return [self._record(scale, finished, command)]

    def _unit(self, run: RecallRun, scale: str, inputs: Inputs) -> Unit:
        sizes, path = self.sizes[scale], self._path(run, scale, inputs)
        origin = run.origin(sizes)
        is_ready = self._path(origin, scale, inputs).exists if origin else lambda: True

        def train(until: float | None) -> None:
            found = measure_run(run, sizes, path.parent)
            print(f"{run.name}: {found['recalled'] / sizes.sequences:.1%}, {found['seconds']:.0f} s", file=sys.stderr)
            write_sealed(path, {"plan": describe_run(run, sizes), "commit": current_commit(), **found})

        return Unit(run.name, path.exists, train, is_ready)

    def _record(self, scale: str, finished: dict[RecallRun, dict[str, Any]], command: str) -> Record:
        trials, measurements, curves = self.sizes[scale].sequences, [], []
        for run, found in finished.items():
            share = found["recalled"] / trials
            low, high = wilson(share, trials)
            measurements.append(
                Measurement(
                    metric="accuracy",
                    value=share,
                    unit="share of sequences",
                    interval=(round(low, 6), round(high, 6)),
                    interval_kind="confidence",
                    repetitions=trials,
                    model=run.model,
                    n=run.n,
                    k=run.k,
                    seed=run.seed,
                )
            )
            curves.append(Curve(metric="loss", points=found["loss"], model=run.model, n=run.n, seed=run.seed))
        return Record(
            identifier=f"{self.name}-{scale}",
            experiment=self.name,
            made_by="reproduce",
            claim="Accuracy of recalling the value of a key from far away, of models trained from scratch",
            paper=Paper(where="not in the paper"),
            measurements=measurements,
            curves=curves,
            commit="; ".join(sorted({found["commit"] for found in finished.values()})),
            configuration=self.configuration(scale),
            seconds=max(0.01, round(sum(found["seconds"] for found in finished.values()), 2)),
            tolerance=TOLERANCE,
            **circumstances(DATA, command, cast(ScaleName, scale)),
        )

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return [accuracy_table(record, n) for record in records for n in lengths_of(record)]

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        return [accuracy_chart(record, n) for record in records for n in lengths_of(record)]


def accuracy_table(record: Record, n: int) -> Table:
    """Mean accuracy over seeds, and the lowest and highest, by local window, start and k."""
    c = record.configuration
    every_k = [1, *(n // part for part in c["parts"])]

    def cell(model: str) -> str:
        values = [100 * m.value for m in accuracies(record, model=model, n=n)]
        if not values:
            return ""
        return f"{fmean(values):.1f}" + f" ({min(values):.1f} to {max(values):.1f})" * (len(values) > 1)

    rows = [[FULL, *[""] * len(every_k), cell(FULL)]]
    for window in c["windows"]:
        for start in starts_of(record):
            name = f"W = {window}, {start or 'default start'}"
            rows.append([name, *(cell(label(k, window, start)) for k in every_k), ""])
    task = next(task for task in c["tasks"] if task["n"] == n)
    caption = (
        f"{record.identifier}: accuracy in %, mean of {len(c['seeds'])} seeds (lowest to highest), n = {n}, "
        f"at a distance of at least {task['distance']}; chance is {100 * c['chance']:.1f}"
    )
    return Table(["model", *(f"k = {k}" for k in every_k), f"k = {n}"], rows, caption)


def accuracy_chart(record: Record, n: int) -> Chart:
    """Accuracy over k: a line per local window and start, and per seed."""
    c, series = record.configuration, []
    for color, window in enumerate(c["windows"]):
        for start in starts_of(record):
            models = [label(1, window, None), *(label(n // part, window, start) for part in c["parts"])]
            found = [m for model in models for m in accuracies(record, model=model, n=n)]
            runs = [[(float(m.k), m.value) for m in found if m.seed == seed] for seed in c["seeds"]]
            series.append(Series(f"W = {window}, {start or 'default start'}", runs, start is not None, color))
    full = accuracies(record, model=FULL, n=n)
    levels = [(FULL, fmean(m.value for m in full)), ("chance", c["chance"])]
    title = f"Far-token recall, n = {n}, {record.scale} scale"
    return Chart(f"accuracy-{record.identifier}-n{n}", title, "k", "accuracy", series, levels, log_x=True)


_WHERE = "this project: far-token recall"
EXPERIMENTS = (
    RecallExperiment(NAME, "Far-token recall", claims(NAME, _WHERE, "n / 32, n / 8, n / 4, n / 2"), SIZES),
    RecallExperiment(
        LONG,
        "Far-token recall over longer distances",
        claims(LONG, f"{_WHERE}, n = 128 to 1,024", "n / 8, n / 2"),
        LONG_SIZES,
    ),
)
