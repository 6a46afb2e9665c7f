"""``fairseq-linformer reproduce`` of an experiment that trains: what is not trained yet, in turn, then its ledger entry."""

import json
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from . import ledger, run_of_plan, trained
from .ledger import Entry
from .scales import SCALES, Scale
from .text import described
from .training_plan import Run, in_turn, measured_runs

SIZES = ("layers", "width", "heads", "tokens", "lr", "warmup", "validate", "precision")
"""Of a scale, what every run of it has."""
TOLERANCE = {"perplexity": 0.01, "bits": 0.01}
"""By unit, relative. Trained again on the same machine with the same versions the numbers are the same; other processors round otherwise."""


def measure(experiment: str, scale_name: str, runs, text, minutes: Optional[float], command: str, anew: bool = False) -> "List[Entry] | str":
    """Train until all is trained or the time is up.

    Args:
        runs: folder of the runs; those of a scale are in a folder of its name.
        text: as ``text.shards_of`` wants it.
        minutes: after which a run is told to stop and no other begins; None for no limit.
        command: of the entry.
        anew: judge checkpoints that were judged before.

    Returns:
        the entry; a sentence on what is left if the time was up.

    Raises:
        ValueError: a run folder is of another configuration, or a run failed.
    """
    scale, runs = SCALES[scale_name], Path(runs) / scale_name
    until = None if minutes is None else time.monotonic() + 60 * minutes
    measured = measured_runs(experiment, scale)
    every, ours = in_turn(measured), {run for of_seed in measured.values() for run in of_seed}
    check(every, scale, runs, text)
    trained.remembered(experiment, runs)  # not of what is refused: rules that are told later as those of before the runs
    if left := train(every, scale, runs, text, until):
        return f"{experiment}: {left}"
    finished = [run_of_plan.trained(run, runs) for run in every if run in ours]
    for i, run in enumerate(unjudged := [run for run in finished if not run.is_judged]):
        if i and until is not None and time.monotonic() >= until:
            return f"{experiment}: time is up, {len(unjudged) - i} trained models are left to be judged; the same command goes on"
        trained.perplexity(run, text, scale.device)
    return [entry_of(experiment, scale_name, runs, text, command, anew)]


def check(every: Sequence[Run], scale: Scale, runs: Path, text) -> None:
    """Before anything is trained.

    Raises:
        ValueError: as ``measure``, where it can be known.
    """
    _check_device(scale.device)
    described(text)  # its manifest is asked in the end
    for run in every:
        run_of_plan.check(run, scale, runs, text)


def train(every: Sequence[Run], scale: Scale, runs: Path, text, until: Optional[float]) -> Optional[str]:
    """Train what is not trained, in turn. One run always begins and makes an update, so the same command comes to an end.

    Returns:
        a sentence on what is left if the time was up.

    Raises:
        ValueError: as ``measure``.
    """
    missing = [run for run in every if not run_of_plan.is_done(run, runs)]
    for run in every:
        if run.start is not None and run not in missing and not run_of_plan.start_of(run, runs).exists():
            run_of_plan.make_start(run, runs)  # somebody took it for what is not needed any more; an entry counts the time behind it
    for i, run in enumerate(missing):
        if i and until is not None and time.monotonic() >= until:
            return _left(missing[i:])
        print(f"run {i + 1} of {len(missing)}: {run.name}", file=sys.stderr)
        if not run_of_plan.train(run, scale, runs, text, until):
            return _left(missing[i:])
    return None


def _left(left: Sequence[Run]) -> str:
    updates = sum(run.updates for run in left)
    return f"time is up, {len(left)} runs are left of at most {updates:,} updates, {left[0].name} first; the same command goes on"


def _check_device(device: str) -> None:
    if device == "gpu":
        import torch

        if not torch.cuda.is_available():
            raise ValueError("--scale gpu needs a GPU, and PyTorch sees none here")


def entry_of(experiment: str, scale_name: str, runs: Path, text, command: str, anew: bool = False) -> Entry:
    """The entry of an experiment whose runs are all trained.

    Args:
        runs: folder of the runs of this scale.

    Raises:
        ValueError: as ``trained.entry_of``.
    """
    scale = SCALES[scale_name]
    measured = measured_runs(experiment, scale)
    models = {name: [run_of_plan.trained(run, runs) for run in of_seed] for name, of_seed in measured.items()}
    every = [run_of_plan.trained(run, runs) for run in in_turn(measured)]
    told = {**plan_of(experiment, scale_name), "rules": trained.remembered(experiment, runs), "tolerance": TOLERANCE}
    return trained.entry_of(experiment, scale_name, models, every, text, scale.device, told, command, anew)


def plan_now(entry: Entry) -> Dict[str, Any]:
    """The plan that an entry would have if it were measured today."""
    return plan_of(entry.configuration["experiment"], entry.scale)


def data_of(entry: Entry, given) -> str:
    """What the data of an entry would be, of what is given."""
    return described(given.text)


def finished(entry: Entry, runs) -> List[bool]:
    """Of each run of an entry, and of those that they start from: is it?"""
    every = in_turn(measured_runs(entry.configuration["experiment"], SCALES[entry.scale]))
    return [run_of_plan.is_done(run, Path(runs) / entry.scale) for run in every]


def plan_of(experiment: str, scale_name: str) -> Dict[str, Any]:
    """What is trained, and with which sizes and seeds."""
    scale = SCALES[scale_name]
    runs = {name: run_of_plan.described(of_seed[0]) for name, of_seed in measured_runs(experiment, scale).items()}
    return json.loads(json.dumps({"sizes": {name: getattr(scale, name) for name in SIZES}, "seeds": scale.seeds, "runs": runs}))
