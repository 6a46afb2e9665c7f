"""Far-token recall: whether a model finds a value outside the reach of its local window (`recall_task.py`).

A local window alone can lower perplexity and keep accuracy even if E and F contribute nothing; this task needs distant
tokens. Each text has 8 key-value pairs early in noise; at the end each key comes again, followed by a `<mask>` whose
target is its value, 3 n / 8 positions or more away, farther than two layers with the widest window reach. Each of the
8 values occurs once in every text, so a guess is right in 12.5 %.

Accuracy on new sequences, one query of each, 95 % interval by Wilson. **full**: with every seed, at every n, the
interval of full attention (k = n, E = F = I and frozen) is above 95 %. **control**: with k = 1, whatever the window,
its upper end is at most 5 points above a guess. **k**: for each n, window and initialization, in the order of k, mean
over seeds of the difference to the k before, and of n / 2 to k = 1, with Student's interval: none is below -1 point,
and that of n / 2 to k = 1 is above 0. At an n where full attention does not recall, control and k are not evaluated:
the task or the budget is then unsuitable.

**long**: n = 128 to 1,024; only models of n = 128 are trained from scratch, each of the others grows from half its n.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from ...files import open_atomic, read_json, write_json
from ...machine import provenance
from ..display import Panel, Table
from ..recall_task import RecallModel, RecallTask, count_recalled, grow, train
from ..result import Inputs, Result, Row, Rows, environment, mean_in_words
from ..statistics import FAILS, HOLDS, MIN_SEEDS, UNDECIDED, Check, Estimate, Verdict, student_interval, wilson

TITLE = "Far-token recall"
SAYS = "E and F find what is too far away for a local window"
FULL = "full attention"
EVALUATION_SEED = 1000
"""Added to the seed of a run for the sequences that it is evaluated on."""
RECALLED, ABOVE_CHANCE, MARGIN = 0.95, 0.05, 0.01
"""``MARGIN``: with accuracies near 100 %, a difference of one sequence in a thousand can exceed its interval."""


@dataclass(frozen=True)
class Sizes:
    """
    Attributes:
        windows, k_divisors: the local windows, and the divisors of n that give k.
        updates, batch: number of updates, and sequences per update.
        sequences: number on which each run is evaluated.
        starts: of E and F; None for the default.
        grown: updates of a model that starts from that of half its n; 0 to train every n from scratch.
    """

    lengths: tuple[int, ...]
    windows: tuple[int, ...]
    k_divisors: tuple[int, ...]
    seeds: tuple[int, ...]
    updates: int
    batch: int
    sequences: int
    device: str = "cpu"
    starts: tuple[str | None, ...] = (None, "normal")
    grown: int = 0


SIZES = {
    "recall": {
        "smoke": Sizes((64,), (0, 4), (4, 2), (1,), updates=3, batch=4, sequences=20),
        "cpu": Sizes((128,), (0, 4, 16), (32, 8, 4, 2), (1, 2, 3), updates=1000, batch=32, sequences=1000),
        "gpu": Sizes(
            (128, 256, 512, 1024), (0, 4, 16), (32, 8, 4, 2), (1, 2, 3), 4000, 128, sequences=4000, device="cuda"
        ),
    },
    "long": {
        "smoke": Sizes((64, 128), (4,), (4,), (1,), updates=3, batch=4, sequences=20, starts=(None,), grown=2),
        "cpu": Sizes((128, 256, 512, 1024), (0, 16), (8, 2), (1, 2, 3), 1000, 32, 1000, starts=(None,), grown=100),
    },
}
"""In a trial of ``cpu``, full attention recalled all 1,000 sequences after 500 updates with each of three seeds, and
k = n / 8 all but one after 1,000 with one seed; so there is a smaller k. From scratch full attention of n = 512
recalled 82 % after 1,000 updates (one seed); grown from n = 128 it recalled 99 % at n = 256 before any update. ``gpu``
is assumed."""
PARTS: dict[str, dict[str, tuple]] = {
    scale: {part: () for part in SIZES if scale in SIZES[part]} for scale in ("smoke", "cpu", "gpu")
}


@dataclass(frozen=True)
class RecallRun:
    """A small encoder that is trained and evaluated; full attention if k is n."""

    n: int
    k: int
    local_window: int
    start: str | None
    seed: int

    @property
    def model(self) -> str:
        return FULL if self.k == self.n else label(self.k, self.local_window, self.start)

    @property
    def name(self) -> str:
        """Of its files."""
        start = f"-{self.start}" if self.start else ""
        return f"n{self.n}-k{self.k}-w{self.local_window}{start}-seed{self.seed}"

    def origin(self, sizes: Sizes) -> "RecallRun | None":
        """The run of half its n that it grows from; None if it is trained from scratch."""
        if not sizes.grown or self.n == min(sizes.lengths):
            return None
        return replace(self, n=self.n // 2, k=max(1, self.k // 2))

    def untrained(self) -> RecallModel:
        return RecallModel(RecallTask(self.n), self.k, self.local_window, self.start, self.seed)


def label(k: int, local_window: int, start: str | None) -> str:
    return f"k={k}, W={local_window}" + f", {start}" * (start is not None)


def lines_of(sizes: Sizes, n: int) -> dict[str, list[str]]:
    """By local window and start, the Linformers in the order of k."""
    return {
        f"W = {window}, {start or 'default start'}": [
            label(1, window, None),
            *(label(n // divisor, window, start) for divisor in sizes.k_divisors),
        ]
        for window in sizes.windows
        for start in sizes.starts
    }


def plan_runs(sizes: Sizes) -> list[RecallRun]:
    """All runs, the first seed of every model first."""
    models: list[tuple[int, int, int, str | None]] = []
    for n in sizes.lengths:
        models.append((n, n, 0, None))
        for window in sizes.windows:
            models.append((n, 1, window, None))
            models += [(n, n // divisor, window, start) for start in sizes.starts for divisor in sizes.k_divisors]
    return [RecallRun(*model, seed) for seed in sizes.seeds for model in models]


def run(part: str, scale: str, inputs: Inputs) -> Result:
    """Each run is a file in RUNS/SCALE/recall/PART, so that a rerun resumes."""
    sizes, folder = SIZES[part][scale], inputs.runs / scale / "recall" / part
    rows, found = Rows(), []
    for each in plan_runs(sizes):
        measured = measure_run(each, sizes, folder)
        found.append(measured)
        share = measured["recalled"] / sizes.sequences
        low, high = (round(end, 6) for end in wilson(share, sizes.sequences))
        interval = {"low": low, "high": high, "repetitions": sizes.sequences, "interval_kind": "confidence"}
        where = {"model": each.model, "n": each.n, "k": each.k, "seed": each.seed}
        rows.append(Row(metric="accuracy", value=share, unit="share of sequences", **interval, **where))
    circumstances = environment(inputs, "none: random sequences of a seed")
    circumstances["commit"] = "; ".join(dict.fromkeys(each["commit"] for each in found))
    circumstances["seconds"] = round(sum(each["seconds"] for each in found), 1)
    return Result(part, scale, rows, circumstances, asdict(sizes))


def measure_run(run: RecallRun, sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Train and evaluate a model, unless it is: the number of recalled sequences."""
    path = folder / f"{run.name}.json"
    if path.exists():
        stored: dict[str, Any] = read_json(path)
        return stored
    start, model = time.monotonic(), run.untrained().to(sizes.device)
    if origin := run.origin(sizes):
        shorter = origin.untrained().to(sizes.device)
        shorter.load_state_dict(torch.load(folder / f"{origin.name}.pt", weights_only=True))
        grow(shorter, model)
    train(model, run.seed, sizes.grown if origin else sizes.updates, sizes.batch)
    if sizes.grown:
        with open_atomic(folder / f"{run.name}.pt", "wb") as file:
            torch.save(model.state_dict(), file)
    found = {
        "recalled": count_recalled(model, EVALUATION_SEED + run.seed, sizes.sequences),
        "seconds": round(time.monotonic() - start, 2),
        "commit": provenance()["commit"],
    }
    write_json(path, found)
    return found


