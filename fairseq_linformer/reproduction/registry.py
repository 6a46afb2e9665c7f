"""The interface of experiments, and their list. To add one, write ``experiments/NAME.py`` and name it in ``MODULES``.

Every command, the report and the Slurm arrays iterate over this list; nothing else knows an experiment by its name.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ..files import check_can_be_written
from . import records as ledger
from . import superseded
from .commits import commit_remarks
from .records import Record
from .scales import NAMES, SCALES
from .statistics import Evaluate, Verdict

MODULES = (
    "table_1",
    "operations",
    "sharing",
    "figure_1",
    "theorem_1",
    "theorem_2",
    "figure_2",
    "figure_3",
    "table_2",
    "table_3",
    "memory",
    "warm_start",
    "projections",
    "starts",
    "growing",
    "window_sizes",
    "local_window",
    "local_window_cost",
    "conversion",
    "speed",
    "recall",
    "survival",
    "short_inputs",
    "distillation",
    "encoder_spectrum",
    "encoder_perplexity",
    "encoder_speed",
    "long_documents",
    "encoder_tasks",
    "int8",
    "int8_speed",
    "faults",
)
"""Files of ``experiments/``, in the order of the report. Each has ``EXPERIMENTS``, a tuple."""
RUNS = "runs/reproduce"


class Unfinished(Exception):
    """The time budget is spent. The message names what is left; rerunning the command resumes.

    Attributes:
        records: of what is finished.
    """

    def __init__(self, message: str, records: Sequence[Record] = ()):
        super().__init__(message)
        self.records = list(records)


@dataclass(frozen=True)
class EarlierRule:
    """A rule that was replaced by another.

    Attributes:
        rule: as it read.
        until: date of the change, YYYY-MM-DD.
        data_known: whether numbers that the new rule evaluates were known when it was written.
        reason: of the change, in a sentence.
    """

    rule: str
    until: str
    data_known: bool
    reason: str


@dataclass(frozen=True)
class Claim:
    """
    Attributes:
        identifier: unique among all claims.
        where: place in the paper, with its n and k where stated; or ``this project: ...``.
        statement: the claim, in a sentence.
        rule: of the verdict, in words, written before the runs. A record keeps the rules as they read then.
        evaluate: the rule.
        history: its earlier rules, the oldest first; the report shows them.
    """

    identifier: str
    where: str
    statement: str
    rule: str
    evaluate: Evaluate
    history: tuple[EarlierRule, ...] = ()

    def verdict(self, records: Sequence[Record], scale: str) -> Verdict:
        """``evaluate``, with a remark on each record whose commit does not identify the code."""
        found = self.evaluate(records, scale)
        used = (record for record in records if record.identifier in found.records)
        remarks = [remark for record in used for remark in commit_remarks(record)]
        return replace(found, remarks=[*remarks, *found.remarks])


@dataclass(frozen=True)
class Inputs:
    """Inputs of a measurement, and its time budget.

    Attributes:
        runs: folder of all runs; None for ``RUNS``.
        data: folder written by ``prepare pretraining``.
        tasks: folder with one folder per task, written by ``prepare TASK``.
        minutes: time budget; None for no limit.
        encoder: a model of ``transformers``, by its name on the hub or its folder.
        source: raw texts, as for ``prepare pretraining --source``.
        recorded: identifiers of records that need no measurement; see ``Experiment.resumes_from_records``.
    """

    runs: str | Path | None = None
    data: str | Path | None = None
    tasks: str | Path | None = None
    minutes: float | None = None
    encoder: str | None = None
    source: tuple[str, ...] | None = None
    recorded: tuple[str, ...] = ()

    def with_recorded(self, records: Iterable[Record]) -> "Inputs":
        """These inputs, without a measurement of these records."""
        return replace(self, recorded=tuple(record.identifier for record in records))

    @property
    def folder(self) -> Path:
        return Path(RUNS if self.runs is None else self.runs)

    def deadline(self) -> float | None:
        """The ``time.monotonic()`` at which a budget that begins now is spent; None for no limit."""
        return None if self.minutes is None else time.monotonic() + 60 * self.minutes

    def reject(self, options: Sequence[str], name: str, reason: str) -> None:
        """
        Raises:
            ValueError: one of the options is set.
        """
        for option in options:
            if (value := getattr(self, option)) is not None:
                raise ValueError(f"{name} takes no --{option}, got {value}: {reason}")


def is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


class PaperScale(ABC):
    """How an experiment is trained at the paper's scale, by a Slurm array.

    Attributes:
        reads: the inputs it needs.
        pretraining: overrides of ``configs/pretrain/base.yaml`` for each run that it needs.
    """

    reads: tuple[str, ...] = ("data",)
    pretraining: tuple[tuple[str, ...], ...] = ()

    @abstractmethod
    def members(self, runs, tasks, device: str) -> list[list[str]]:
        """The array: arguments of ``fairseq-linformer submit`` for each member.

        Raises:
            ValueError: a run is not trained or a task is not prepared.
        """

    @abstractmethod
    def is_trained(self, runs, tasks, device: str) -> bool:
        """Whether nothing is left to submit."""

    @abstractmethod
    def measure(self, inputs: Inputs, device: str, command: str) -> list[Record]:
        """Score the trained runs.

        Raises:
            ValueError: a run is of another model or text, or its configuration or curve is damaged.
        """


class Experiment(ABC):
    """One table, figure or theorem of the paper, or one claim of this project.

    Attributes:
        name: for ``fairseq-linformer reproduce NAME``.
        title: of its section in the report.
        claims: tested by it.
        scales: at which it can be run, some of ``scales.NAMES``.
        reads: options it needs: ``data``, ``tasks``, ``encoder``, ``source``.
        shows: other experiments whose records its section shows too.
        paper_scale: how Slurm trains it at the paper's scale; None if it does not.
        has_run_folders: whether it writes runs or cells, which a rerun resumes.
        resumes_from_records: whether it measures only what has no record yet, so that hours of work can be spread over
            machines that share the ledger but not the runs. Each of its records is of one model.
    """

    name: str
    title: str
    claims: tuple[Claim, ...]
    scales: tuple[str, ...]
    reads: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    paper_scale: PaperScale | None = None
    has_run_folders: bool = True
    resumes_from_records: bool = False

    @abstractmethod
    def cost(self, scale: str) -> str:
        """The cost of a run at this scale, in a few words, for ``reproduce list``."""

    @abstractmethod
    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        """Run what is not finished, and return the records.

        Args:
            command: for the records.

        Raises:
            Unfinished: the time budget is spent.
            ValueError: an input is missing or wrong, or a training failed.
        """

    @abstractmethod
    def measure_again(self, record: Record, inputs: Inputs) -> tuple[str, list[Record]]:
        """Measure a record of this experiment again; only finished trainings are reused, and scored again.

        Returns:
            how it was measured, in words, and the records.

        Raises:
            Unfinished, ValueError: as ``measure``; or the record's plan or data differ from those of a run here.
        """

    @abstractmethod
    def tables(self, records: Sequence[Record]) -> list:
        """``report.tables.Table`` of its records, those of the largest scale first."""

    def charts(self, records: Sequence[Record]) -> list:
        """``report.charts.Chart`` or ``Heat`` of its records."""
        return []

    def paper_cells(self, records: Sequence[Record]) -> Iterable:
        """``(paper.PaperCell, [paper.CellResult, ...])`` for each cell of a table of the paper."""
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
            ValueError: the experiment has no such scale, or an input is missing or not read.
        """
        if scale not in NAMES:
            raise ValueError(f"unknown --scale {scale!r}; choose from {', '.join(NAMES)}")
        if scale not in self.scales:
            raise ValueError(f"{self.name} has no scale {scale}; choose from {', '.join(self.scales)}")
        _check_inputs(self.name, inputs, self.reads)

    def check_paper_inputs(self, inputs: Inputs) -> None:
        """As ``check``, at the paper's scale, where finetuning reads no text.

        Raises:
            ValueError: also if the experiment has no paper scale.
        """
        if self.paper_scale is None:
            raise ValueError(f"{self.name} has no scale paper; choose from {', '.join(self.scales)}")
        _check_inputs(self.name, inputs, self.paper_scale.reads)

    def check_ledger(self, scale: str, inputs: Inputs, records: Sequence[Record]) -> None:
        """Check, before hours of training, that existing records match the current plan, data and runs.

        Raises:
            ValueError: a record does not.
        """
        for record in ledger.select_reproduced(records, self.name, scale):
            self.check_same(record, inputs)
            if not self.resumes_from_records and not self.has_runs(record, inputs):
                raise ValueError(
                    f"{record.identifier} exists, but some of its runs are missing from {inputs.folder}; "
                    f"measure it again with --verify {record.identifier}, or use another --results"
                )

    def check_same(self, record: Record, inputs: Inputs) -> None:
        """
        Raises:
            ValueError: the record's plan is not the current one, or its data are not the inputs.
        """

    def has_runs(self, record: Record, inputs: Inputs) -> bool:
        """Whether the runs behind a record are all finished here."""
        return True

    def finished_runs(self, scale: str, inputs: Inputs) -> list[str]:
        """Names of the runs that ``measure`` would reuse."""
        return []

    # Commands

    def reproduce(self, scale: str, inputs: Inputs, folder, command: str, replace: str | None = None) -> str:
        """Measure, write the records, and report the verdicts; or say what is left.

        Args:
            folder: the ledger.
            replace: the reason for measuring existing records again; they move to the archive.

        Raises:
            ValueError: as ``check``, ``check_ledger`` or ``superseded.begin``, ``measure`` and ``publish``.
        """
        self.check(scale, inputs)
        records, runs = ledger.read_folder(folder), inputs.folder / scale if self.has_run_folders else None
        earlier = ledger.select_reproduced(records, self.name, scale)
        if replace is None:
            self.check_ledger(scale, inputs, records)
            if self.resumes_from_records:
                inputs = inputs.with_recorded(earlier)
        else:
            superseded.begin(earlier, self.finished_runs(scale, inputs), runs, self.name)
        check_can_be_written(inputs.folder)
        try:
            found = self.measure(scale, inputs, command)
        except Unfinished as left:
            finished = left.records if replace is None else []  # earlier records are replaced by all new ones, or none
            return "\n".join([*(f"ledger: {ledger.put(record, folder)}" for record in finished), str(left)])
        text = self.publish(found, scale, folder, replace)
        superseded.end(runs, self.name)
        return text

    def publish(self, found: Sequence[Record], scale: str, folder, replace: str | None = None) -> str:
        """Write records and report the verdicts, of all records in the ledger.

        Raises:
            ValueError: as ``records.put`` and ``superseded.supersede``.
        """
        lines = []
        for record in found:
            if replace is not None and (Path(folder) / f"{record.identifier}.json").exists():
                lines.append(f"ledger: {superseded.supersede(record, replace, folder)}")
            else:
                lines.append(f"ledger: {ledger.put(record, folder)}")
        for claim, verdict in self.evaluate(ledger.read_folder(folder), scale):
            lines.append(f"{claim.identifier}: {verdict.outcome} at scale {scale}. {claim.statement}")
            lines += [f"  {number}" for number in verdict.numbers]
        return "\n".join(lines)

    def evaluate(self, records: Sequence[Record], scale: str) -> list[tuple[Claim, Verdict]]:
        """The verdict of each claim at a scale."""
        return [(claim, claim.verdict(records, scale)) for claim in self.claims]

    # The report

    def shown(self, records: Sequence[Record], used: Sequence[str]) -> list[Record]:
        """Its records and those its verdicts used, the largest scale and the deepest model first, without ``smoke``,
        which is too small to test a claim.

        Args:
            used: identifiers.
        """
        mine = (self.name, *self.shows)
        found = [
            r
            for r in records
            if r.scale != "smoke" and (r.identifier in used or (r.experiment in mine and not is_context(r)))
        ]
        return sorted(found, key=lambda r: (-NAMES.index(r.scale), -r.configuration.get("layers", 0), r.identifier))

    def context(self, records: Sequence[Record]) -> list[Record]:
        """Earlier measurements at sizes that were not fixed in advance; shown without a verdict."""
        return [record for record in records if record.experiment == self.name and is_context(record)]


