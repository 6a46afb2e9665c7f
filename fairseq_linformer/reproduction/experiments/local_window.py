"""Exact attention to neighbors next to the projected positions (``--local-window``), beyond equation (7) of the paper.

Usage:

    fairseq-linformer reproduce local-window --scale cpu --data TEXT
    fairseq-linformer reproduce local-window-long --scale cpu --data TEXT

Each model is next to k = 1 with the same window, which hardly sees E and F: what it reaches is owed to the neighbors.
"""

from collections.abc import Callable

from ..comparisons import EQUAL_UPDATES, Comparison, comparison, perplexity_at_most
from ..records import Record
from ..registry import Claim
from ..runs import Model, Models, compared_run
from ..scales import Scale
from ..training import TrainingExperiment

REACHES = (0, 4, 16)
"""W of the compared models."""
K_DIVISORS = (8, 4, 2)
"""k is n divided by each of these."""
NEAR = 1.10
"""Maximum ratio to RoBERTa's perplexity."""


def label(k: int, reach: int) -> str:
    return f"k={k}, W={reach}"


def by_reach(n: int) -> Models:
    models = {"roberta": Model(n)}
    for k in (1, *(n // divisor for divisor in K_DIVISORS)):
        models |= {label(k, reach): Model(n, k, local_window=reach) for reach in REACHES if reach < n}
    return {name: compared_run(model) for name, model in models.items()}


def quarter_is_near(record: Record) -> Comparison:
    model = label(record.configuration["n"] // 4, REACHES[-1])
    return Comparison([model], [perplexity_at_most(record, model, "roberta", NEAR)], at_equal_updates=True)


def projections_help(record: Record) -> Comparison:
    """Compare each k with k = 1, at the largest W."""
    control, *models = (label(k, REACHES[-1]) for k in (1, *(record.configuration["n"] // d for d in K_DIVISORS)))
    checks = [perplexity_at_most(record, model, control, 1.0) for model in models]
    return Comparison([control, *models], checks, at_equal_updates=True)


def experiment(name: str, title: str, where: str, length: Callable[[Scale], int]) -> TrainingExperiment:
    claims = (
        Claim(
            f"{name}-par",
            where,
            f"At equal updates, k = n / 4 with {REACHES[-1]} exact neighbors per side is near the Transformer.",
            f"Holds if k = n / 4 with W = {REACHES[-1]} has at most {NEAR:g} times the perplexity of RoBERTa after as "
            f"many updates; does not hold if it has more. {EQUAL_UPDATES} (Written before the first measurement.)",
            comparison(name, quarter_is_near),
        ),
        Claim(
            f"{name}-projections",
            where,
            "At equal updates, next to exact neighbors, E and F still lower the perplexity.",
            f"Holds if k = n / 8, n / 4 and n / 2 with W = {REACHES[-1]} have at most the perplexity of k = 1 with the "
            f"same window; does not hold if one has more. {EQUAL_UPDATES} (Written before the first measurement.)",
            comparison(name, projections_help),
        ),
    )
    return TrainingExperiment(name, title, claims, lambda scale: by_reach(length(scale)))


EXPERIMENTS = (
    experiment("local-window", "Local window", "this project: --local-window", lambda scale: scale.compared_n),
    experiment(
        "local-window-long",
        "Local window at 8 times the n",
        "this project: --local-window, at 8 times the n",
        lambda scale: 8 * scale.compared_n,
    ),
)
