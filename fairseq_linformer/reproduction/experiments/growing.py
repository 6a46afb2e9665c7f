"""Reaching a long n: by doubling n repeatedly, in one step, or from scratch.

Usage:

    fairseq-linformer reproduce growing --scale cpu --data TEXT
"""

from ..claim import Claim
from ..comparisons import EQUAL_UPDATES, KNOWN, Comparison, comparison, perplexity_at_most
from ..records import Record
from ..runs import Model, Models, Run, trunk
from ..scales import Scale
from ..training import TrainingExperiment


def models(scale: Scale) -> Models:
    """RoBERTas of one n, each with the same total number of updates."""
    n = 2 * scale.compared_n

    def at_once(scale: Scale, seed: int) -> Run:
        doublings = (n // scale.n).bit_length() - 1
        return Run(Model(n), seed, "grown-at-once", doublings * scale.grown, trunk(scale, scale.n, seed))

    def scratch(scale: Scale, seed: int) -> Run:
        return Run(Model(n), seed, "scratch", scale.base + at_once(scale, seed).updates)

    return {"roberta": lambda scale, seed: trunk(scale, n, seed), "at once": at_once, "from scratch": scratch}


def doubling_is_lowest(record: Record) -> Comparison:
    others = ["at once", "from scratch"]
    checks = [perplexity_at_most(record, "roberta", other) for other in others]
    return Comparison(["roberta", *others], checks, at_equal_updates=True)


CLAIM = Claim(
    "growing",
    "this project: convert resize",
    "At equal updates, doubling n repeatedly beats growing in one step and training at the long n from scratch.",
    "Holds if roberta, which doubles, has at most the perplexity of at once and of from scratch, after equally many "
    f"updates; does not hold if it has more than one of them. {EQUAL_UPDATES} {KNOWN}",
    comparison("growing", doubling_is_lowest),
)
EXPERIMENTS = (TrainingExperiment("growing", "Growing to a longer n", [CLAIM], models),)
