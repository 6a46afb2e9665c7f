"""How E and F start: window averages, the authors' N(0, 0.02), and today's default.

    fairseq-linformer reproduce starts --scale cpu --text TEXT
"""

from dataclasses import replace

from ..records import Record
from ..registry import Claim
from ..runs import Model, Models, compared
from ..scales import Scale
from ..statistics import perplexity_at_most, perplexity_ratio
from ..training import TrainingExperiment, comparison
from .figure_3 import BEFORE, GROUNDS, RATIO

FULL_RATE = "normal at the full rate"
"""The authors' E and F start normal and learn at the rate of the other parameters."""


def models(scale: Scale) -> Models:
    n = scale.compared_n
    starts = {start: Model(n, n // 4, start=start) for start in ("average", "normal", "staggered")}
    starts[FULL_RATE] = replace(starts["normal"], rate=1.0)
    return {"roberta": compared(Model(n)), **{start: compared(model) for start, model in starts.items()}}


def average_is_lower(record: Record) -> tuple:
    """Staggered windows, today's default, came later: reported beside."""
    others, later = ["normal", FULL_RATE], perplexity_ratio(record, "staggered", "average")
    remarks = [f"{later}; no part of the verdict"] if later else []
    return ["average", *others], [perplexity_at_most(record, "average", other) for other in others], ("roberta",), remarks


CLAIM = Claim(
    "starts", "this project: how E and F start",
    "Window averages are a better start of E and F than the authors' N(0, 0.02), whether that learns at the rate of this project or at "
    "the full one, as theirs.",
    f"Holds if {RATIO} of average over normal, and over normal at the full rate, is at most 1; does not hold if one is above 1."
    + GROUNDS + BEFORE, comparison("starts", average_is_lower),
)  # fmt: skip
EXPERIMENTS = (TrainingExperiment("starts", "How E and F start", [CLAIM], models),)
