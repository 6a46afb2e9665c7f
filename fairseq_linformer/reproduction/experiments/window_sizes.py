"""Proportional attention: windows weighted by their number of tokens, or all alike (``--window-sizes``).

Usage:

    fairseq-linformer reproduce window-sizes --scale cpu --data TEXT
"""

from ..claim import Claim
from ..comparisons import EQUAL_UPDATES, Comparison, comparison, perplexity_at_most
from ..records import Record
from ..runs import Model, Models, compared_run
from ..scales import Scale
from ..training import TrainingExperiment

K_DIVISORS = (4, 2)
"""k is n divided by each of these."""
SIZES = {"counted": None, "ignored": "ignored"}
"""The default, and the other value."""


def label(k: int, sizes: str) -> str:
    return f"k={k}, {sizes}"


def models(scale: Scale) -> Models:
    n = scale.compared_n
    found = {"roberta": compared_run(Model(n))}
    for divisor in K_DIVISORS:
        for name, sizes in SIZES.items():
            found[label(n // divisor, name)] = compared_run(Model(n, n // divisor, window_sizes=sizes))
    return found


def counting_helps(record: Record) -> Comparison:
    ks = sorted({m.k for m in record.select("perplexity", seed=None) if m.k})
    checks = [perplexity_at_most(record, label(k, "counted"), label(k, "ignored")) for k in ks]
    return Comparison([label(k, name) for k in ks for name in SIZES], checks, at_equal_updates=True)


CLAIM = Claim(
    "window-sizes",
    "this project: --window-sizes",
    "At equal updates, windows weighted by their number of tokens lower the perplexity.",
    "Holds if k = n / 4 and k = n / 2 with counted sizes have at most the perplexity of the same k with ignored sizes, "
    f"after as many updates; does not hold if one has more. {EQUAL_UPDATES} (Written before the first measurement with "
    "ignored sizes.)",
    comparison("window-sizes", counting_helps),
)
EXPERIMENTS = (TrainingExperiment("window-sizes", "Window sizes", [CLAIM], models),)
