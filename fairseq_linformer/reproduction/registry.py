"""What an experiment is, and the list of them. To add one, write ``experiments/NAME.py`` and name it in ``MODULES``.

Every command, the report and the Slurm arrays iterate over this list; nothing else knows an experiment by its name.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from ..files import check_can_be_written
from . import records as ledger
from .records import Record
from .scales import NAMES, SCALES
from .statistics import Evaluate, Verdict

MODULES = ("table_1", "sharing", "figure_1", "theorem_1", "theorem_2", "figure_2", "figure_3", "table_2", "table_3",
           "warm_start", "projections", "starts", "growing", "speed")  # fmt: skip
"""Files of ``experiments/``, in the order of the report. Each has ``EXPERIMENTS``, a tuple."""
RUNS = "runs/reproduce"


class Unfinished(Exception):
    """The time budget is spent. The message says what is left; rerunning the command resumes."""


@dataclass(frozen=True)
class Claim:
    """
    Attributes:
        identifier: unique among all claims.
        where: in the paper, with its n and k where it states them; or in this project.
        statement: the claim, in a sentence.
        rule: of the verdict, in words, written before the runs. A record keeps the rules as they read then.
        evaluate: the rule.
    """

    identifier: str
    where: str
    statement: str
    rule: str
    evaluate: Evaluate


@dataclass(frozen=True)
class Inputs:
    """What a measurement reads and when it stops.

    Attributes:
        runs: folder of all runs; None for ``RUNS``.
        text: folder written by ``prepare pretraining``.
        tasks: folder with one folder per task, written by ``prepare TASK``.
        minutes: time budget; None for no limit.
    """

    runs: str | Path | None = None
    text: str | Path | None = None
    tasks: str | Path | None = None
    minutes: float | None = None

    @property
    def folder(self) -> Path:
        return Path(RUNS if self.runs is None else self.runs)

    def deadline(self) -> float | None:
        """The ``time.monotonic()`` at which a budget that begins now is spent; None for no limit."""
        return None if self.minutes is None else time.monotonic() + 60 * self.minutes

    def refuse(self, options: Sequence[str], name: str, reason: str) -> None:
        """
        Raises:
            ValueError: one of the options is given; ``name`` takes none of them.
        """
        for option in options:
            if (value := getattr(self, option)) is not None:
                raise ValueError(f"--{option} is {value}; {name} takes no --{option}: {reason}")


def is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


class Experiment(ABC):
    """One table, figure or theorem of the paper, or one claim of this project.

    Attributes:
        name: for ``fairseq-linformer reproduce NAME``.
        title: of its section in the report.
        claims: tested by it.
        scales: at which it can be run, some of ``scales.NAMES``.
        reads: options it needs: ``text``, ``tasks``.
        shows: other experiments whose records stand in its section too.
        paper_scale: how Slurm trains it at the paper's scale (``paper_scale.PaperScale``), if it does.
    """

    name: str
    title: str
    claims: tuple[Claim, ...]
    scales: tuple[str, ...]
    reads: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    paper_scale = None

    @abstractmethod
    def cost(self, scale: str) -> str:
        """What a run at this scale takes, in a few words, for ``reproduce list``."""

    @abstractmethod
    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        """Measure whatever is not measured yet.

        Args:
            command: for the records.

        Raises:
            Unfinished: the time budget is spent.
            ValueError: an input is missing or wrong, or a training failed.
        """

    @abstractmethod
    def measure_again(self, record: Record, inputs: Inputs) -> tuple[str, list[Record]]:
        """Measure a record of this experiment from the beginning; only finished trainings are reused, and scored again.

        Returns:
            how it was measured, in words, and the records.

        Raises:
            Unfinished, ValueError: as ``measure``; or the record has another plan or other data than a run would have here.
        """

    @abstractmethod
    def tables(self, records: Sequence[Record]) -> list:
        """``report.tables.Table`` of its records, those of the largest scale first."""

    def charts(self, records: Sequence[Record]) -> list:
        """``report.charts.Chart`` or ``Heat`` of its records."""
        return []

    def paper_cells(self, records: Sequence[Record]) -> list:
        """``(paper.Cell, [paper.CellResult, ...])`` for each cell of a table of the paper."""
        return []

    def context_tables(self, records: Sequence[Record]) -> list:
        """As ``tables``, of ``context``."""
        return self.tables(records) if records else []

    def context_charts(self, records: Sequence[Record]) -> list:
        """As ``charts``, of ``context``."""
        return []

    # Inputs and ledger, before anything is measured

    def check(self, scale: str, inputs: Inputs) -> None:
        """
        Raises:
            ValueError: the scale does not exist here, or an input is missing or not read.
        """
        if scale not in NAMES:
            raise ValueError(f"--scale is {scale}; choose from {', '.join(NAMES)}")
        if scale not in self.scales:
            raise ValueError(f"{self.name} has no scale {scale}; it has {', '.join(self.scales)}")
        _check_inputs(self.name, inputs, self.reads)

    def check_paper_inputs(self, inputs: Inputs) -> None:
        """As ``check``, at the paper's scale, where finetuning reads no text."""
        _check_inputs(self.name, inputs, self.paper_scale.reads)

    def check_ledger(self, scale: str, inputs: Inputs, records: Sequence[Record]) -> None:
        """Before hours of training: records of this experiment that are there must be of the plan, data and runs of today.

        Raises:
            ValueError: one is not.
        """
        for record in ledger.reproduced(records, self.name, scale):
            self.check_same(record, inputs)
            if not self.has_runs(record, inputs):
                raise ValueError(f"{record.identifier} is already in the ledger, but some of its runs are missing from "
                                 f"{inputs.folder}; measure it again with --verify {record.identifier}, or give another --ledger")  # fmt: skip

    def check_same(self, record: Record, inputs: Inputs) -> None:
        """
        Raises:
            ValueError: a record is of another plan than today's, or of other data than the inputs.
        """

    def has_runs(self, record: Record, inputs: Inputs) -> bool:
        """Whether the runs behind a record are all finished here."""
        return True

    # Commands

    def reproduce(self, scale: str, inputs: Inputs, folder, command: str) -> str:
        """Measure, write the records, and report the verdicts; or say what is left.

        Args:
            folder: the ledger.

        Raises:
            ValueError: as ``check``, ``check_ledger``, ``measure`` and ``records.put``.
        """
        self.check(scale, inputs)
        self.check_ledger(scale, inputs, ledger.records(folder))
        check_can_be_written(inputs.folder)
        try:
            found = self.measure(scale, inputs, command)
        except Unfinished as left:
            return str(left)
        return self.publish(found, scale, folder)

    def publish(self, found: Sequence[Record], scale: str, folder) -> str:
        """Write records and report the verdicts, of all records in the ledger.

        Raises:
            ValueError: as ``records.put``.
        """
        lines = [f"ledger: {ledger.put(record, folder)}" for record in found]
        for claim, verdict in self.evaluate(ledger.records(folder), scale):
            lines.append(f"{claim.identifier}: {verdict.outcome} at scale {scale}. {claim.statement}")
            lines += [f"  {number}" for number in verdict.numbers]
        return "\n".join(lines)

    def evaluate(self, records: Sequence[Record], scale: str) -> list[tuple[Claim, Verdict]]:
        """The verdict of each claim at a scale."""
        return [(claim, claim.evaluate(records, scale)) for claim in self.claims]

    # The report

    def shown(self, records: Sequence[Record], used: Sequence[str]) -> list[Record]:
        """Its records and those that its verdicts used, the largest scale and the deepest model first. No verdict follows
        from ``smoke``, so that it is not shown.

        Args:
            used: identifiers.
        """
        mine = (self.name, *self.shows)
        found = [r for r in records if r.scale != "smoke" and (r.identifier in used or r.experiment in mine and not is_context(r))]
        return sorted(found, key=lambda r: (-NAMES.index(r.scale), -r.configuration.get("layers", 0), r.identifier))

    def context(self, records: Sequence[Record]) -> list[Record]:
        """Earlier measurements of the same thing, at sizes that were not fixed before: shown, without a verdict."""
        return [record for record in records if record.experiment == self.name and is_context(record)]


