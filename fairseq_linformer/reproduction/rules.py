"""Rules of claims on the records of an experiment. ``comparisons.py`` has those on trained models."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ..benchmark import grouping
from .records import Record, select_reproduced
from .statistics import FAILS, UNDECIDED, Check, Evaluate, Verdict, combine, combine_records, decide, not_measured


def evidence(records: Sequence[Record], experiment: str, scale: str) -> list[Record]:
    """The records of ``reproduce`` at a scale; without any, those of other commands at base size."""
    others = (r for r in records if r.experiment == experiment and r.scale == scale and r.made_by != "script")
    return select_reproduced(records, experiment, scale) or [r for r in others if is_base_size(r)]


def is_base_size(record: Record) -> bool:
    """Options that the configuration lacks are not compared: a record of Table 3 has every k."""
    return all(record.configuration.get(name, value) == value for name, value in grouping.BASE_SIZE.items())


def rule(
    experiment: str,
    name_pattern: str,
    checks_of: Callable[[Record], list[Check]],
    remarks_of: Callable[[Record], list[str]] = lambda record: [],
    applies: Callable[[Record], object] = lambda record: True,
    needed: str = "",
) -> Evaluate:
    """The rule of a claim on each of the records of an experiment.

    Args:
        name_pattern: of the records, for the verdict when there are none.
        remarks_of: (record) to remarks, which are reported but not part of the outcome.
        applies: whether a record has the numbers that the rule needs; ``needed`` names them in the verdict.
    """

    def evaluate(records: Sequence[Record], scale: str) -> Verdict:
        found = [record for record in evidence(records, experiment, scale) if applies(record)]
        if not found:
            return not_measured(f"{name_pattern} of scale {scale}" + f" with {needed}" * bool(needed))
        verdict = combine_records(found, checks_of)
        remarks = [remark for r in found if r.identifier in verdict.records for remark in remarks_of(r)]
        return replace(verdict, remarks=[*verdict.remarks, *dict.fromkeys(remarks)])

    return evaluate


def rule_on_all(
    experiment: str,
    scales: Collection[str],
    checks_of: Callable[[Sequence[Record], str], list[Check]],
    applies: Callable[[Record], object] = lambda record: True,
    needs_all: bool = False,
) -> Evaluate:
    """The rule of a claim that compares the records of an experiment at a scale.

    Args:
        scales: those of the experiment.
        checks_of: (records, scale) to checks.
        applies: whether a record is compared.
        needs_all: whether nothing is decided while a check has not enough evidence; otherwise one failure decides.
    """
    order = (UNDECIDED, FAILS) if needs_all else (FAILS, UNDECIDED)

    def evaluate(records: Sequence[Record], scale: str) -> Verdict:
        found = [record for record in select_reproduced(records, experiment, scale) if applies(record)]
        if not found or scale not in scales:
            return not_measured(f"of {experiment} at scale {scale}")
        return combine(checks_of(found, scale), found, order=order)

    return evaluate


def every_round_at_least(record: Record, model: str, baseline: str, n: int, bar: float) -> Check:
    """Whether the baseline's time over the model's, ``time_ratio``, is at least ``bar`` in every round."""
    m, text = record.find("time_ratio", model=model, baseline=baseline, n=n), f"n = {n:,}: {model} over {baseline}"
    if m is None:
        return Check(UNDECIDED, f"{text} was not measured")
    text = f"{text} {m.value:.2f} [{m.low:.2f}, {m.high:.2f}]; needs ≥ {bar:g}"
    return decide(m.low >= bar, text)
