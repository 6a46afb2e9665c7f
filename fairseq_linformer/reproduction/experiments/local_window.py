"""Exact attention to neighbors next to the projected positions (``--local-window``), beyond equation (7) of the paper.

Usage:

    fairseq-linformer reproduce local-window --scale cpu --data TEXT
    fairseq-linformer reproduce local-window-long --scale cpu --data TEXT

Each model is compared with k = 1 at the same W. There E and F add one average of the text, so what k = 1 achieves comes
from the neighbors.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...config import LinformerConfig
from ...models.shapes import PADDING_IDX
from ...planning.formulas import Batch, PlannedModel, layer_flops
from ..claim import Claim
from ..comparisons import EQUAL_UPDATES, Comparison, bits_by_seed, comparison, perplexity_at_most
from ..records import Record
from ..report.charts import Chart, Series
from ..runs import Model, Models, compared_run
from ..scales import Scale
from ..training import TrainingExperiment

LOCAL_WINDOWS = (0, 4, 16)
"""W of the compared models."""
WIDEST = LOCAL_WINDOWS[-1]
K_DIVISORS = (8, 4, 2)
"""k is n divided by each of these."""
MAX_RATIO = 1.10
"""Maximum ratio to RoBERTa's perplexity."""


def label(k: int, local_window: int) -> str:
    return f"k={k}, W={local_window}"


def models_by_window(n: int) -> Models:
    models = {"roberta": Model(n)}
    for k in (1, *(n // divisor for divisor in K_DIVISORS)):
        models |= {
            label(k, local_window): Model(n, k, local_window=local_window)
            for local_window in LOCAL_WINDOWS
            if local_window < n
        }
    return {name: compared_run(model) for name, model in models.items()}


def quarter_is_near(limit: float) -> Callable[[Record], Comparison]:
    """k = n / 4 with the largest W has at most ``limit`` times RoBERTa's perplexity."""

    def compare(record: Record) -> Comparison:
        model = label(record.configuration["n"] // 4, WIDEST)
        return Comparison([model], [perplexity_at_most(record, model, "roberta", limit)], at_equal_updates=True)

    return compare


def projections_help(record: Record) -> Comparison:
    """Compare each k with k = 1, at the largest W."""
    control, *models = (label(k, WIDEST) for k in (1, *(record.configuration["n"] // d for d in K_DIVISORS)))
    checks = [perplexity_at_most(record, model, control, 1.0) for model in models]
    return Comparison([control, *models], checks, at_equal_updates=True)


def cost_chart(record: Record, title: str) -> list[Chart]:
    """Perplexity over the operations of a forward pass, both relative to RoBERTa's: a line per W, a point per k."""
    sizes = record.configuration["sizes"]
    lines: dict[int, list[list[tuple[float, float]]]] = {}
    roberta = bits_by_seed(record, "roberta")
    for m in record.select("perplexity", seed=None):
        found = re.fullmatch(r"k=\d+, W=(\d+)", m.model or "")
        bits = bits_by_seed(record, m.model or "")
        if found is None or m.k is None or m.n is None or not bits or bits.keys() != roberta.keys():
            continue
        x = operations(sizes, m.n, m.k, int(found[1])) / operations(sizes, m.n)
        runs = lines.setdefault(int(found[1]), [[] for _ in bits])
        for run, seed in zip(runs, bits):
            run.append((x, 2 ** (bits[seed] - roberta[seed])))
    series = [
        Series(f"W = {local_window}", [sorted(run) for run in runs]) for local_window, runs in sorted(lines.items())
    ]
    if not series:
        return []
    ks = sorted({m.k for m in record.select("perplexity", seed=None) if m.k})
    return [
        Chart(
            f"cost-{record.identifier}",
            title,
            "operations per token of a forward pass / RoBERTa's",
            "perplexity / RoBERTa's",
            series,
            [("RoBERTa", 1.0)],
            log_y=True,
            note=f"A line per W and seed; from left to right k = {', '.join(map(str, ks))}.",
        )
    ]


def operations(sizes: Mapping[str, Any], n: int, k: int | None = None, local_window: int = 0) -> float:
    """Operations per token of the layers of a Linformer, or of a Transformer if k is None."""
    config = LinformerConfig(
        PADDING_IDX + 1,
        n,
        k or 1,
        layers=sizes["layers"],
        embed_dim=sizes["width"],
        ffn_embed_dim=4 * sizes["width"],
        attention_heads=sizes["heads"],
        local_window=local_window,
    )
    model, batch = PlannedModel(config, linear=k is not None), Batch(1, n, n)
    return sum(layer_flops(model, batch, i).forward for i in range(sizes["layers"])) / n


class LocalWindowExperiment(TrainingExperiment):
    def charts(self, records: Sequence[Record]) -> list[Chart]:
        return [chart for record in records for chart in cost_chart(record, f"{self.title}, {record.scale} scale")]


def experiment(name: str, title: str, where: str, length: Callable[[Scale], int]) -> LocalWindowExperiment:
    claims = (
        Claim(
            f"{name}-par",
            where,
            f"At equal updates, k = n / 4 with a local window of {WIDEST} is near the Transformer.",
            f"Holds if k = n / 4 with W = {WIDEST} has at most {MAX_RATIO:g} times the perplexity of RoBERTa after as "
            f"many updates; does not hold if it has more. {EQUAL_UPDATES} (Written before the first measurement.)",
            comparison(name, quarter_is_near(MAX_RATIO)),
        ),
        Claim(
            f"{name}-projections",
            where,
            "At equal updates, next to a local window, E and F still lower the perplexity.",
            f"Holds if k = n / 8, n / 4 and n / 2 with W = {WIDEST} have at most the perplexity of k = 1 with the "
            f"same window; does not hold if one has more. {EQUAL_UPDATES} (Written before the first measurement.)",
            comparison(name, projections_help),
        ),
    )
    return LocalWindowExperiment(name, title, claims, lambda scale: models_by_window(length(scale)))


EXPERIMENTS = (
    experiment("local-window", "Local window", "this project: --local-window", lambda scale: scale.compared_n),
    experiment(
        "local-window-long",
        "Local window at 8 times the n",
        "this project: --local-window, at 8 times the n",
        lambda scale: 8 * scale.compared_n,
    ),
)
