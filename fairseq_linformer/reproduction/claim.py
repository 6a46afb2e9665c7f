"""Claims of the paper and of this project, with the rules of their verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass

from .records import Record
from .statistics import Evaluate, Verdict


@dataclass(frozen=True)
class Claim:
    """
    Attributes:
        identifier: unique among all claims.
        where: place in the paper, with its n and k where stated; or ``this project: ...``.
        statement: the claim, in a sentence.
        rule: of the verdict, in words, written before the runs.
        evaluate: computes the verdict by the rule.
    """

    identifier: str
    where: str
    statement: str
    rule: str
    evaluate: Evaluate

    def verdict(self, records: Sequence[Record], scale: str) -> Verdict:
        return self.evaluate(records, scale)
