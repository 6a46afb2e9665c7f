"""Kinds of projection: learned E and F beside pooling and convolution (section 4 of the paper names them and measures none).

    fairseq-linformer reproduce projections --scale cpu --text TEXT
"""

from ..records import Record
from ..registry import Claim
from ..runs import Model, Models, compared
from ..scales import Scale
from ..statistics import perplexity_at_most
from ..training import TrainingExperiment, comparison
from .figure_3 import BEFORE, GROUNDS, RATIO

STARTS = {"linear": "average", "conv": "average", "mean-pool": None, "max-pool": None}
"""How each kind starts; pooling learns nothing."""


def models(scale: Scale) -> Models:
    n = scale.compared_n
    kinds = {kind: compared(Model(n, n // 4, projection=kind, start=start)) for kind, start in STARTS.items()}
    return {"roberta": compared(Model(n)), **kinds}


def linear_is_lowest(record: Record) -> tuple:
    others = ["mean-pool", "max-pool", "conv"]
    return ["linear", *others], [perplexity_at_most(record, "linear", other) for other in others]


CLAIM = Claim(
    "projections", "this project: general projections",
    "E and F that are learnt have a lower perplexity than pooling and convolution.",
    f"Holds if {RATIO} of linear over mean-pool, max-pool and conv is at most 1; does not hold if one is above 1. (Section 4 of the "
    "paper names these kinds, and measures none.)" + GROUNDS + BEFORE, comparison("projections", linear_is_lowest),
)  # fmt: skip
EXPERIMENTS = (TrainingExperiment("projections", "General projections", [CLAIM], models),)
