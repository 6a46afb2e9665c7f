"""What changed behind a verdict, for the report: earlier rules, rules that a record keeps, and superseded records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..claim import Claim, EarlierRule
from ..commits import describe_commit
from ..records import Record
from ..statistics import Verdict

NAMED = 3
"""How many records a note names; it counts the others."""


def count_changes(claim: Claim) -> str:
    """How often a rule changed, for a cell: ``2 (1 with data known)``; empty for a rule that never did."""
    known = sum(earlier.data_known for earlier in claim.history)
    if not claim.history:
        return ""
    return f"{len(claim.history)}" + f" ({known} with data known)" * bool(known)


def describe_earlier(earlier: EarlierRule) -> str:
    """An earlier rule, with the date and the reason of its change."""
    known = "data were known" if earlier.data_known else "no data were known"
    return f"Until {earlier.until}: {earlier.rule} Changed when {known}: {earlier.reason}"


def describe_recorded(claim: Claim, used: Iterable[Record]) -> list[str]:
    """The rules that records keep, as they read before the first run, where they read differently today.

    A rule in the claim's history is named by its date.

    Args:
        used: the records that the claim's verdicts use.
    """
    names: dict[str, list[str]] = {}
    for record in used:
        if record.rules is not None:
            rule = record.rules.get(claim.identifier, "there was no rule for this claim.")
            names.setdefault(rule, []).append(record.identifier)
    dates = {earlier.rule: f"the rule until {earlier.until}." for earlier in claim.history}
    return [
        f"Rule recorded in {_name(identifiers)}: {dates.get(rule, rule)}"
        for rule, identifiers in names.items()
        if rule != claim.rule
    ]


SupersededRecords = Mapping[str, Sequence[Record]]
"""Superseded records by identifier, the oldest first."""


def earlier_verdicts(
    claim: Claim, records: Sequence[Record], scale: str, used: Iterable[str], superseded: SupersededRecords
) -> Iterator[tuple[str, Record, Verdict | None]]:
    """The verdict by the current rule on each superseded record, in place of the record that replaced it.

    Args:
        used: identifiers of the records that the verdict uses.

    Yields:
        IDENTIFIER.N, the record, and the verdict: None if the rule cannot evaluate the record.
    """
    for identifier in used:
        for number, earlier in enumerate(superseded.get(identifier, ()), 1):
            with_earlier = [earlier if record.identifier == identifier else record for record in records]
            try:
                verdict = claim.evaluate(with_earlier, scale)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                verdict = None
            yield f"{identifier}.{number}", earlier, verdict


def describe_measurements(identifier: str, records: Sequence[Record], superseded: SupersededRecords) -> list[str]:
    """Each superseded record of an identifier in a sentence: when and where it was measured, and why again."""
    earlier = list(superseded.get(identifier, ()))
    newer = [*earlier[1:], *(record for record in records if record.identifier == identifier)]
    texts = []
    for number, (old, new) in enumerate(zip(earlier, newer), 1):
        reason = f"; measured again: {new.supersedes.reason}" if new.supersedes else ""
        texts.append(f"{identifier}.{number}: {old.date}; commit {describe_commit(old)}{reason}")
    return texts


def describe_earlier_verdict(name: str, earlier: Record, verdict: Verdict | None, shown: int) -> str:
    """A verdict of ``earlier_verdicts`` in a sentence.

    Args:
        shown: how many numbers.
    """
    if verdict is None:
        text = "the current rule cannot evaluate it"
    else:
        text = "; ".join([f"**{verdict.outcome}**", *verdict.deciding[:shown]])
    return f"{name} ({earlier.date}; commit {describe_commit(earlier)}): {text}"


def _name(identifiers: Sequence[str]) -> str:
    others = len(identifiers) - NAMED
    return ", ".join(identifiers[:NAMED]) + (f" and {others} other{'s' * (others > 1)}" if others > 0 else "")
