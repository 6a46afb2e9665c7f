"""What the report says, before it is a page or Markdown: verdicts by scale, sections, and which entries stand in which."""

import re
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Sequence, Tuple

from ..claims import ELSEWHERE, Claim
from ..ledger import SCALES, Entry
from ..training_plan import EXPERIMENTS as TRAINED
from ..verdict import UNMEASURED, Verdict, not_measured
from . import figures, of_paper
from .figures import Drawn
from .tables import Table

OF_EXPERIMENT: Dict[str, Tuple[str, ...]] = {
    "table-1": ("benchmark-scaling-",), "table-3": ("benchmark-inference-",), "figure-2": ("benchmark-pertoken-", "benchmark-scaling-"),
    "figure-1": ("spectrum-roberta",), "theorem-1": ("theorem-1",), "theorem-2": ("theorem-2",),
}  # fmt: skip
"""What entries of an experiment are called, other than ``EXPERIMENT-SCALE``, where another command measures them too."""
BESIDE: Dict[str, Tuple[str, ...]] = {
    "figure-3a": ("projections-dimension",), "figure-3c": ("projections-sharing",), "figure-3d": ("projections-longer",),
    "scratch": ("real-text-pretraining-n64",), "warm-start": ("real-text-pretraining-n512", "projections-cold"),
    "projections": ("projections-kinds",), "starts": ("projections-starts", "projections-closing"), "table-2": ("finetuning-",),
}  # fmt: skip
"""Earlier entries about the same thing, shown beside it; no verdict is made of them. What ends in a hyphen is how several begin. (Of the
starts, the window averages that the others are to be compared with are in the second.)"""
FEW = 2
"""So many numbers of a verdict stand in a cell."""
TITLES = {"table-2": "Table 2", "operations": "Table 1, in operations", "parameters": "Shared projections", "scratch": "Training from scratch",
          "warm-start": "Warm start", "projections": "General projections",
          "starts": "How E and F start", "growing": "Growing to a longer n"}
