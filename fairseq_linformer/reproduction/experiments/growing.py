"""Reaching a long n: by doubling it again and again, in one step, or from the beginning.

    fairseq-linformer reproduce growing --scale cpu --text TEXT
"""

from ..records import Record
from ..registry import Claim
from ..runs import Model, Models, Run, trunk
from ..scales import Scale
from ..statistics import perplexity_at_most
from ..training import TrainingExperiment, comparison
from .figure_3 import GROUNDS, RATIO


def models(scale: Scale) -> Models:
    """RoBERTa with as many updates in all."""
    n = 2 * scale.compared_n

    def at_once(scale: Scale, seed: int) -> Run:
        doublings = (n // scale.n).bit_length() - 1
        return Run(Model(n), seed, "grown-at-once", doublings * scale.grown, trunk(scale, scale.n, seed))

    def scratch(scale: Scale, seed: int) -> Run:
        return Run(Model(n), seed, "scratch", scale.base + at_once(scale, seed).updates)

    return {"roberta": lambda scale, seed: trunk(scale, n, seed), "at once": at_once, "from scratch": scratch}


def doubling_is_lowest(record: Record) -> tuple:
    others = ["at once", "from scratch"]
    return ["roberta", *others], [perplexity_at_most(record, "roberta", other) for other in others]


CLAIM = Claim(
    "growing", "this project: convert resize",
    "With as many updates in all, a RoBERTa (`roberta`) whose n was doubled again and again has a lower perplexity than one "
    "that grew to the same n at once, or learnt at it from scratch.",
    f"Holds if {RATIO} of roberta over at once and over from scratch is at most 1; does not hold if one is above 1." + GROUNDS,
    comparison("growing", doubling_is_lowest),
)  # fmt: skip
EXPERIMENTS = (TrainingExperiment("growing", "Growing to a longer n", [CLAIM], models),)
