"""Faults and bad inputs that the tests tried, and how many of them lost something.

Usage, in a clone of the repository:

    fairseq-linformer reproduce faults --scale cpu

Each test with the marker ``fault(kind)`` tries one fault: a process that is killed, a full disk, a damaged file, an
input that is wrong or hostile. A test that fails counts as a loss.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..cells import single_value
from ..claim import Claim
from ..inputs import Inputs
from ..records import Measurement, Record
from ..report.tables import Table
from ..rules import rule
from ..statistics import FAILS, HOLDS, UNDECIDED, Check
from ..untrained_experiment import UntrainedExperiment

NAME = "faults"
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {"faults": 1, "tests": ["tests/launching/test_checksums.py"]},
    "cpu": {"faults": 20, "tests": ["tests"]},
}
"""By scale: how often each random fault is tried, and the tests."""
TRIED, LOST, SKIPPED = METRICS = "tried", "lost", "skipped"
KILLS = tuple(
    f"SIGKILL of {ranks}, {phase}"
    for ranks in ("one rank", "all ranks")
    for phase in ("training", "validation", "writing")
)
RANDOM_FAULTS = (
    *KILLS,
    "SIGKILL of one rank, then of all processes of a node",
    "full disk",
    "non-finite gradients",
    "non-finite validation loss",
    "ranks missing at start",
    "signal to a command",
)
MIN_FAULTS = 20
"""Faults that are tried at random moments or in random places, and how often each must be."""
REPOSITORY = Path(__file__).parents[3]
SUCCESS, SOME_FAILED = 0, 1
"""pytest's exit status."""


def _checks(record: Record) -> list[Check]:
    checks = []
    for lost in record.select(LOST):
        text = f"{lost.part}: {_count(record, TRIED, lost.part)} tried, {lost.value:.0f} lost"
        checks.append(Check(FAILS if lost.value else HOLDS, text))
    for kind in RANDOM_FAULTS:
        if (tried := _count(record, TRIED, kind)) < MIN_FAULTS:
            checks.append(Check(UNDECIDED, f"{kind}: {tried} tried; needs {MIN_FAULTS}"))
    return checks


def _count(record: Record, metric: str, kind: str) -> int:
    m = record.find(metric, part=kind)
    return 0 if m is None else int(m.value)


CLAIMS = (
    Claim(
        NAME,
        "this project: training and all commands",
        "No fault and no input loses a saved update, damages a file or runs foreign code.",
        "Holds if every test of a fault passes, and each random fault (SIGKILL of ranks in each phase and "
        "of a node, a full disk, a non-finite gradient or loss, missing ranks, a signal to a command) was tried "
        f"{MIN_FAULTS} times or more; does not hold if one test fails.",
        rule(NAME, f"{NAME}-*", _checks),
    ),
)


class Faults(UntrainedExperiment):
    """Runs the tests of this repository; writes only its record."""

    name, title, claims, scales = NAME, "Faults and bad input", CLAIMS, tuple(SIZES)

    def check(self, scale: str, inputs: Inputs) -> None:
        super().check(scale, inputs)
        if not (REPOSITORY / "tests").is_dir():
            raise ValueError(f"{self.name} needs a clone of the repository, but {REPOSITORY} has no tests")
        if find_spec("pytest") is None:
            raise ValueError(f"{self.name} needs pytest; install fairseq-linformer[test]")

    def cost(self, scale: str) -> str:
        return f"tests, each random fault {SIZES[scale]['faults']} times"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        """
        Raises:
            ValueError: as ``count_faults``.
        """
        started, sizes = time.monotonic(), SIZES[scale]
        counts = count_faults(sizes["tests"], sizes["faults"])
        measurements = [
            Measurement(metric=metric, part=kind, **single_value(counts[metric][kind], "faults"))
            for kind in sorted({kind for each in counts.values() for kind in each})
            for metric in METRICS
        ]
        claim = "Faults and bad inputs that the tests tried, and how many of them lost something"
        data = "none: the tests write their own"
        return [self.record(scale, command, started, claim, measurements, sizes, {"faults": 0.0}, data)]

    def tables(self, records: Sequence[Record]) -> list[Table]:
        """A row per kind of fault."""
        return [_table(record) for record in records]


def count_faults(tests: Sequence[str], faults: int) -> dict[str, Counter[str]]:
    """Run the tests of faults; returns how many were tried (and of these lost) and skipped, by kind.

    Args:
        tests: files or folders of the repository.
        faults: how often each random fault is tried.

    Raises:
        ValueError: the tests could not be run.
    """
    counts: dict[str, Counter[str]] = {metric: Counter() for metric in METRICS}
    workers = ["-n", str(len(os.sched_getaffinity(0))), "--dist", "worksteal"]
    with TemporaryDirectory() as folder:
        log = Path(folder, "faults.jsonl")
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "fault", "-p", "no:cacheprovider", *workers, *tests],
            cwd=REPOSITORY,
            env={**os.environ, "FAULTS": str(faults), "FAULT_LOG": str(log)},
            stdout=sys.stderr,
        )
        lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    if run.returncode not in (SUCCESS, SOME_FAILED) or not lines:
        raise ValueError(f"the tests of faults ended with status {run.returncode}; see above")
    for line in lines:
        fault = json.loads(line)
        counts[fault["outcome"]][fault["kind"]] += 1
    counts[TRIED] += counts[LOST]
    if (run.returncode == SOME_FAILED) != bool(counts[LOST]):
        raise ValueError(f"pytest ended with status {run.returncode}, but {counts[LOST].total()} faults were lost")
    return counts


def _table(record: Record) -> Table:
    kinds = [str(m.part) for m in record.select(TRIED)]
    rows = [[kind, *(f"{_count(record, metric, kind):,}" for metric in METRICS)] for kind in kinds]
    rows.append(["all", *(f"{sum(m.value for m in record.select(metric)):,.0f}" for metric in METRICS)])
    return Table(["fault", *METRICS], rows, f"{record.identifier}: tests of faults and of wrong or hostile input")


EXPERIMENTS = (Faults(),)
