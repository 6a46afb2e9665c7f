"""The report's content: each experiment's verdicts by scale, records, tables and charts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import shorten

from ..claim import Claim
from ..experiment import Experiment
from ..records import Record
from ..scales import NAMES
from ..statistics import UNDECIDED, UNMEASURED, Verdict, not_measured
from .charts import Chart, Heat
from .tables import Table

SHORT = 2
"""The most numbers of a verdict in a cell."""
DEFAULT_SCALE = "cpu"
"""Of ``fairseq-linformer reproduce``."""
_PLACEHOLDERS = {"encoder": "NAME", "source": "TEXT"}
"""Values of options that take no folder of prepared data."""


@dataclass(frozen=True)
class ScaleVerdict:
    """
    Attributes:
        scale: empty for a claim that is measured at none.
        n: of the models, where they share one.
    """

    scale: str
    n: int | None
    verdict: Verdict

    @property
    def label(self) -> str:
        """``cpu, n = 64``."""
        return self.scale if self.n is None else f"{self.scale}, n = {self.n}"

    @property
    def outcome(self) -> str:
        """For a cell: ``**holds** (cpu, n = 64)``."""
        return f"**{self.verdict.outcome}**" + f" ({self.label})" * bool(self.label)


@dataclass(frozen=True)
class ClaimVerdicts:
    """A claim with its verdict at each scale that has records.

    Attributes:
        verdicts: the largest scale first; one "not measured" if there are no records.
    """

    claim: Claim
    verdicts: list[ScaleVerdict]

    @property
    def outcome(self) -> str:
        """For a cell: the outcome at each scale."""
        return "; ".join(each.outcome for each in self.verdicts)

    @property
    def short_numbers(self) -> str:
        """The first decisive numbers of each verdict."""
        parts = []
        for each in self.verdicts:
            if each.verdict.outcome != UNMEASURED:
                numbers = each.verdict.deciding
                parts.append("; ".join(numbers[:SHORT]) + f"; {len(numbers) - SHORT} more" * (len(numbers) > SHORT))
        return " / ".join(parts)


@dataclass(frozen=True)
class Section:
    """Everything about one experiment."""

    experiment: Experiment
    claims: list[ClaimVerdicts]
    records: list[Record]
    earlier: list[Record]
    tables: list[Table]
    charts: list[Chart | Heat]
    earlier_tables: list[Table]
    earlier_charts: list[Chart | Heat]

    @property
    def command(self) -> str:
        """The command that measures it, at its largest scale if it has no scale ``cpu``."""
        scales = self.experiment.scales
        scale = "" if DEFAULT_SCALE in scales else f" --scale {scales[-1]}"
        options = "".join(f" --{option} {_PLACEHOLDERS.get(option, 'FOLDER')}" for option in self.experiment.reads)
        return f"fairseq-linformer reproduce {self.experiment.name}{scale}{options}"


def sections_of(records: Sequence[Record], experiments: Iterable[Experiment]) -> list[Section]:
    """A section per experiment, in their order.

    Raises:
        ValueError: an experiment fails on its records, which it names.
    """
    return [_section(records, experiment) for experiment in experiments]


def _section(records: Sequence[Record], experiment: Experiment) -> Section:
    mine = [record for record in records if record.experiment == experiment.name]
    try:
        claims = [_verdicts(claim, records) for claim in experiment.claims]
        used = [name for each in claims for at_scale in each.verdicts for name in at_scale.verdict.records]
        shown, earlier = experiment.shown(records, used), experiment.select_earlier(records)
        return Section(
            experiment,
            claims,
            shown,
            earlier,
            experiment.tables(shown),
            experiment.charts(shown),
            experiment.earlier_tables(earlier),
            experiment.earlier_charts(earlier),
        )
    except Exception as error:  # a record may be sealed and still contain what a rule does not expect
        names = ", ".join(record.identifier for record in mine) or "no records"
        raise ValueError(
            f"{experiment.name} cannot be reported from {names}: {type(error).__name__}: {error}"
        ) from error


def _verdicts(claim: Claim, records: Sequence[Record]) -> ClaimVerdicts:
    found: list[ScaleVerdict] = []
    for scale in reversed(NAMES):
        verdict = claim.verdict(records, scale)
        if scale == "smoke" or verdict.outcome == UNMEASURED:
            continue
        used = [record for record in records if record.identifier in verdict.records]
        found.append(ScaleVerdict(scale, _shared_n(used), verdict))
    return ClaimVerdicts(claim, found or [ScaleVerdict("", None, not_measured("at any scale"))])


def _shared_n(used: Iterable[Record]) -> int | None:
    """The n of all records' models; None where there are several, or none."""
    lengths = {n for record in used if (n := common_n(record)) is not None}
    return lengths.pop() if len(lengths) == 1 else None


def common_n(record: Record) -> int | None:
    """The n of a record's models; None where they differ in n, or have none."""
    configuration = record.configuration
    lengths = {m.n for m in record.measurements if m.n is not None}
    if len(lengths) > 1:
        return None
    return configuration.get("n") or configuration.get("model", {}).get("max_positions") or next(iter(lengths), None)


def claims_table(sections: Sequence[Section]) -> Table:
    """A row per claim: its verdict and the first decisive numbers at each scale."""
    claims = [each for section in sections for each in section.claims]
    rows = [[each.claim.where, each.claim.statement, each.outcome, each.short_numbers] for each in claims]
    return Table(
        ["where", "claim", "verdict (scale)", "numbers"],
        rows,
        links=[f"claim-{each.claim.identifier}" for each in claims],
    )


LONGEST_EVIDENCE = 120
"""The most characters of a number in the README's table."""


def readme_table(sections: Sequence[Section]) -> Table:
    """A short line per claim: its verdict and the first decisive number, without the name of its record. Claims of this
    project are omitted until there is enough evidence; the paper's are not."""
    every = [each for section in sections for each in section.claims]
    claims = [
        each
        for each in every
        if not each.claim.where.startswith("this project")
        or any(each_verdict.verdict.outcome not in (UNMEASURED, UNDECIDED) for each_verdict in each.verdicts)
    ]
    rows = [
        [each.claim.statement, each.claim.where, each.outcome, _evidence(each.verdicts[0].verdict)] for each in claims
    ]
    return Table(["claim", "where", "verdict (scale)", "evidence"], rows)


def _evidence(verdict: Verdict) -> str:
    """The first decisive number, without the name of its record; empty if there is none."""
    text = next(iter(verdict.deciding), "")
    for name in verdict.records:
        text = text.removeprefix(f"{name}: ")
    return shorten(text, LONGEST_EVIDENCE, placeholder=" ...")


def describe_circumstances(record: Record) -> str:
    """Scale, hardware, date and commit, in a line."""
    return f"{record.scale} scale; {machine(record)}; {record.date}; commit {record.commit}"


def machine(record: Record) -> str:
    h = record.hardware
    accelerators = h.get("accelerators") or []
    many = f", {len(accelerators)} x {accelerators[0]}" if accelerators else ""
    return f"{h.get('processor', 'unknown processor')}, {h.get('cores', '?')} cores{many}"
