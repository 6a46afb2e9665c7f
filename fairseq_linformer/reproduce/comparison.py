"""Trained models compared by their perplexities.

Seed by seed where the entry has them (``NAME, seed 1: bits``): of the ratios of their perplexities the 95 % interval by Student's t of
their logarithms. Else the lowest and the highest over seeds of both must not overlap.
"""

import math
from dataclasses import dataclass
from typing import List, Optional, Sequence

from scipy.special import stdtrit

from .ledger import Entry
from .verdict import BELOW_PLATEAU, SEEDS, UNDECIDED, Part, Verdict, interval, judged, told, together, within

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Asked:
    """What a rule asks of an entry of trained models.

    Attributes:
        names: of the models that it is about.
        parts: what is asked of them.
        controls: the RoBERTas that must have learnt from context.
        beside: told, and decides nothing.
    """

    names: List[str]
    parts: List[Part]
    controls: Sequence[str] = ("roberta",)
    beside: Sequence[str] = ()


@dataclass(frozen=True)
class Ratio:
    """Of the perplexities of two models, with its interval."""

    value: float
    low: float
    high: float
    said: str
    """Of what, and what kind of interval."""

    @property
    def told(self) -> str:
        return f"{self.said}: {self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


def entry_of(entries: Sequence[Entry], experiment: str, scale: str) -> Optional[Entry]:
    """The entry of a training experiment at a scale."""
    return next((e for e in entries if e.identifier == f"{experiment}-{scale}" and e.scale == scale), None)


def seeds_of(entry: Entry, name: str) -> List[float]:
    """Bits of a model by seed, the first seed first; empty if the entry has but their median."""
    found = []
    while (m := entry.measured.get(f"{name}, seed {len(found) + 1}: bits")) is not None:
        found.append(m.value)
    return found


def ratio(entry: Entry, a: str, b: str) -> Optional[Ratio]:
    """The perplexity of ``a`` over that of ``b``; None if the entry has one of them not."""
    said = f"perplexity of {a}{_budget(entry, a)} over that of {b}"
    x, y = seeds_of(entry, a), seeds_of(entry, b)
    if len(x) == len(y) >= 2:
        logs = [(p - q) * math.log(2) for p, q in zip(x, y)]
        mean = sum(logs) / len(logs)
        t = float(stdtrit(len(logs) - 1, (1 + CONFIDENCE) / 2))
        half = t * math.sqrt(sum((v - mean) ** 2 for v in logs) / (len(logs) - 1) / len(logs))
        return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), f"{said}, mean of {len(logs)} seeds and 95 % interval")
    ours, theirs = (entry.measured.get(f"{name}: perplexity") for name in (a, b))
    if ours is None or theirs is None:
        return None
    (low, high), (low_b, high_b) = interval(ours), interval(theirs)
    return Ratio(ours.value / theirs.value, low / high_b, high / low_b, f"{said}, medians, and lowest to highest of any two runs")


def _budget(entry: Entry, name: str) -> str:
    """How long a model that was converted had to become another, and from which start of E and F: what it costs depends on that."""
    run = entry.configuration.get("runs", {}).get(name, {})
    if not str(run.get("made")).startswith("converted"):
        return ""
    start = run.get("model", {}).get("start")
    return f", {run['updates']:,} updates after its conversion" + f" (E and F: {start})" * bool(start) + ","


def at_most(entry: Entry, a: str, b: str, factor: float = 1.0) -> Part:
    """The perplexity of ``a`` is at most ``factor`` times that of ``b``."""
    r = ratio(entry, a, b)
    return _without(entry, a, b) if r is None else judged(r.value, r.low, r.high, factor, r.said)


def about(entry: Entry, a: str, b: str, factor: float) -> Part:
    """The perplexity of ``a`` is at most ``factor`` times that of ``b``, and at least that over ``factor``."""
    r = ratio(entry, a, b)
    return _without(entry, a, b) if r is None else within(r.value, r.low, r.high, (1 / factor, factor), r.said)


def _without(entry: Entry, a: str, b: str) -> Part:
    missing = next(name for name in (a, b) if f"{name}: perplexity" not in entry.measured)
    return Part(UNDECIDED, f"{entry.identifier} has no perplexity of {missing}")


def in_order(entry: Entry, names: Sequence[str]) -> List[Part]:
    """Each model has at most the perplexity of the one before it."""
    return [at_most(entry, after, before) for before, after in zip(names, names[1:])]


def grounds(entry: Entry, names: Sequence[str], controls: Sequence[str] = ("roberta",)) -> List[Part]:
    """What a comparison of trained models rests on: enough seeds, and RoBERTas that have learnt from context. Only what is missing.

    Args:
        controls: the RoBERTas. Of ``roberta n=128`` the plateau is ``plateau n=128: bits``, or the common one where there is none.
    """
    parts = []
    for name in dict.fromkeys([*controls, *names]):
        m = entry.measured.get(f"{name}: perplexity")
        if m is None:
            parts.append(Part(UNDECIDED, f"{entry.identifier} has no perplexity of {name}"))
        elif m.repetitions < SEEDS:
            parts.append(Part(UNDECIDED, f"{name} has {m.repetitions} seeds; {SEEDS} are wanted"))
    for name in controls:
        bits = entry.measured.get(f"{name}: bits")
        plateau = entry.measured.get(f"{name.replace('roberta', 'plateau')}: bits") or entry.measured.get("plateau: bits")
        called = name.replace("roberta", "RoBERTa")
        if bits is None or plateau is None:
            parts.append(Part(UNDECIDED, f"{entry.identifier} does not say how far {called} is below a model without context"))
        elif plateau.value - interval(bits)[1] < BELOW_PLATEAU:
            below = f"{called} is {plateau.value - interval(bits)[1]:.2f} bits below a model without context"
            parts.append(Part(UNDECIDED, f"{below}; {BELOW_PLATEAU:g} are wanted"))
    return parts


def _of_other_code(entry: Entry, asked: Asked) -> List[str]:
    """Models that were trained days apart may differ by what changed in the code; a reader is told."""
    commits = {name: said for name, said in entry.configuration.get("commits", {}).items() if name in (*asked.controls, *asked.names)}
    if len(set(commits.values())) < 2:
        return []
    told = (f"{name} at {', '.join(commit[:8] for commit in said.split('; '))}" for name, said in commits.items())
    return [f"not all were trained at the same commit: {'; '.join(told)}"]


def of_training(entry: Entry, asked: Asked) -> Verdict:
    """The verdict on trained models: without grounds the numbers are told, and decide nothing."""
    missing = grounds(entry, asked.names, asked.controls)
    said = [f"{name}: perplexity {told(entry.measured[f'{name}: perplexity'])}" for name in dict.fromkeys([*asked.controls, *asked.names])
            if f"{name}: perplexity" in entry.measured]  # fmt: skip
    verdict = together([*dict.fromkeys([*missing, *asked.parts])], [entry], [*asked.beside, *_of_other_code(entry, asked), *said])
    return Verdict(UNDECIDED if missing else verdict.outcome, verdict.parts, verdict.entries, verdict.beside)