# Verdicts


CLAIMS = {
    "full": "Full attention recalls values that are far away.",
    "control": "With k = 1 a model guesses, whatever its local window: the task requires distance.",
    "k": "Accuracy increases with k.",
}


def accuracies(rows: Rows, **where: Any) -> list[Row]:
    """The accuracy of each seed, in ascending order."""
    return sorted(rows.select("accuracy", **where), key=lambda row: row.seed)


def estimates(rows: Rows, **where: Any) -> list[Estimate]:
    return [
        Estimate(row.value, row.low, row.high, f"n = {row.n}, {row.model}, seed {row.seed}")
        for row in accuracies(rows, **where)
    ]


def checks_of(result: Result) -> dict[str, list[Check]]:
    """The checks of each claim."""
    checks: dict[str, list[Check]] = {name: [] for name in CLAIMS}
    for n in lengths_of(result.rows):
        full = [each.more_than(RECALLED) for each in estimates(result.rows, model=FULL, n=n)]
        checks["full"] += full
        if all(check.outcome == HOLDS for check in full):
            limit = RecallTask(n).chance + ABOVE_CHANCE
            checks["control"] += [each.at_most(limit) for each in estimates(result.rows, k=1, n=n)]
            checks["k"] += increase_checks(result.rows, n, SIZES[result.part][result.scale])
        else:
            missing = Check(UNDECIDED, f"n = {n}: full attention does not recall more than 95 % with every seed")
            checks["control"].append(missing)
            checks["k"].append(missing)
    return checks


