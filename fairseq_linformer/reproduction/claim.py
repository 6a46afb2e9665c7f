"""Claims of the paper and of this project, with the rules of their verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .commits import commit_remarks
from .records import Record
from .statistics import Evaluate, Verdict


@dataclass(frozen=True)
class EarlierRule:
    """A rule that was replaced by another.

    Attributes:
        rule: as it read.
        until: date of the change, YYYY-MM-DD.
        data_known: whether numbers that the new rule evaluates were known when it was written.
        reason: of the change, in a sentence.
    """

    rule: str
    until: str
    data_known: bool
    reason: str


@dataclass(frozen=True)
class Claim:
    """
    Attributes:
        identifier: unique among all claims.
        where: place in the paper, with its n and k where stated; or ``this project: ...``.
        statement: the claim, in a sentence.
        rule: of the verdict, in words, written before the runs. A record keeps the rules as they read then.
        evaluate: computes the verdict by the rule.
        history: its earlier rules, the oldest first; the report shows them.
    """

    identifier: str
    where: str
    statement: str
    rule: str
    evaluate: Evaluate
    history: tuple[EarlierRule, ...] = ()

    def verdict(self, records: Sequence[Record], scale: str) -> Verdict:
        """``evaluate``, with a remark on each record whose commit does not identify the code."""
        found = self.evaluate(records, scale)
        used = (record for record in records if record.identifier in found.records)
        remarks = [remark for record in used for remark in commit_remarks(record)]
        return replace(found, remarks=[*remarks, *found.remarks])
