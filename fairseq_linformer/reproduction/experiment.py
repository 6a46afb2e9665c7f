"""The interface of an experiment: its claims, its measurement, and its section of the report.

``registry.py`` lists the experiments. Each is a table, figure or theorem of the paper, or a claim of this project.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from ..files import check_can_be_written
from . import ledger
from .claim import Claim
from .inputs import Inputs, check_inputs
from .records import Record
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
    """

    name: str
    title: str
    claims: tuple[Claim, ...]
    scales: tuple[str, ...]
    reads: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    paper_scale: PaperScale | None = None

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

    # Inputs, before anything is measured

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

    # Commands

    def reproduce(self, scale: str, inputs: Inputs, folder, command: str) -> str:
        """Measure, write the records, and report the verdicts; or say what is left.

        Args:
            folder: the ledger.

        Raises:
            ValueError: as ``check``, ``measure`` and ``publish``.
        """
        self.check(scale, inputs)
        check_can_be_written(inputs.folder)
        try:
            found = self.measure(scale, inputs, command)
        except Unfinished as left:
            return "\n".join([*(f"ledger: {ledger.put(record, folder)}" for record in left.records), str(left)])
        return self.publish(found, scale, folder)

    def publish(self, found: Sequence[Record], scale: str, folder) -> str:
        """Write records, over earlier ones, and report the verdicts of all records in the ledger.

        Raises:
            ValueError: as ``ledger.put``.
        """
        lines = [f"ledger: {ledger.put(record, folder)}" for record in found]
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


def is_without_verdict(record: Record) -> bool:
    return record.made_by in ("script", "finetune")
