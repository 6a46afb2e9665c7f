"""Verdicts: outcomes, checks and intervals. ``comparisons.py`` applies them to trained models.

A rule is a list of checks. A claim holds if all checks hold, does not hold if one fails, and otherwise lacks evidence;
with ``rule_on_all(needs_all=True)`` it also lacks evidence if one fails while another is undecided.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from .records import Measurement, Record

OUTCOMES = HOLDS, FAILS, UNDECIDED, UNMEASURED = "holds", "does not hold", "not enough evidence", "not measured"
MIN_SEEDS = 3
"""Minimum seeds per model of a comparison."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Check:
    """One condition of a rule: its outcome, and its number in a sentence."""

    outcome: str
    text: str


def decide(holds: bool, text: str) -> Check:
    """A check that either holds or fails."""
    return Check(HOLDS if holds else FAILS, text)


@dataclass(frozen=True)
class Verdict:
    """
    Attributes:
        outcome: one of ``OUTCOMES``.
        checks: the conditions, in the order of the rule.
        records: identifiers of the records used.
        remarks: reported, but not part of the outcome, such as the perplexities behind a ratio.

    Raises:
        ValueError: an unknown outcome, or a verdict without records.
    """

    outcome: str
    checks: list[Check]
    records: list[str]
    remarks: list[str] = field(default_factory=list)

    def __post_init__(self):
        if self.outcome not in OUTCOMES:
            raise ValueError(f"unknown outcome {self.outcome!r}; choose from {', '.join(OUTCOMES)}")
        if (self.outcome == UNMEASURED) != (not self.records):
            raise ValueError(
                f"outcome must be {UNMEASURED!r} exactly if there are no records, "
                f"got {self.outcome!r} with records {self.records}"
            )

    @property
    def deciding(self) -> list[str]:
        """The texts of the checks: those with the verdict's outcome first, then failures, undecided ones, the rest."""
        order = (self.outcome, FAILS, UNDECIDED, HOLDS)
        return [check.text for check in sorted(self.checks, key=lambda check: order.index(check.outcome))]

    @property
    def numbers(self) -> list[str]:
        """All that it reports, remarks last."""
        return self.deciding + self.remarks


Evaluate = Callable[[Sequence[Record], str], Verdict]
"""(records, scale) to the verdict of a claim."""


def combine(
    checks: Sequence[Check],
    records: Iterable[Record],
    remarks: Sequence[str] = (),
    order: Sequence[str] = (FAILS, UNDECIDED),
) -> Verdict:
    """The verdict: all checks must hold; of other outcomes, the first of ``order`` decides."""
    checks = list(checks) or [Check(UNDECIDED, "the record has none of the numbers that the rule needs")]
    outcomes = {check.outcome for check in checks}
    outcome = next((each for each in order if each in outcomes), HOLDS)
    return Verdict(outcome, checks, [record.identifier for record in records], list(remarks))


def not_measured(what: str) -> Verdict:
    return Verdict(UNMEASURED, [], [], [f"no record {what}"])


def combine_records(records: Sequence[Record], checks_of: Callable[[Record], list[Check]]) -> Verdict:
    """One verdict over the checks of several records; each text names its record if several have checks."""
    checks = {record.identifier: found for record in records if (found := checks_of(record))}
    used = [record for record in records if record.identifier in checks] or records
    if len(checks) == 1:
        return combine(next(iter(checks.values())), used)
    return combine([Check(c.outcome, f"{name}: {c.text}") for name, found in checks.items() for c in found], used)


@dataclass(frozen=True)
class Estimate:
    """A value with its interval.

    Attributes:
        text: what it is, in words.
        basis: of the interval, such as "3 seeds".
    """

    value: float
    low: float
    high: float
    text: str
    basis: str = ""

    def __str__(self) -> str:
        basis = f", {self.basis}" if self.basis else ""
        return f"{self.text}: {self.value:.3g} [{self.low:.3g}, {self.high:.3g}]{basis}"

    def at_most(self, limit: float) -> Check:
        outcome = HOLDS if self.high <= limit else FAILS if self.low > limit else UNDECIDED
        return Check(outcome, f"{self}; needs ≤ {limit:g}")

    def more_than(self, limit: float) -> Check:
        outcome = HOLDS if self.low > limit else FAILS if self.high <= limit else UNDECIDED
        return Check(outcome, f"{self}; needs > {limit:g}")

    def within(self, least: float, most: float) -> Check:
        if least <= self.low and self.high <= most:
            outcome = HOLDS
        else:
            outcome = FAILS if self.low > most or self.high < least else UNDECIDED
        return Check(outcome, f"{self}; needs {least:.3g} to {most:.3g}")


def ratio_of_extremes(a: Measurement | Estimate, b: Measurement | Estimate, text: str, basis: str = "") -> Estimate:
    """a / b by their values, between the ratios of their most distant runs."""
    return Estimate(a.value / b.value, a.low / b.high, a.high / b.low, text, basis)


def difference_of_extremes(a: Measurement | Estimate, b: Measurement | Estimate, text: str) -> Estimate:
    """a - b by their values, between the differences of their most distant runs."""
    return Estimate(a.value - b.value, a.low - b.high, a.high - b.low, text)


Measured = Estimate | Check | list[Check]
"""An estimate, or a check (or several) that says what is missing."""


def compare(a: Measured, b: Measured, check: Callable[[Estimate, Estimate], Check]) -> list[Check]:
    """The check of two estimates; what is missing if one is not measured."""
    if isinstance(a, Estimate) and isinstance(b, Estimate):
        return [check(a, b)]
    lists = (each if isinstance(each, list) else [each] for each in (a, b) if not isinstance(each, Estimate))
    return [missing for found in lists for missing in found]


def student_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of two values or more, and the ends of Student's 95 % interval."""
    mean, error = float(np.mean(values)), float(stats.sem(values))
    low, high = stats.t.interval(CONFIDENCE, len(values) - 1, loc=mean, scale=error) if error else (mean, mean)
    return mean, float(low), float(high)


def geometric_mean(logarithms: Sequence[float], text: str, basis: str = "") -> Estimate:
    """The exponential of the mean of natural logarithms, with Student's 95 % interval.

    Args:
        logarithms: one per seed, two at least.
    """
    mean, low, high = (math.exp(x) for x in student_interval(logarithms))
    return Estimate(mean, low, high, text, basis)


def wilson(share: float, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a probability.

    Args:
        share: the measured share. It may be a mean of shares, so ``share * trials`` need not be an integer, as scipy's
            ``binomtest`` requires; for integers the two agree.
        trials: number of independent trials.
    """
    z, p = stats.norm.ppf((1 + CONFIDENCE) / 2), min(max(share, 0.0), 1.0)
    middle, half = p + z**2 / (2 * trials), z * math.sqrt(p * (1 - p) / trials + z**2 / (4 * trials**2))
    return max(0.0, middle - half) / (1 + z**2 / trials), (middle + half) / (1 + z**2 / trials)
