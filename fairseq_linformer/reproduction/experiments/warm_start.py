"""Training a Linformer from scratch, and converting a RoBERTa: which k is best, and which way is better.

    fairseq-linformer reproduce warm-start --scale cpu --text TEXT
"""

from ..records import Record
from ..registry import Claim
from ..runs import Model, Models, Run, compared, from_scratch
from ..scales import Scale
from ..statistics import decreasing_perplexity, perplexity_at_most
from ..training import TrainingExperiment, comparison
from .figure_3 import BEFORE, GROUNDS, RATIO, models_by_k


def scratch_models(scale: Scale) -> Models:
    n = scale.n
    return {"roberta": from_scratch(Model(n)), **{f"k={n // part}": from_scratch(Model(n, n // part)) for part in (4, 2)}}


def k_and_roberta_in_order(record: Record) -> tuple:
    models = models_by_k(record)
    return models, decreasing_perplexity(record, [*models, "roberta"])


def warm_start_models(scale: Scale) -> Models:
    """Equal schedules and updates in all: halfway a RoBERTa becomes a Linformer, or the model was one from the beginning."""
    model = Model(scale.n, scale.n // 2)

    def continued(scale: Scale, seed: int) -> Run:
        return Run(model, seed, "continued", scale.compared, from_scratch(model)(scale, seed), decays=True)

    return {"roberta": compared(Model(scale.n)), "converted": compared(model), "from scratch": continued}


def converted_is_lower(record: Record) -> tuple:
    return ["converted", "from scratch"], [perplexity_at_most(record, "converted", "from scratch")]


SCRATCH = Claim(
    "scratch", "this project: training from scratch",
    "From scratch too, a larger k has a lower perplexity, and RoBERTa the lowest.",
    f"Holds if {RATIO} of k = n / 2 over k = n / 4, and of RoBERTa over k = n / 2, is at most 1; does not hold if one is above 1."
    + GROUNDS + BEFORE, comparison("scratch", k_and_roberta_in_order),
)  # fmt: skip
WARM_START = Claim(
    "warm-start", "this project: convert from-roberta",
    "With as many updates in all, a converted RoBERTa has a lower perplexity than a Linformer from scratch.",
    f"Holds if {RATIO}, converted over from scratch, is at most 1; does not hold if it is above 1." + GROUNDS + BEFORE,
    comparison("warm-start", converted_is_lower),
)  # fmt: skip
EXPERIMENTS = (
    TrainingExperiment("scratch", "Training from scratch", [SCRATCH], scratch_models),
    TrainingExperiment("warm-start", "Warm start", [WARM_START], warm_start_models),
)