def increase_checks(rows: Rows, n: int, sizes: Sizes) -> list[Check]:
    """No k is a point less accurate than the one before it, and the largest is clearly more accurate than k = 1."""
    if len(sizes.seeds) < MIN_SEEDS:
        return [Check(UNDECIDED, f"n = {n}: needs {MIN_SEEDS} seeds of every k")]
    checks = []
    for models in lines_of(sizes, n).values():
        chain = [accuracies(rows, model=model, n=n) for model in models]
        for before, after in pairwise(chain):
            difference = mean_difference(after, before)
            outcome = FAILS if difference.high < -MARGIN else HOLDS
            checks.append(Check(outcome, f"{difference}; needs an interval not below {-MARGIN:g}"))
        checks.append(mean_difference(chain[-1], chain[0]).more_than(0))
    return checks


def mean_difference(after: Sequence[Row], before: Sequence[Row]) -> Estimate:
    """Mean over seeds of the difference in accuracy, with Student's 95 % interval."""
    text = f"n = {after[0].n}, accuracy of {after[0].model} minus that of {before[0].model}"
    return Estimate(*student_interval([a.value - b.value for a, b in zip(after, before, strict=True)]), text)


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    checks = {result.part: checks_of(result) for result in results}
    return [
        Verdict(name if part == "recall" else f"long {name}", claim, checks[part][name] if part in checks else [])
        for part in SIZES
        for name, claim in CLAIMS.items()
    ]


def lengths_of(rows: Rows) -> list[int]:
    return sorted({row.n for row in rows})


# Tables and chart


def tables(results: Sequence[Result]) -> list[Table]:
    """Mean accuracy over seeds, and the lowest and highest, by local window, start and k."""
    found = []
    for result in results:
        sizes = SIZES[result.part][result.scale]
        for n in lengths_of(result.rows):
            head = ["model", "k = 1", *(f"k = {n // divisor}" for divisor in (*sizes.k_divisors, 1))]
            cells = [[FULL, *[""] * (len(head) - 2), _cell(result.rows, FULL, n)]]
            for name, models in lines_of(sizes, n).items():
                cells.append([name, *(_cell(result.rows, model, n) for model in models), ""])
            title = f"Accuracy in %, {result.part}, n = {n:,}, mean over seeds (lowest to highest)"
            found.append(Table(title, head, cells))
    return found


def _cell(rows: Rows, model: str, n: int) -> str:
    return mean_in_words([100 * row.value for row in accuracies(rows, model=model, n=n)], 1)


def chart(results: Sequence[Result]) -> list[Panel]:
    """Accuracy over k, at the longest n: a line per local window and start, and per seed."""
    panels = []
    for result in results:
        sizes, rows = SIZES[result.part][result.scale], result.rows
        n, lines = lengths_of(rows)[-1], {}
        for name, models in lines_of(sizes, n).items():
            found = [row for model in models for row in accuracies(rows, model=model, n=n)]
            lines[name] = [[(row.k, row.value) for row in found if row.seed == seed] for seed in sizes.seeds]
        levels = {"chance": RecallTask(n).chance}
        panels.append(Panel(f"{result.part}, n = {n:,}", "k", "accuracy", lines, levels, log_x=True))
    return panels
