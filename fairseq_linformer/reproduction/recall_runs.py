"""The runs of far-token recall: which models are trained, at each scale, and the files of a finished run.

NAME.json    plan, commit, result and seal
NAME.pt      weights, if a model of the double n grows from it
"""

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from ..files import open_atomic, read_sealed
from ..modules.rate import default_lr_scale
from .recall_task import RecallModel, RecallTask, build_model, count_recalled, grow, train
from .runs import default_start

FULL = "full attention"
"""Label of the model with k = n."""
EVALUATION_SEED = 1000
"""Added to the seed of a run for the sequences that it is evaluated on."""
NUM_POINTS = 10
"""Points of a curve of the training loss, each the mean of as many updates."""
CHUNK = 2**15
"""Tokens of a forward pass in the evaluation."""
STARTS = (None, "normal")
"""Starts of E and F; None for the model's default."""


@dataclass(frozen=True)
class Sizes:
    """
    Attributes:
        lengths: the n of the tasks.
        windows, parts: the local windows, and the divisors of n that give k.
        seeds: of each model.
        updates, batch: number of updates, and sequences per update.
        sequences: number on which each run is evaluated.
        starts: of E and F.
        grown: updates of a model that starts from that of half its n; 0 to train every n from scratch.
    """

    lengths: tuple[int, ...]
    windows: tuple[int, ...]
    parts: tuple[int, ...]
    seeds: tuple[int, ...]
    updates: int
    batch: int
    sequences: int
    device: str = "cpu"
    layers: int = 2
    width: int = 32
    heads: int = 2
    lr: float = 5e-3
    warmup: int = 50
    starts: tuple[str | None, ...] = STARTS
    grown: int = 0


SIZES = {
    "smoke": Sizes((64,), (0, 4), (4, 2), (1,), updates=3, batch=4, sequences=20),
    "cpu": Sizes((128,), (0, 4, 16), (32, 8, 4, 2), (1, 2, 3), updates=1000, batch=32, sequences=1000),
    "gpu": Sizes(
        (128, 256, 512, 1024),
        (0, 4, 16),
        (32, 8, 4, 2),
        (1, 2, 3),
        updates=4000,
        batch=128,
        sequences=4000,
        device="cuda",
    ),
}
"""Sizes by scale. In a trial of ``cpu``, full attention recalled all 1,000 sequences after 500 updates with each of
three seeds, and k = n / 8 all but one after 1,000 with one seed; so there is a smaller k. ``gpu`` is assumed, not
measured.
"""
LONG_SIZES = {
    "smoke": Sizes((64, 128), (4,), (4,), (1,), updates=3, batch=4, sequences=20, starts=(None,), grown=2),
    "cpu": Sizes(
        (128, 256, 512, 1024),
        (0, 16),
        (8, 2),
        (1, 2, 3),
        updates=1000,
        batch=32,
        sequences=1000,
        starts=(None,),
        grown=100,
    ),
}
"""Longer n, by doubling it. From scratch full attention of n = 512 recalled 82 % after 1,000 updates (one seed); grown
from n = 128 it recalled 99 % at n = 256 before any update. The normal start, which guesses at n = 128, is omitted."""


@dataclass(frozen=True)
class RecallRun:
    """A training run of far-token recall.

    Attributes:
        k: n for full attention.
    """

    n: int
    k: int
    local_window: int
    start: str | None
    seed: int

    @property
    def model(self) -> str:
        """Label of the model."""
        if self.k == self.n:
            return FULL
        return label(self.k, self.local_window, self.start)

    def num_updates(self, sizes: Sizes) -> int:
        return sizes.updates if self.origin(sizes) is None else sizes.grown

    def origin(self, sizes: Sizes) -> "RecallRun | None":
        """The run of half its n that it grows from; None if it is trained from scratch."""
        if not sizes.grown or self.n == min(sizes.lengths):
            return None
        return replace(self, n=self.n // 2, k=max(1, self.k // 2))

    @property
    def name(self) -> str:
        """Name of its files, without suffix."""
        start = f"-{self.start}" if self.start else ""
        return f"n{self.n}-k{self.k}-w{self.local_window}{start}-seed{self.seed}"


def label(k: int, local_window: int, start: str | None) -> str:
    return f"k={k}, W={local_window}" + f", {start}" * (start is not None)


def build_task(n: int) -> RecallTask:
    """The task at length n, with values at least 3 n / 8 positions before the queries."""
    return RecallTask(n, distance=3 * n // 8)


def plan_runs(sizes: Sizes) -> list[RecallRun]:
    """All runs, the first seed of every model first."""
    models: list[tuple[int, int, int, str | None]] = []
    for n in sizes.lengths:
        models.append((n, n, 0, None))
        for window in sizes.windows:
            models.append((n, 1, window, None))
            models += [(n, n // part, window, start) for start in sizes.starts for part in sizes.parts]
    return [RecallRun(*model, seed) for seed in sizes.seeds for model in models]


def measure_run(run: RecallRun, sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Train and evaluate a model: the number of recalled sequences, and the curve of the training loss.

    Args:
        folder: of the weights, which are written if another run grows from them.
    """
    start, task, model = time.monotonic(), build_task(run.n), _build(run, sizes)
    if origin := run.origin(sizes):
        shorter = _build(origin, sizes)
        shorter.load_state_dict(torch.load(folder / f"{origin.name}.pt", weights_only=True))
        grow(shorter, model)
    losses = list(train(model, task, run.seed, run.num_updates(sizes), sizes.batch, sizes.lr, sizes.warmup))
    parts = [part for part in np.array_split(np.arange(len(losses)), NUM_POINTS) if part.size]
    if sizes.grown and run.n < max(sizes.lengths):
        with open_atomic(folder / f"{run.name}.pt", "wb") as file:
            torch.save(model.state_dict(), file)
    return {
        "recalled": count_recalled(model, task, EVALUATION_SEED + run.seed, sizes.sequences, max(1, CHUNK // run.n)),
        "loss": [[int(part[-1]) + 1, round(fmean(losses[i] for i in part), 4)] for part in parts],
        "seconds": round(time.monotonic() - start, 2),
    }


def _build(run: RecallRun, sizes: Sizes) -> RecallModel:
    shape = (run.k, run.start, run.local_window, sizes.layers, sizes.width, sizes.heads)
    return build_model(run.seed, build_task(run.n), *shape).to(sizes.device)


def describe_run(run: RecallRun, sizes: Sizes) -> dict[str, Any]:
    """All that the result of a run depends on, as JSON."""
    shared = {name: value for name, value in asdict(sizes).items() if not isinstance(value, tuple)}
    start = {"resolved_start": run.start or default_start(), "rate": default_lr_scale(run.n)}
    origin = run.origin(sizes)
    shared["grown_from"] = origin and origin.name
    return {**asdict(run), **start, **shared, "task": asdict(build_task(run.n)), "evaluation_seed": EVALUATION_SEED}


def read_run(path: Path, plan: dict[str, Any]) -> dict[str, Any]:
    """
    Args:
        plan: from ``describe_run``.

    Raises:
        ValueError: the file is damaged, was edited, or is of another plan.
    """
    try:
        content = read_sealed(path)
    except ValueError as error:
        raise ValueError(f"{error}; remove it to train this model again") from None
    if content["plan"] != plan:
        raise ValueError(f"{path} was trained with another plan; use another --runs")
    return content
