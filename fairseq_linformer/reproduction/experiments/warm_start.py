"""Linformers trained from scratch or converted from RoBERTa, for several k.

Usage:

    fairseq-linformer reproduce warm-start --scale cpu --data TEXT
"""

from ..claim import Claim
from ..comparisons import (
    CONVERGED,
    EQUAL_UPDATES,
    KNOWN,
    Comparison,
    comparison,
    decreasing_perplexity,
    perplexity_at_most,
)
from ..records import Record
from ..runs import Model, Models, Run, compared_run, run_from_scratch
from ..scales import Scale
from ..training import TrainingExperiment
from .figure_3 import labels_by_k

EARLIER_PLANS = (
    "E and F started as window averages, the first position had no window of its own, window sizes were not counted",
)


def scratch_models(scale: Scale) -> Models:
    n = scale.n
    return {
        "roberta": run_from_scratch(Model(n)),
        **{f"k={n // part}": run_from_scratch(Model(n, n // part)) for part in (4, 2)},
    }


def k_and_roberta_in_order(record: Record) -> Comparison:
    models = labels_by_k(record)
    return Comparison(models, decreasing_perplexity(record, [*models, "roberta"]))


def warm_start_models(scale: Scale) -> Models:
    """Equal schedules and total updates: a RoBERTa that is converted halfway, or a Linformer from the beginning."""
    model = Model(scale.n, scale.n // 2)

    def continued(scale: Scale, seed: int) -> Run:
        return Run(model, seed, "continued", scale.compared, run_from_scratch(model)(scale, seed), decays=True)

    return {"roberta": compared_run(Model(scale.n)), "converted": compared_run(model), "from scratch": continued}


def converted_is_lower(record: Record) -> Comparison:
    checks = [perplexity_at_most(record, "converted", "from scratch")]
    return Comparison(["converted", "from scratch"], checks, at_equal_updates=True)


SCRATCH = Claim(
    "scratch",
    "this project: training from scratch",
    "Trained from scratch, a larger k has a lower perplexity, and RoBERTa the lowest.",
    "Holds if k = n / 2 has at most the perplexity of k = n / 4, and RoBERTa at most that of k = n / 2; does not hold "
    f"if one has more. {CONVERGED} {KNOWN}",
    comparison("scratch", k_and_roberta_in_order, EARLIER_PLANS),
)
WARM_START = Claim(
    "warm-start",
    "this project: convert from-roberta",
    "At equal updates, a converted RoBERTa has a lower perplexity than a Linformer trained from scratch.",
    "Holds if converted has at most the perplexity of from scratch, after equally many updates; does not hold if it "
    f"has more. {EQUAL_UPDATES} {KNOWN}",
    comparison("warm-start", converted_is_lower, EARLIER_PLANS),
)
EXPERIMENTS = (
    TrainingExperiment("scratch", "Training from scratch", [SCRATCH], scratch_models, earlier_plans=EARLIER_PLANS),
    TrainingExperiment("warm-start", "Warm start", [WARM_START], warm_start_models, earlier_plans=EARLIER_PLANS),
)