"""Of sections that are no table, figure or theorem of the paper, or share one."""
_SYMBOLS = {"holds": "✓", "does not hold": "✗", "not enough evidence": "~", "not measured": "?"}


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict at each scale at which there is something."""

    claim: Claim
    verdicts: List[Tuple[str, Verdict]]
    """(scale, verdict), the largest scale first; one that says "not measured" at no scale if there is none. A scale of models
    whose n is not that of the claim says it: ``cpu, n = 64``."""
    rules: List[str] = field(default_factory=list)
    """How the rule read when the first run of an entry began, where that is not how it reads today."""

    @property
    def outcome(self) -> str:
        """For a cell: ``holds (cpu)``, loud where nothing was measured."""
        return "; ".join(f"**{v.outcome}**" + (f" ({scale})" if scale else "") for scale, v in self.verdicts)


@dataclass(frozen=True)
class Section:
    """All of one experiment."""

    experiment: str
    title: str
    claims: List[Judged]
    entries: List[Entry]
    beside: List[Entry]

    @property
    def charts(self) -> List[Drawn]:
        return figures.of_experiment(self.experiment, self.entries)

    @property
    def tables(self) -> List[Table]:
        return of_paper.of_experiment(self.experiment, self.entries)

    @property
    def charts_beside(self) -> List[Drawn]:
        return figures.of_experiment("", self.beside)

    @property
    def tables_beside(self) -> List[Table]:
        return of_paper.of_experiment("", self.beside)


def sections(entries: Sequence[Entry], claims: Iterable[Claim]) -> List[Section]:
    """The claims by experiment, in their order, judged."""
    by_experiment: Dict[str, List[Judged]] = {}
    for claim in claims:
        by_experiment.setdefault(claim.experiment, []).append(judged(claim, entries))
    return [Section(experiment, TITLES.get(experiment) or _title([j.claim for j in of_it]), of_it, _entries(experiment, of_it, entries),
                    _beside(experiment, entries)) for experiment, of_it in by_experiment.items()]  # fmt: skip


def _scales() -> List[str]:
    """The largest first, without ``smoke``: there nothing is learnt, and no verdict comes of it."""
    return [scale for scale in reversed(SCALES) if scale != "smoke"]


def judged(claim: Claim, entries: Sequence[Entry]) -> Judged:
    verdicts = [(scale, claim.judge(entries, scale)) for scale in _scales()]
    found = [(_with_n(scale, verdict, entries), verdict) for scale, verdict in verdicts if verdict.outcome != UNMEASURED]
    used = {name for _, verdict in found for name in verdict.entries}
    of_runs = [e for e in entries if e.identifier in used and e.configuration.get("experiment") in (*TRAINED, "table-2")]
    then: Dict[str, List[str]] = {}
    for e in of_runs:
        then.setdefault(e.configuration.get("rules", {}).get(claim.identifier, "there was no rule of this claim."), []).append(e.identifier)
    before = [f"When {', '.join(names)} {'were' if names[1:] else 'was'} begun: {rule}" for rule, names in then.items() if rule != claim.rule]
    return Judged(claim, found or [("", not_measured("at any scale"))], before)


def _with_n(scale: str, verdict: Verdict, entries: Sequence[Entry]) -> str:
    """Not of entries whose models differ in n: those are called by it."""
    used = [e for e in entries if e.identifier in verdict.entries and not any(name.startswith("n=") for name in e.measured)]
    n = {e.configuration.get("n") or e.configuration["model"]["max_positions"] for e in used if "n" in e.configuration or "task" in e.configuration}
    return f"{scale}, n = {n.pop()}" if len(n) == 1 else scale


def claims_table(sections: Sequence[Section]) -> Table:
    """A row for each claim: its verdict, and the first of the numbers that decide it, at each scale."""
    rows, links = [], []
    for judged in (judged for section in sections for judged in section.claims):
        numbers = []
        for _, verdict in judged.verdicts:
            if verdict.outcome != UNMEASURED:
                said = verdict.deciding
                numbers.append("; ".join(said[:FEW]) + (f"; {len(said) - FEW} more" if len(said) > FEW else ""))
        rows.append([judged.claim.where, judged.claim.says, judged.outcome, " / ".join(numbers)])
        links.append(f"claim-{judged.claim.identifier}")
    return Table(["where", "claim", "verdict (scale)", "numbers"], rows, links=links)


def command(experiment: str) -> str:
    """That measures it."""
    if experiment in ELSEWHERE:
        return ELSEWHERE[experiment]
    options = " --text FOLDER --tasks FOLDER" if experiment == "table-2" else " --text FOLDER" if experiment in TRAINED else ""
    return f"fairseq-linformer reproduce {experiment}{options}"


def symbol(outcome: str) -> str:
    """Beside the word, for eyes that look over a column."""
    return _SYMBOLS[outcome]


def _entries(experiment: str, of_it: Sequence[Judged], entries: Sequence[Entry]) -> List[Entry]:
    """Those that verdicts used, and those of the experiment or called so, the largest scale first."""
    used = {name for j in of_it for _, v in j.verdicts for name in v.entries}
    prefixes = OF_EXPERIMENT.get(experiment, ())
    found = [e for e in entries if e.scale in _scales() and (e.identifier in used or e.identifier == f"{experiment}-{e.scale}"
             or e.configuration.get("experiment") == experiment or e.identifier.startswith(prefixes))]  # fmt: skip
    return sorted(found, key=lambda e: (-SCALES.index(e.scale), -_layers(e), e.identifier))


def _layers(entry: Entry) -> int:
    """Of a benchmark: the model of most layers stands first."""
    return int(found[1]) if (found := re.search(r"-l(\d+)(-|$)", entry.identifier)) else 0


def _beside(experiment: str, entries: Sequence[Entry]) -> List[Entry]:
    return [e for name in BESIDE.get(experiment, ()) for e in entries
            if (e.identifier == name or name.endswith("-") and e.identifier.startswith(name)) and e.configuration.get("experiment") != experiment]  # fmt: skip


def _title(claims: Sequence[Claim]) -> str:
    """``Figure 1 (left), section 3; n = 512`` and ``Figure 1 (right), section 3; n = 512``: Figure 1."""
    names = [re.sub(r" \((left|right|top right)\)$", "", claim.where.split(",")[0]) for claim in claims]
    return ", ".join(dict.fromkeys(names))


def circumstances(entry: Entry) -> str:
    """Scale, hardware, date and commit, in a line."""
    return f"{entry.scale} scale; {machine(entry)}; {entry.date}; commit {commit(entry)}"


def machine(entry: Entry) -> str:
    h = entry.hardware
    accelerators = h.get("accelerators") or []
    many = f", {len(accelerators)} x {accelerators[0]}" if accelerators else ""
    return f"{h.get('processor', 'unknown processor')}, {h.get('cores', '?')} cores{many}"


def commit(entry: Entry) -> str:
    """Twelve digits of each."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28}\b", r"\1", entry.commit)