class UntrainedExperiment(Experiment):
    """An experiment that trains nothing and writes only its records."""

    has_run_folders = False

    def check(self, scale: str, inputs: Inputs) -> None:
        super().check(scale, inputs)
        inputs.reject(("runs", "minutes"), self.name, "it trains nothing, so there is nothing to resume")

    def measure_again(self, record: Record, inputs: Inputs) -> tuple[str, list[Record]]:
        self.check(record.scale, inputs)
        self.check_same(record, inputs)
        return "measured again", self.measure(record.scale, inputs, record.command)


def _check_inputs(name: str, inputs: Inputs, reads: Sequence[str]) -> None:
    for option, command in (("data", "pretraining"), ("tasks", "TASK")):
        value, needed = getattr(inputs, option), option in reads
        if needed and value is None:
            raise ValueError(f"{name} needs --{option}, a folder written by `fairseq-linformer prepare {command}`")
        if value is not None and not needed:
            raise ValueError(f"{name} takes no --{option} at this scale, got {value}")
    for option, kind in (("encoder", "a model of transformers on the hub or in a folder"), ("source", "a text")):
        value, needed = getattr(inputs, option), option in reads
        if needed and value is None:
            raise ValueError(f"{name} needs --{option}, {kind}")
        if value is not None and not needed:
            raise ValueError(f"{name} takes no --{option}, got {value if option == 'encoder' else ', '.join(value)}")


