"""The interface of an experiment: its claims, its measurement, and its section of the report.

``registry.py`` lists the experiments. Each is a table, figure or theorem of the paper, or a claim of this project.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..files import check_can_be_written
from . import ledger, superseded
from .claim import Claim
from .inputs import Inputs, check_inputs
from .records import Record, as_json, select_reproduced
from .scales import NAMES
from .statistics import Verdict


class Unfinished(Exception):
    """The time budget is spent. The message names what is left; rerunning the command resumes.

    Attributes:
        records: those of finished members.
    """

    def __init__(self, message: str, records: Sequence[Record] = ()):
        super().__init__(message)
        self.records = list(records)


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
        claims: the claims it tests.
        scales: at which it can be run, some of ``scales.NAMES``.
        reads: options it needs: ``data``, ``tasks``, ``encoder``, ``source``.
        shows: other experiments whose records its section shows too.
        paper_scale: how Slurm trains it at the paper's scale; None if it does not.
        has_run_folders: whether it writes runs or cells, which a rerun resumes.
        resumes_from_records: whether it measures only what has no record yet, so that hours of work can be spread over
            machines that share the ledger but not the runs. Each of its records is of one member: a model, or a model
            on a task.
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

    def earlier_tables(self, records: Sequence[Record]) -> list:
        """As ``tables``, of ``select_earlier``."""
        return self.tables(records) if records else []

    def earlier_charts(self, records: Sequence[Record]) -> list:
        """As ``charts``, of ``select_earlier``."""
        return []

    # Inputs and ledger, before anything is measured

    def check(self, scale: str, inputs: Inputs) -> None:
        """
        Raises:
            ValueError: the experiment has no such scale, or an input is missing, or set but not read.
        """
        if scale not in NAMES:
            raise ValueError(f"unknown --scale {scale!r}; choose from {', '.join(NAMES)}")
        if scale not in self.scales:
            raise ValueError(f"{self.name} has no scale {scale}; choose from {', '.join(self.scales)}")
        check_inputs(self.name, inputs, self.reads)

    def check_paper_inputs(self, inputs: Inputs) -> None:
        """As ``check``, at the paper's scale, where finetuning reads no text.

        Raises:
            ValueError: also if the experiment has no paper scale.
        """
        if self.paper_scale is None:
            raise ValueError(f"{self.name} has no scale paper; choose from {', '.join(self.scales)}")
        check_inputs(self.name, inputs, self.paper_scale.reads)

    def check_ledger(self, scale: str, inputs: Inputs, records: Sequence[Record]) -> None:
        """Check, before hours of training, that existing records match the current plan, data and runs.

        Raises:
            ValueError: a record does not.
        """
        for record in select_reproduced(records, self.name, scale):
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
        earlier = select_reproduced(records, self.name, scale)
        if replace is None:
            self.check_ledger(scale, inputs, records)
            if self.resumes_from_records:
                inputs = inputs.with_recorded(earlier)
        else:
            superseded.begin(earlier, self.finished_runs(scale, inputs), runs, self.name, replace)
        check_can_be_written(inputs.folder)
        try:
            found = self.measure(scale, inputs, command)
        except Unfinished as left:
            finished = left.records if replace is None else []  # earlier records are replaced by all new ones, or none
            return "\n".join([*(f"ledger: {ledger.put(record, folder)}" for record in finished), str(left)])
        text = self.publish(found, scale, folder, replace)
        if replace is not None:
            superseded.end(runs, self.name)
        return text

    def publish(self, found: Sequence[Record], scale: str, folder, replace: str | None = None) -> str:
        """Write records and report the verdicts, of all records in the ledger.

        Raises:
            ValueError: as ``ledger.put`` and ``superseded.supersede``.
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
        """The records that its section shows: its own and those its verdicts used, none of scale ``smoke``. The largest
        scale is first, then the deepest model.

        Args:
            used: identifiers.
        """
        mine = (self.name, *self.shows)
        found = [
            r
            for r in records
            if r.scale != "smoke" and (r.identifier in used or (r.experiment in mine and not is_without_verdict(r)))
        ]
        return sorted(found, key=lambda r: (-NAMES.index(r.scale), -r.configuration.get("layers", 0), r.identifier))

    def select_earlier(self, records: Sequence[Record]) -> list[Record]:
        """Earlier measurements at sizes that were not fixed in advance; shown without a verdict."""
        return [record for record in records if record.experiment == self.name and is_without_verdict(record)]


def check_same_plan(
    record: Record, plan: Mapping[str, Any], data: str | None = None, stored: Mapping[str, Any] | None = None
) -> None:
    """
    Args:
        plan: the part of the configuration that is fixed before the measurement.
        data: the files read here; None if they are part of the plan.
        stored: the record's plan with the options that it lacks; None for its configuration.

    Raises:
        ValueError: a record is of another plan or of other data.
    """
    stored = record.configuration if stored is None else stored
    for key, value in as_json(plan).items():
        if stored.get(key) != value:
            raise ValueError(
                f"{record.identifier} does not match the current plan of {record.experiment} at scale {record.scale}: "
                f"{key!r} differs; check out the record's commit, {record.commit}, or use another --results"
            )
    if data is not None and record.data != data:
        raise ValueError(
            f"{record.identifier} was measured on other data, {record.data}, not on {data}; use another --results"
        )


def describe_reuse(done: Sequence[bool], how: str = "scored again") -> str:
    """What ``measure_again`` reused.

    Args:
        done: whether each run was finished before.
        how: what happened to these.
    """
    if not any(done):
        return "trained again"
    retrained = f", and {done.count(False)} trained again" if not all(done) else ""
    return f"from {sum(done)} finished run{'s' * (sum(done) > 1)}, {how}{retrained}"


def is_without_verdict(record: Record) -> bool:
    return record.made_by in ("script", "finetune")
