"""Verdicts: outcomes, intervals, and perplexities compared seed by seed.

A rule is a list of checks. One that fails decides; all must hold; otherwise there is not enough evidence.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from .records import Measurement, Record

OUTCOMES = HOLDS, FAILS, UNDECIDED, UNMEASURED = "holds", "does not hold", "not enough evidence", "not measured"
MIN_SEEDS, MIN_BITS_LEARNED = 3, 2.0
"""A comparison of trained models needs so many seeds, and a RoBERTa so many bits below a model without context."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Check:
    """One condition of a rule: its outcome, and its number in a sentence."""

    outcome: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """
    Attributes:
        outcome: one of ``OUTCOMES``.
        checks: the conditions, in the order of the rule.
        records: identifiers of the records used.
        remarks: reported too, without weight, such as the perplexities that a ratio was made of.

    Raises:
        ValueError: an unknown outcome, or a verdict without records.
    """

    outcome: str
    checks: list[Check]
    records: list[str]
    remarks: list[str] = field(default_factory=list)

    def __post_init__(self):
        if self.outcome not in OUTCOMES:
            raise ValueError(f"outcome is {self.outcome!r}; it must be one of {', '.join(OUTCOMES)}")
        if (self.outcome == UNMEASURED) != (not self.records):
            raise ValueError(f"outcome is {self.outcome!r} with records {self.records}; only a claim without records is not measured")

    @property
    def deciding(self) -> list[str]:
        """The checks in words, the decisive ones first: those with the verdict's outcome, then failures, open ones, and the rest."""
        order = (self.outcome, FAILS, UNDECIDED, HOLDS)
        return [check.text for check in sorted(self.checks, key=lambda check: order.index(check.outcome))]

    @property
    def numbers(self) -> list[str]:
        """All that it reports, remarks last."""
        return self.deciding + self.remarks


Evaluate = Callable[[Sequence[Record], str], Verdict]
"""(records, scale) to the verdict of a claim."""


def combine(checks: Sequence[Check], records: Iterable[Record], remarks: Sequence[str] = ()) -> Verdict:
    """All checks must hold; a failed one decides, whatever is open."""
    checks = list(checks) or [Check(UNDECIDED, "the entry has none of the numbers that the rule asks for")]
    outcomes = {check.outcome for check in checks}
    outcome = next((each for each in (FAILS, UNDECIDED) if each in outcomes), HOLDS)
    return Verdict(outcome, checks, [record.identifier for record in records], list(remarks))


def not_measured(what: str) -> Verdict:
    return Verdict(UNMEASURED, [], [], [f"there is no entry {what}"])


def combine_records(records: Sequence[Record], checks_of: Callable[[Record], list[Check]]) -> Verdict:
    """The checks of several records together, each with its record's name where several have some."""
    checks = {record.identifier: found for record in records if (found := checks_of(record))}
    used = [record for record in records if record.identifier in checks] or records
    if len(checks) == 1:
        return combine(next(iter(checks.values())), used)
    return combine([Check(c.outcome, f"{name}: {c.text}") for name, found in checks.items() for c in found], used)


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, and what it is, in words."""

    value: float
    low: float
    high: float
    text: str

    def __str__(self) -> str:
        return f"{self.text}: {self.value:.3g} ({self.low:.3g} to {self.high:.3g})"

    def at_most(self, limit: float) -> Check:
        outcome = HOLDS if self.high <= limit else FAILS if self.low > limit else UNDECIDED
        return Check(outcome, f"{self}, at most {limit:g} wanted")

    def more_than(self, limit: float) -> Check:
        outcome = HOLDS if self.low > limit else FAILS if self.high <= limit else UNDECIDED
        return Check(outcome, f"{self}, more than {limit:g} wanted")

    def within(self, least: float, most: float) -> Check:
        if least <= self.low and self.high <= most:
            outcome = HOLDS
        else:
            outcome = FAILS if self.low > most or self.high < least else UNDECIDED
        return Check(outcome, f"{self}, {least:.3g} to {most:.3g} wanted")


def ratio_of_extremes(a: Measurement, b: Measurement, text: str) -> Estimate:
    """a / b by their values, between the ratios of their most distant runs."""
    return Estimate(a.value / b.value, a.low / b.high, a.high / b.low, text)


def geometric_mean(logarithms: Sequence[float], text: str) -> Estimate:
    """The exponential of the mean of natural logarithms, with Student's 95 % interval.

    Args:
        logarithms: one per seed, two at least.
    """
    mean, error = float(np.mean(logarithms)), float(stats.sem(logarithms))
    if error == 0:
        return Estimate(math.exp(mean), math.exp(mean), math.exp(mean), text)
    low, high = stats.t.interval(CONFIDENCE, len(logarithms) - 1, loc=mean, scale=error)
    return Estimate(math.exp(mean), math.exp(low), math.exp(high), text)


def wilson(share: float, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a probability.

    Args:
        share: measured. It may be a mean of shares, so that ``share * trials`` is no whole number, which scipy's
            ``binomtest`` needs; for whole numbers the two agree.
        trials: independent ones.
    """
    z, p = stats.norm.ppf((1 + CONFIDENCE) / 2), min(max(share, 0.0), 1.0)
    middle, half = p + z**2 / (2 * trials), z * math.sqrt(p * (1 - p) / trials + z**2 / (4 * trials**2))
    return max(0.0, middle - half) / (1 + z**2 / trials), (middle + half) / (1 + z**2 / trials)