def _check_inputs(name: str, inputs: Inputs, reads: Sequence[str]) -> None:
    for option, command in (("text", "pretraining"), ("tasks", "TASK")):
        value, needed = getattr(inputs, option), option in reads
        if needed and value is None:
            raise ValueError(f"{name} needs --{option}, a folder written by `fairseq-linformer prepare {command}`")
        if value is not None and not needed:
            raise ValueError(f"--{option} is {value}, but {name} does not use it at this scale")


def is_context(record: Record) -> bool:
    return record.made_by in ("script", "finetune")


@cache
def experiments() -> tuple[Experiment, ...]:
    """All of them, in the order of the report.

    Raises:
        ValueError: a file of ``MODULES`` cannot be imported or defines none, or a name is defined twice.
    """
    found: list[Experiment] = []
    for name in MODULES:
        try:
            found += import_module(f".experiments.{name}", __package__).EXPERIMENTS
        except (AttributeError, ImportError, TypeError) as error:
            raise ValueError(f"experiments/{name}.py defines no tuple EXPERIMENTS: {type(error).__name__}: {error}") from error
    for names in ([each.name for each in found], [claim.identifier for each in found for claim in each.claims]):
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"experiments/ define {', '.join(sorted(twice))} twice; names of experiments and claims are unique")
    return tuple(found)


def find(name: str) -> Experiment:
    """
    Raises:
        ValueError: there is no such experiment.
    """
    found = next((each for each in experiments() if each.name == name), None)
    if found is None:
        raise ValueError(f"unknown experiment {name!r}; choose from {', '.join(each.name for each in experiments())}")
    return found


def claims() -> dict[str, Claim]:
    """All claims by identifier."""
    return {claim.identifier: claim for each in experiments() for claim in each.claims}


def listing(folder) -> list[str]:
    """A line per experiment and scale: what it costs, and its records in the ledger.

    Raises:
        ValueError: there is no such folder, or a file in it is not a record.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"--ledger is {folder}; there is no such folder")
    records, lines = ledger.records(folder), []
    for each in experiments():
        for scale in each.scales:
            made = [r.identifier for r in ledger.reproduced(records, each.name, scale)]
            lines.append(f"{each.name:12} {scale:6} {each.cost(scale):60} {', '.join(made) or 'not measured'}")
        used = {name for scale in SCALES for _, verdict in each.evaluate(records, scale) for name in verdict.records}
        others = sorted(r.identifier for r in records if r.identifier in used and (r.experiment, r.made_by) != (each.name, "reproduce"))
        if others:
            lines.append(f"{each.name:12} {'':6} {'measured by other commands':60} {', '.join(others)}")
    return lines
