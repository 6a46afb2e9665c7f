"""Comparisons of trained models: their preconditions, and perplexities seed by seed.

A perplexity says something about a method only if the model has learned from context, and about models "after
convergence" only if their validation curves are flat. Both are preconditions of a verdict; the words of the rules that
state them are here too.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .records import Curve, Measurement, Record, select_reproduced
from .statistics import (
    MIN_SEEDS,
    UNDECIDED,
    Check,
    Estimate,
    Evaluate,
    Verdict,
    combine,
    geometric_mean,
    not_measured,
    ratio_of_extremes,
)

ROBERTA_BITS, MODEL_BITS = 2.0, 1.0
"""Minimum bits below a model without context: of the RoBERTa of a comparison, and of every other model."""
LAST_SHARE, MAX_FALL = 0.2, 0.01
"""A curve is flat if it falls by less than ``MAX_FALL`` bits over the last ``LAST_SHARE`` of its updates."""

# Words of the rules

_NOT_ENOUGH = (
    f"Not enough evidence if the 95 % interval of a ratio over seeds contains its limit, if a model has fewer than "
    f"{MIN_SEEDS} seeds"
)
CONVERGED = (
    f"{_NOT_ENOUGH}, if RoBERTa is less than {ROBERTA_BITS:g} bits or another model less than {MODEL_BITS:g} bit below "
    f"a model without context at its n, or if a model has not converged: with one of its seeds the validation curve "
    f"falls by {MAX_FALL:g} bits or more over the last {LAST_SHARE:.0%} of its updates.".replace("20%", "20 %")
)
EQUAL_UPDATES = (
    f"{_NOT_ENOUGH}, if RoBERTa is less than {ROBERTA_BITS:g} bits below a model without context, or if no compared "
    f"model is {MODEL_BITS:g} bit below. The claim is about equally many updates: models need not have converged."
)
KNOWN = "(Written when earlier measurements of these models were known.)"


@dataclass(frozen=True)
class Comparison:
    """What a rule compares in a record.

    Attributes:
        models: labels of the compared models.
        checks: conditions of the rule.
        controls: the RoBERTas, one or one per n. They are trained like the models, and show what can be learned.
        remarks: reported, but not part of the outcome.
        at_equal_updates: the claim is about equally many updates, not about models that have converged.
    """

    models: Sequence[str]
    checks: Sequence[Check]
    controls: Sequence[str] = ("roberta",)
    remarks: Sequence[str] = ()
    at_equal_updates: bool = False


Compare = Callable[[Record], Comparison]
"""A rule of trained models, applied to a record."""


# Which record


def record_name(experiment: str, scale: str, plan: int) -> str:
    """The identifier of an experiment's record. A changed plan gets a new number, and so a new record."""
    return f"{experiment}-{scale}" + f"-plan{plan}" * (plan > 1)


def plan_number(record: Record) -> int | None:
    """The number of the plan that a record was measured with; None if its identifier is not from ``record_name``."""
    match = re.fullmatch(rf"{record.experiment}-{record.scale}(?:-plan(\d+))?", record.identifier)
    return int(match[1] or 1) if match else None


def newest_record(records: Iterable[Record], experiment: str, scale: str) -> Record | None:
    """The record of an experiment at a scale with the highest plan number."""
    numbered = [(number, r) for r in select_reproduced(records, experiment, scale) if (number := plan_number(r))]
    return max(numbered, key=lambda pair: pair[0])[1] if numbered else None


def comparison(experiment: str, compare: Compare, earlier_plans: Sequence[str] = ()) -> Evaluate:
    """The rule of a claim on trained models.

    Args:
        earlier_plans: how each earlier plan differed. Its record is evaluated while there is no newer one.
    """

    def evaluate(records: Sequence[Record], scale: str) -> Verdict:
        record = newest_record(records, experiment, scale)
        if record is None:
            return not_measured(record_name(experiment, scale, len(earlier_plans) + 1))
        verdict = compare_trained(record, compare(record))
        number = plan_number(record)
        if number is None or number > len(earlier_plans):
            return verdict
        remark = f"measured with an earlier plan: {earlier_plans[number - 1]}; the current plan is not measured"
        return replace(verdict, remarks=[remark, *verdict.remarks])

    return evaluate


