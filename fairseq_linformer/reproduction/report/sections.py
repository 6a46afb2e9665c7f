"""The report's content: each experiment's verdicts by scale, records, tables and charts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..records import Record
from ..registry import Claim, Experiment
from ..scales import NAMES
from ..statistics import UNMEASURED, Verdict, not_measured
from .charts import Chart, Heat
from .tables import Table

SHORT = 2
"""How many numbers of a verdict fit into a cell."""


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


@dataclass(frozen=True)
class ClaimVerdicts:
    """A claim with its verdict at each scale that has records.

    Attributes:
        verdicts: the largest scale first; one "not measured" if there are no records.
        earlier_rules: how the rule read when the first run of a record began, where it reads differently today.
    """

    claim: Claim
    verdicts: list[ScaleVerdict]
    earlier_rules: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """For a cell: ``**holds** (cpu)``."""
        return "; ".join(f"**{each.verdict.outcome}**" + f" ({each.label})" * bool(each.label) for each in self.verdicts)

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
    """All of one experiment."""

    experiment: Experiment
    claims: list[ClaimVerdicts]
    records: list[Record]
    context: list[Record]
    tables: list[Table]
    charts: list[Chart | Heat]
    context_tables: list[Table]
    context_charts: list[Chart | Heat]

    @property
    def command(self) -> str:
        """That measures it."""
        options = "".join(f" --{option} FOLDER" for option in self.experiment.reads)
        return f"fairseq-linformer reproduce {self.experiment.name}{options}"


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
        shown, context = experiment.shown(records, used), experiment.context(records)
        return Section(experiment, claims, shown, context, experiment.tables(shown), experiment.charts(shown),
                       experiment.context_tables(context), experiment.context_charts(context))  # fmt: skip
    except Exception as error:  # a record may be sealed and still hold what a rule does not expect
        names = ", ".join(record.identifier for record in mine) or "no records"
        raise ValueError(f"{experiment.name} cannot be reported from {names}: {type(error).__name__}: {error}") from error


def _verdicts(claim: Claim, records: Sequence[Record]) -> ClaimVerdicts:
    scales = [scale for scale in reversed(NAMES) if scale != "smoke"]
    found = [(scale, verdict) for scale in scales if (verdict := claim.evaluate(records, scale)).outcome != UNMEASURED]
    used = {name for _, verdict in found for name in verdict.records}
    earlier: dict[str, list[str]] = {}
    for record in records:
        if record.identifier in used and record.rules is not None:
            rule = record.rules.get(claim.identifier, "there was no rule of this claim.")
            earlier.setdefault(rule, []).append(record.identifier)
    notes = [f"When {', '.join(names)} {'were' if names[1:] else 'was'} begun: {rule}"
             for rule, names in earlier.items() if rule != claim.rule]  # fmt: skip
    verdicts = [ScaleVerdict(scale, _shared_n(r for r in records if r.identifier in verdict.records), verdict) for scale, verdict in found]
    return ClaimVerdicts(claim, verdicts or [ScaleVerdict("", None, not_measured("at any scale"))], notes)


def _shared_n(used: Iterable[Record]) -> int | None:
    """The n of all records' models; None where there are several, or none."""
    lengths = {n for record in used if (n := common_n(record)) is not None}
    return lengths.pop() if len(lengths) == 1 else None


def common_n(record: Record) -> int | None:
    """The n of a record's models; None where they differ in n, or have none."""
    configuration = record.configuration
    if len({m.n for m in record.measurements if m.n is not None}) > 1:
        return None
    return configuration.get("n") or configuration.get("model", {}).get("max_positions")


def claims_table(sections: Sequence[Section]) -> Table:
    """A row per claim: its verdict, and the first decisive numbers, at each scale."""
    claims = [each for section in sections for each in section.claims]
    rows = [[each.claim.where, each.claim.statement, each.outcome, each.short_numbers] for each in claims]
    return Table(["where", "claim", "verdict (scale)", "numbers"], rows, links=[f"claim-{each.claim.identifier}" for each in claims])


def circumstances(record: Record) -> str:
    """Scale, hardware, date and commit, in a line."""
    return f"{record.scale} scale; {machine(record)}; {record.date}; commit {short_commit(record)}"


def machine(record: Record) -> str:
    h = record.hardware
    accelerators = h.get("accelerators") or []
    many = f", {len(accelerators)} x {accelerators[0]}" if accelerators else ""
    return f"{h.get('processor', 'unknown processor')}, {h.get('cores', '?')} cores{many}"


def short_commit(record: Record) -> str:
    """Twelve digits of each commit."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28}\b", r"\1", record.commit)
