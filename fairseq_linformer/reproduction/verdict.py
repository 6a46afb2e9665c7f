"""Verdicts: the outcome of a claim by the checks of its rule, and the intervals behind them.

A claim holds if all checks hold, does not hold if one fails, and otherwise lacks evidence.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

OUTCOMES = HOLDS, FAILS, UNDECIDED, UNMEASURED = "holds", "does not hold", "not enough evidence", "not measured"
MIN_SEEDS = 3
"""Minimum seeds per model of a comparison."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Check:
    """One condition of a rule: its outcome, and its number in a sentence."""

    outcome: str
    text: str

    @property
    def holds(self) -> bool:
        return self.outcome == HOLDS


def decide(holds: bool, text: str, fails: bool = True) -> Check:
    """A check that holds, or else fails, or is undecided if it does not fail either."""
    return Check(HOLDS if holds else FAILS if fails else UNDECIDED, text)


@dataclass(frozen=True)
class Verdict:
    """The verdict of a claim on the results of one scale.

    Attributes:
        name: of the claim, in a word or two.
        claim: in a sentence.
        checks: the conditions of the rule; none if nothing was measured.
        preconditions: nothing is decided unless all of them hold.
        remarks: reported, but not part of the outcome.
    """

    name: str
    claim: str
    checks: Sequence[Check]
    preconditions: Sequence[Check] = ()
    remarks: Sequence[str] = ()

    @property
    def outcome(self) -> str:
        """One of ``OUTCOMES``."""
        found = {check.outcome for check in self.checks}
        if not found:
            return UNMEASURED
        if any(not check.holds for check in self.preconditions):
            return UNDECIDED
        return next((outcome for outcome in (FAILS, UNDECIDED) if outcome in found), HOLDS)

    @property
    def numbers(self) -> list[str]:
        """The texts of the preconditions that do not hold, then of the checks, those with the outcome first."""
        order = (self.outcome, FAILS, UNDECIDED, HOLDS)
        missing = [check for check in self.preconditions if not check.holds]
        return [check.text for check in [*missing, *sorted(self.checks, key=lambda check: order.index(check.outcome))]]


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, and what it is, in words."""

    value: float
    low: float
    high: float
    text: str

    def __str__(self) -> str:
        return f"{self.text}: {self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def at_most(self, limit: float) -> Check:
        return self.within(-math.inf, limit)

    def at_least(self, limit: float) -> Check:
        return self.within(limit, math.inf)

    def more_than(self, limit: float) -> Check:
        return decide(self.low > limit, f"{self}; needs > {limit:g}", self.high <= limit)

    def within(self, least: float, most: float) -> Check:
        needs = f"{least:.3g} to {most:.3g}"
        if math.inf in (-least, most):
            needs = f"≤ {most:g}" if least == -math.inf else f"≥ {least:g}"
        is_beyond = self.low > most or self.high < least
        return decide(least <= self.low and self.high <= most, f"{self}; needs {needs}", is_beyond)


def student_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of two values or more, and the ends of Student's 95 % interval."""
    mean, error = float(np.mean(values)), float(stats.sem(values))
    low, high = stats.t.interval(CONFIDENCE, len(values) - 1, loc=mean, scale=error) if error else (mean, mean)
    return mean, float(low), float(high)


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
