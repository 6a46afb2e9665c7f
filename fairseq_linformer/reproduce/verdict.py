"""What the numbers say of a claim: it holds, it does not, or they cannot tell. Rules are made of the parts below."""

from dataclasses import dataclass, field
from typing import Callable, Iterable, List, Sequence, Tuple

from ..benchmark.entries import BASE_SIZE
from .ledger import Entry, Measurement

OUTCOMES = ("holds", "does not hold", "not enough evidence", "not measured")
HOLDS, FAILS, UNDECIDED, UNMEASURED = OUTCOMES
SEEDS, BELOW_PLATEAU = 3, 2.0
"""So many seeds at least, and RoBERTa so many bits below a model without context, or a comparison says nothing."""


@dataclass(frozen=True)
class Part:
    """One thing that a rule asks for: its outcome and its number in a sentence."""

    outcome: str
    said: str


@dataclass(frozen=True)
class Verdict:
    """
    Attributes:
        outcome: one of ``OUTCOMES``.
        parts: what the rule asks for, in its order.
        entries: identifiers of the ledger entries that were used.
        beside: what is told besides, and decides nothing, such as the perplexities that ratios are of.

    Raises:
        ValueError: there is no such outcome, or a verdict on nothing.
    """

    outcome: str
    parts: List[Part]
    entries: List[str]
    beside: List[str] = field(default_factory=list)

    def __post_init__(self):
        if self.outcome not in OUTCOMES:
            raise ValueError(f"outcome is {self.outcome!r}; it must be one of {', '.join(OUTCOMES)}")
        if (self.outcome == UNMEASURED) != (not self.entries):
            raise ValueError(f"{self.outcome!r} of the entries {self.entries}; only what has no entry is not measured")

    @property
    def deciding(self) -> List[str]:
        """The parts in sentences with units and effect sizes, those that decide first: what fails, then what cannot be told, then what holds."""
        order = (self.outcome, FAILS, UNDECIDED, HOLDS)
        return [part.said for part in sorted(self.parts, key=lambda part: order.index(part.outcome))]

    @property
    def numbers(self) -> List[str]:
        """All that it tells, what decides nothing at last."""
        return self.deciding + self.beside


def together(parts: Sequence[Part], entries: Iterable[Entry], beside: Sequence[str] = ()) -> Verdict:
    """All parts must hold; one that does not decides, whatever cannot be told of the others."""
    parts = list(parts) or [Part(UNDECIDED, "the entry has none of the numbers that the rule asks for")]
    found = {part.outcome for part in parts}
    outcome = next((o for o in (FAILS, UNDECIDED) if o in found), HOLDS)
    return Verdict(outcome, parts, [e.identifier for e in entries], list(beside))


def not_measured(what: str) -> Verdict:
    return Verdict(UNMEASURED, [], [], [f"there is no entry {what}"])


def of_claim(entries: Sequence[Entry], experiment: str, prefix: str, scale: str) -> List[Entry]:
    """Of the entries called ``prefix...`` at a scale those of the claim's experiment; where there are none, those of other commands at base size."""
    found = [e for e in entries if e.identifier.startswith(prefix) and e.scale == scale]
    return [e for e in found if e.configuration.get("experiment") == experiment] or [e for e in found if at_base_size(e)]


def at_base_size(entry: Entry) -> bool:
    """Of a benchmark. An entry of Table 3 has every k, and says none."""
    return all(entry.configuration.get(name, value) == value for name, value in BASE_SIZE.items())


def all_of(found: Sequence[Entry], parts_of: Callable[[Entry], List[Part]]) -> Verdict:
    """The parts of all entries together; each says its entry where several have some. An entry without parts is not named."""
    parts = {e.identifier: of_it for e in found if (of_it := parts_of(e))}
    used = [e for e in found if e.identifier in parts] or found
    several = len(parts) > 1
    return together([Part(p.outcome, f"{name}: {p.said}") if several else p for name, of_it in parts.items() for p in of_it], used)


def judged(value: float, low: float, high: float, limit: float, said: str) -> Part:
    """``value`` with its interval should be at most ``limit``."""
    outcome = HOLDS if high <= limit else FAILS if low > limit else UNDECIDED
    return Part(outcome, f"{said}: {value:.3g} ({low:.3g} to {high:.3g}), at most {limit:g} wanted")


def more_than(value: float, low: float, high: float, limit: float, said: str) -> Part:
    """``value`` with its interval should be more than ``limit``."""
    outcome = HOLDS if low > limit else FAILS if high <= limit else UNDECIDED
    return Part(outcome, f"{said}: {value:.3g} ({low:.3g} to {high:.3g}), more than {limit:g} wanted")


def within(value: float, low: float, high: float, limits: Tuple[float, float], said: str) -> Part:
    """``value`` with its interval should be between two limits."""
    least, most = limits
    outcome = HOLDS if least <= low and high <= most else FAILS if low > most or high < least else UNDECIDED
    return Part(outcome, f"{said}: {value:.3g} ({low:.3g} to {high:.3g}), {least:.3g} to {most:.3g} wanted")


def interval(m: Measurement) -> Tuple[float, float]:
    """Lowest and highest."""
    return (m.value, m.value) if m.spread is None else (m.spread[0], m.spread[1])


def told(m: Measurement) -> str:
    """A value with its spread and the number of runs."""
    return f"{m.value:.4g}" + ("" if m.spread is None else f" ({m.spread[0]:.4g} to {m.spread[1]:.4g}, {m.repetitions} seeds)")
