"""Kinds of projection: learned E and F compared with pooling and convolution, which section 4 of the paper names but
does not measure.

Usage:

    fairseq-linformer reproduce projections --scale cpu --data TEXT
"""

from ..claim import Claim
from ..comparisons import CONVERGED, KNOWN, Comparison, comparison, perplexity_at_most, perplexity_ratio
from ..records import Record
from ..runs import Model, Models, compared_run, default_start
from ..scales import Scale
from ..training import TrainingExperiment
from .figure_3 import OWN_START

OTHERS = ("mean-pool", "max-pool", "conv")
EARLIER_PLANS = (
    "the first position had no window of its own, window sizes were not counted, and the default start of "
    "linear was not measured",
)


def models(scale: Scale) -> Models:
    """Linear and conv have the same start, that of conv, which has fewer; pooling learns nothing."""
    n, start = scale.compared_n, default_start(projection="conv")
    models = {"roberta": Model(n), "linear": Model(n, n // 4, start=start)}
    models |= {kind: Model(n, n // 4, projection=kind) for kind in OTHERS}
    if default_start() != start:
        models["linear" + OWN_START] = Model(n, n // 4)
    return {label: compared_run(model) for label, model in models.items()}


def linear_is_lowest(record: Record) -> Comparison:
    own = perplexity_ratio(record, "linear" + OWN_START, "linear")
    return Comparison(
        ["linear", *OTHERS],
        [perplexity_at_most(record, "linear", other) for other in OTHERS],
        remarks=[f"{own}; not part of the verdict"] if own else [],
    )


CLAIM = Claim(
    "projections",
    "this project: general projections",
    "Learned E and F have a lower perplexity than pooling and convolution.",
    "Holds if linear has at most the perplexity of mean-pool, max-pool and conv, linear and conv with the same start; "
    f"does not hold if it has more than one of them. (The paper names these kinds in section 4 and measures none.) "
    f"{CONVERGED} {KNOWN}",
    comparison("projections", linear_is_lowest, EARLIER_PLANS),
)
EXPERIMENTS = (TrainingExperiment("projections", "General projections", [CLAIM], models, earlier_plans=EARLIER_PLANS),)