# Perplexities


def bits_by_seed(record: Record, model: str) -> dict[int, float]:
    """Bits per predicted token by seed, in ascending order; empty if the record has only their median."""
    found = {m.seed: m.value for m in record.select("bits", model=model) if m.seed is not None}
    return {seed: found[seed] for seed in sorted(found)}


def perplexity_ratio(record: Record, a: str, b: str) -> Estimate | None:
    """Perplexity of ``a`` over that of ``b``; None if one of them is missing.

    The interval is Student's t over seeds where the record has them, else the ratio of the extremes.
    """
    text = f"{a} / {b} perplexity"
    x, y = bits_by_seed(record, a), bits_by_seed(record, b)
    if x.keys() == y.keys() and len(x) >= 2:
        logarithms = [(x[seed] - y[seed]) * math.log(2) for seed in x]
        return geometric_mean(logarithms, text, f"{len(x)} seeds")
    ours, theirs = (record.find("perplexity", model=model, seed=None) for model in (a, b))
    if ours is None or theirs is None:
        return None
    return ratio_of_extremes(ours, theirs, text, "range of runs")


def _conversion(record: Record, model: str) -> str:
    """Updates after conversion and initialization of E and F, on which the perplexity of a converted model depends."""
    run = record.configuration.get("runs", {}).get(model, {})
    if not str(run.get("made")).startswith("converted"):
        return ""
    start = run.get("model", {}).get("start")
    return f"; {run['updates']:,} updates after conversion" + f", E and F initialized as {start}" * bool(start)


def perplexity_at_most(record: Record, a: str, b: str, factor: float = 1.0) -> Check:
    """The perplexity of ``a`` is at most ``factor`` times that of ``b``."""
    ratio = perplexity_ratio(record, a, b)
    return _without_perplexity(record, a, b) if ratio is None else ratio.at_most(factor)


def perplexity_about(record: Record, a: str, b: str, factor: float) -> Check:
    """The perplexities of ``a`` and ``b`` differ by at most ``factor``, either way."""
    ratio = perplexity_ratio(record, a, b)
    return _without_perplexity(record, a, b) if ratio is None else ratio.within(1 / factor, factor)


def _without_perplexity(record: Record, *models: str) -> Check:
    missing = next(model for model in models if record.find("perplexity", model=model, seed=None) is None)
    return Check(UNDECIDED, f"{record.identifier} has no perplexity of {missing}")


def decreasing_perplexity(record: Record, models: Sequence[str]) -> list[Check]:
    """Each model has at most the perplexity of the one before it."""
    return [perplexity_at_most(record, after, before) for before, after in itertools.pairwise(models)]


# Preconditions


def final_fall(curve: Curve) -> float | None:
    """Bits by which a validation curve falls over the last 20 % of its updates, with points joined by straight lines.

    Returns:
        negative if it rises; None if the curve begins later than that.
    """
    updates, bits = zip(*curve.points)
    before = (1 - LAST_SHARE) * updates[-1]
    if updates[0] > before:
        return None
    return round(float(np.interp(before, updates, bits)) - bits[-1], 4)  # points have four decimals


def missing_preconditions(record: Record, compared: Comparison) -> list[Check]:
    """What the models of a comparison lack: seeds, bits below a model without context, a flat curve."""
    every = list(dict.fromkeys([*compared.controls, *compared.models]))
    others = [model for model in every if model not in compared.controls]
    found = [*_missing_seeds(record, every)]
    found += [check for model in compared.controls if (check := _not_learned(record, model, ROBERTA_BITS))]
    if compared.at_equal_updates:
        learned = [bits for model in compared.models if (bits := _bits_learned(record, model)) is not None]
        if learned and max(learned) < MODEL_BITS:
            text = (
                f"no compared model is {MODEL_BITS:g} bit below a model without context; the best is {max(learned):.2f}"
            )
            found.append(Check(UNDECIDED, text))
        return found
    found += [check for model in others if (check := _not_learned(record, model, MODEL_BITS))]
    return found + [check for model in every if (check := _not_converged(record, model))]