# Trained models, by the perplexities in one record


def bits_by_seed(record: Record, model: str) -> list[float]:
    """Bits per predicted token, the first seed first; empty if the record has only their median."""
    found = {m.seed: m.value for m in record.select("bits", model=model) if m.seed is not None}
    return [found[seed] for seed in sorted(found)]


def perplexity_ratio(record: Record, a: str, b: str) -> Estimate | None:
    """Perplexity of ``a`` over that of ``b``: by Student's t over seeds where the record has them, else by their extremes.

    None if one of them is missing.
    """
    text = f"perplexity of {a}{_conversion(record, a)} over that of {b}"
    x, y = bits_by_seed(record, a), bits_by_seed(record, b)
    if len(x) == len(y) >= 2:
        logarithms = [(p - q) * math.log(2) for p, q in zip(x, y)]
        return geometric_mean(logarithms, f"{text}, mean of {len(x)} seeds and 95 % interval")
    ours, theirs = (record.find("perplexity", model=model, seed=None) for model in (a, b))
    if ours is None or theirs is None:
        return None
    return ratio_of_extremes(ours, theirs, f"{text}, medians, and lowest to highest of any two runs")


def _conversion(record: Record, model: str) -> str:
    """For how long a converted model was trained, and how E and F started: its cost depends on both."""
    run = record.configuration.get("runs", {}).get(model, {})
    if not str(run.get("made")).startswith("converted"):
        return ""
    start = run.get("model", {}).get("start")
    return f", {run['updates']:,} updates after its conversion" + f" (E and F: {start})" * bool(start) + ","


def perplexity_at_most(record: Record, a: str, b: str, factor: float = 1.0) -> Check:
    """The perplexity of ``a`` is at most ``factor`` times that of ``b``."""
    ratio = perplexity_ratio(record, a, b)
    return _without_perplexity(record, a, b) if ratio is None else ratio.at_most(factor)


def perplexity_about(record: Record, a: str, b: str, factor: float) -> Check:
    """The perplexities of ``a`` and ``b`` differ by at most ``factor``, either way."""
    ratio = perplexity_ratio(record, a, b)
    return _without_perplexity(record, a, b) if ratio is None else ratio.within(1 / factor, factor)


def _without_perplexity(record: Record, *models: str) -> Check:
    missing = next(model for model in models if record.find("perplexity", model=model) is None)
    return Check(UNDECIDED, f"{record.identifier} has no perplexity of {missing}")


def decreasing_perplexity(record: Record, models: Sequence[str]) -> list[Check]:
    """Each model has at most the perplexity of the one before it."""
    return [perplexity_at_most(record, after, before) for before, after in zip(models, models[1:])]


def missing_grounds(record: Record, models: Sequence[str], controls: Sequence[str]) -> list[Check]:
    """What a comparison lacks: seeds, or a RoBERTa that learned from context.

    Args:
        controls: the RoBERTas; each is compared with the context-free level at its n, or the only one there is.
    """
    checks = []
    for model in dict.fromkeys([*controls, *models]):
        m = record.find("perplexity", model=model, seed=None)
        if m is None:
            checks.append(_without_perplexity(record, model))
        elif m.repetitions < MIN_SEEDS:
            checks.append(Check(UNDECIDED, f"{model} has {m.repetitions} seeds; {MIN_SEEDS} are wanted"))
    for model in controls:
        bits, name = record.find("bits", model=model, seed=None), model.replace("roberta", "RoBERTa")
        levels = record.select("context_free_bits")
        level = next((m for m in levels if bits and m.n == bits.n), next(iter(levels), None))
        if bits is None or level is None:
            checks.append(Check(UNDECIDED, f"{record.identifier} does not say how far {name} is below a model without context"))
        elif level.value - bits.high < MIN_BITS_LEARNED:
            below = f"{name} is {level.value - bits.high:.2f} bits below a model without context"
            checks.append(Check(UNDECIDED, f"{below}; {MIN_BITS_LEARNED:g} are wanted"))
    return checks


def compare_trained(record: Record, models: Sequence[str], checks: Sequence[Check], controls: Sequence[str] = ("roberta",),
                    remarks: Sequence[str] = ()) -> Verdict:  # fmt: skip
    """The verdict on trained models. Without grounds the numbers are reported, and decide nothing."""
    missing = missing_grounds(record, models, controls)
    every = dict.fromkeys([*controls, *models])
    perplexities = [f"{model}: perplexity {_with_spread(m)}" for model in every if (m := record.find("perplexity", model=model, seed=None))]
    verdict = combine([*dict.fromkeys([*missing, *checks])], [record], [*remarks, *_other_commits(record, every), *perplexities])
    return Verdict(UNDECIDED if missing else verdict.outcome, verdict.checks, verdict.records, verdict.remarks)


def _other_commits(record: Record, models: Iterable[str]) -> list[str]:
    """Models trained days apart may differ by what changed in the code; the reader must know."""
    commits = {model: commit for model, commit in record.configuration.get("commits", {}).items() if model in models}
    if len(set(commits.values())) < 2:
        return []
    text = (f"{model} at {', '.join(each[:8] for each in commit.split('; '))}" for model, commit in commits.items())
    return [f"not all were trained at the same commit: {'; '.join(text)}"]


def _with_spread(m: Measurement) -> str:
    spread = "" if m.interval is None else f" ({m.low:.4g} to {m.high:.4g}, {m.repetitions} seeds)"
    return f"{m.value:.4g}{spread}"