def check_configuration(record: Record, current: Mapping[str, Any]) -> None:
    """
    Raises:
        ValueError: a value of the current configuration, as JSON holds it, is not the record's.
    """
    for key, value in json.loads(json.dumps(current)).items():
        if record.configuration.get(key) != value:
            raise ValueError(f"{record.identifier} was measured with another {key}; use another --results")


def is_context(record: Record) -> bool:
    return record.made_by in ("script", "finetune")


@cache
def experiments() -> tuple[Experiment, ...]:
    """All experiments, in the order of the report.

    Raises:
        ValueError: a file of ``MODULES`` cannot be imported or defines none, or a name is defined twice.
    """
    found: list[Experiment] = []
    for name in MODULES:
        try:
            found += import_module(f".experiments.{name}", __package__).EXPERIMENTS
        except (AttributeError, ImportError, TypeError) as error:
            raise ValueError(
                f"experiments/{name}.py defines no tuple EXPERIMENTS: {type(error).__name__}: {error}"
            ) from error
    for names in ([each.name for each in found], [claim.identifier for each in found for claim in each.claims]):
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"names of experiments and claims must be unique, got {', '.join(sorted(twice))} twice")
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
        ValueError: the folder does not exist, or a file in it is not a record.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"--results must be an existing folder, got {folder}")
    records, lines = ledger.read_folder(folder), []
    for each in experiments():
        for scale in each.scales:
            made = [r.identifier for r in ledger.select_reproduced(records, each.name, scale)]
            lines.append(f"{each.name:12} {scale:6} {each.cost(scale):60} {', '.join(made) or 'not measured'}")
        used = {name for scale in SCALES for _, verdict in each.evaluate(records, scale) for name in verdict.records}
        others = sorted(
            r.identifier
            for r in records
            if r.identifier in used and (r.experiment, r.made_by) != (each.name, "reproduce")
        )
        if others:
            lines.append(f"{each.name:12} {'':6} {'measured by other commands':60} {', '.join(others)}")
    return lines