def _missing_seeds(record: Record, models: Iterable[str]) -> list[Check]:
    checks = []
    for model in models:
        m = record.find("perplexity", model=model, seed=None)
        if m is None:
            checks.append(_without_perplexity(record, model))
        elif m.repetitions < MIN_SEEDS:
            seeds = f"{m.repetitions} seed" + "s" * (m.repetitions > 1)
            checks.append(Check(UNDECIDED, f"{model} has {seeds}; needs {MIN_SEEDS}"))
    return checks


def _bits_learned(record: Record, model: str) -> float | None:
    """Bits by which the worst seed is below the context-free level at its n, or the only level; None if unknown."""
    bits = record.find("bits", model=model, seed=None)
    levels = record.select("context_free_bits")
    level = next((m for m in levels if bits and m.n == bits.n), next(iter(levels), None))
    return None if bits is None or level is None else level.value - bits.high


def _not_learned(record: Record, model: str, needed: float) -> Check | None:
    learned, name = _bits_learned(record, model), model.replace("roberta", "RoBERTa")
    if learned is None:
        return Check(UNDECIDED, f"{record.identifier} does not say how far {name} is below a model without context")
    if learned >= needed:
        return None
    side = "below" if learned >= 0 else "above"
    return Check(UNDECIDED, f"{name} is {abs(learned):.2f} bits {side} a model without context; needs {needed:g} below")


def _not_converged(record: Record, model: str) -> Check | None:
    """None if the curve of every seed is flat; or if the model was not measured, which is reported already."""
    m, name = record.find("perplexity", model=model, seed=None), model.replace("roberta", "RoBERTa")
    if m is None:
        return None
    falls = [final_fall(curve) for curve in record.curves if (curve.model, curve.metric) == (model, "bits")]
    known = [fall for fall in falls if fall is not None]
    if len(known) < m.repetitions:
        text = (
            f"{record.identifier} has no curve of each seed of {name} over the last {LAST_SHARE * 100:g} % of updates"
        )
        return Check(UNDECIDED, text)
    if max(known) < MAX_FALL:
        return None
    fall = f"{max(known):.3f} bits lower in the last {LAST_SHARE * 100:g} % of updates; needs < {MAX_FALL:g}"
    return Check(UNDECIDED, f"{name} has not converged: {fall}")


# Verdicts


def compare_trained(record: Record, compared: Comparison) -> Verdict:
    """The verdict on trained models; undecided if a precondition is missing."""
    missing = missing_preconditions(record, compared)
    every = list(dict.fromkeys([*compared.controls, *compared.models]))
    perplexities = [
        f"{model}: perplexity {_with_spread(m)}{_conversion(record, model)}"
        for model in every
        if (m := record.find("perplexity", model=model, seed=None))
    ]
    remarks = [*compared.remarks, *_other_commits(record, every), *perplexities]
    verdict = combine([*dict.fromkeys([*missing, *compared.checks])], [record], remarks)
    return replace(verdict, outcome=UNDECIDED) if missing else verdict


def _other_commits(record: Record, models: Iterable[str]) -> list[str]:
    """A remark if the models were trained at different commits: code changes may explain a difference."""
    commits = {model: commit for model, commit in record.configuration.get("commits", {}).items() if model in models}
    if len(set(commits.values())) < 2:
        return []
    text = (f"{model} at {', '.join(each[:8] for each in commit.split('; '))}" for model, commit in commits.items())
    return [f"the models were trained at different commits: {'; '.join(text)}"]


def _with_spread(m: Measurement) -> str:
    spread = "" if m.interval is None else f" [{m.low:.4g}, {m.high:.4g}], {m.repetitions} seeds"
    return f"{m.value:.4g}{spread}"
