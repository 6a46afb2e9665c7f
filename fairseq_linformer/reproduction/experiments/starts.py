"""Initialization of E and F: window averages, the authors' N(0, 0.02), and the model's default.

Usage:

    fairseq-linformer reproduce starts --scale cpu --data TEXT
"""

from dataclasses import replace

from ..claim import Claim
from ..comparisons import EQUAL_UPDATES, KNOWN, Comparison, comparison, perplexity_at_most, perplexity_ratio
from ..records import Record
from ..runs import Model, Models, as_authors, compared_run
from ..scales import Scale
from ..training import TrainingExperiment

FULL_RATE = "normal at the full rate"
"""The authors' E and F: normal, with the learning rate of the other parameters."""
EARLIER_PLANS = (
    "the first position had no window of its own, window sizes were not counted, and it had staggered "
    "windows, the default then, in place of the model's default",
)


def models(scale: Scale) -> Models:
    default = Model(scale.compared_n, scale.compared_n // 4)
    starts = {start: replace(default, start=start) for start in ("average", "normal")}
    starts |= {FULL_RATE: as_authors(default), "default": default}
    return {
        "roberta": compared_run(Model(scale.compared_n)),
        **{start: compared_run(model) for start, model in starts.items()},
    }


def average_is_lower(record: Record) -> Comparison:
    others = ["normal", FULL_RATE]
    ratios = [perplexity_ratio(record, default, "average") for default in ("default", "staggered")]
    return Comparison(
        ["average", *others],
        [perplexity_at_most(record, "average", other) for other in others],
        remarks=[f"{ratio}; not part of the verdict" for ratio in ratios if ratio],
        at_equal_updates=True,
    )


CLAIM = Claim(
    "starts",
    "this project: initialization of E and F",
    "At equal updates, E and F initialized as window averages beat the authors' N(0, 0.02), at either learning rate.",
    "Holds if average has at most the perplexity of normal and of normal at the full rate, after equally many updates; "
    f"does not hold if it has more than one of them. {EQUAL_UPDATES} {KNOWN}",
    comparison("starts", average_is_lower, EARLIER_PLANS),
)
EXPERIMENTS = (TrainingExperiment("starts", "Initialization of E and F", [CLAIM], models, earlier_plans=EARLIER_PLANS),)
