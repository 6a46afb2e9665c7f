"""Tables and charts of trained models: final perplexities, and validation curves."""

from collections.abc import Mapping, Sequence
from typing import Any

from .records import Record
from .report.charts import Chart, Series
from .report.tables import Table, spread_cells
from .runs import AUTHORS

LEVELS = {
    "context_free": "without context",
    "unigram": "by the frequency of each token",
    "valid_context_free": "without context, on the validation split",
}
"""Labels that earlier records use for levels of a text, not of a model."""
MAX_LINES = 10
"""Charts with more lines would be unreadable and are omitted; the table has the numbers."""


def perplexity_table(record: Record) -> list[Table]:
    """Models with their final perplexity, its spread, and their ratio to RoBERTa's; context-free levels last."""
    final = [m for m in record.select("perplexity", seed=None) if m.model not in LEVELS]
    if not final:
        return []
    roberta = {m.n: m for m in final if (m.model or "").startswith("roberta")}
    single = next((m for m in final if m.model == "roberta"), None)

    def over(value: float, n: int | None) -> str:
        base = roberta.get(n, single) if len(roberta) > 1 else single
        return f"{value / base.value:.3f}" if base else ""

    rows: list[Sequence[str]] = [[m.model or "", *spread_cells(m, 2), over(m.value, m.n)] for m in final]
    levels = record.select("context_free_bits")
    shared = record.configuration.get("n")
    for m in levels:
        name = "without context" + f", n={m.n}" * (m.n != shared)
        rows.append([name, f"{2**m.value:.2f}", "", "", over(2**m.value, m.n)])
    for model, text in LEVELS.items():
        if level := record.find("perplexity", model=model):
            rows.append([text, f"{level.value:.2f}", "", "", over(level.value, None)])
    caption = "final validation perplexity" if levels else "final perplexity on held-out text"
    heads = ["model", "perplexity", "lowest to highest", "runs", "over RoBERTa's"]
    return [Table(heads, rows, f"{record.identifier}: {caption}")]


def curves_charts(record: Record, title: str) -> list[Chart]:
    """Validation perplexity over updates. Models with the authors' initialization have a chart of their own, with the
    same RoBERTas."""
    models = list(dict.fromkeys(curve.model or "" for curve in record.curves))
    theirs = [model for model in models if model.endswith(AUTHORS)]
    charts = curves_chart(record, title, [model for model in models if model not in theirs])
    robertas = [model for model in models if model.startswith("roberta")]
    return charts + (curves_chart(record, title, [*robertas, *theirs], AUTHORS) if theirs else [])


def curves_chart(record: Record, title: str, models: Sequence[str], ending: str = "") -> list[Chart]:
    """A line per model and seed.

    Args:
        ending: suffix of the labels to move to the title.
    """
    by_model: dict[str, list] = {model: [] for model in models}
    for curve in record.curves:
        if (curve.model or "") in by_model:
            points = [(x, 2**y if curve.metric == "bits" else y) for x, y in curve.points]
            by_model[curve.model or ""].append(points)
    if not by_model or len(by_model) > MAX_LINES:
        return []
    shared = _shared_words([model.split(" ") for model in by_model]) if len(by_model) > 1 else ""
    colors = _paired_colors(record, list(by_model))
    series = [
        Series(
            model.removeprefix(shared).removesuffix(ending),
            runs,
            model in colors and model.startswith("roberta"),
            colors.get(model),
        )
        for model, runs in by_model.items()
    ]
    level = record.find("context_free_bits", n=record.configuration.get("n"))
    old = record.find("perplexity", model="valid_context_free")
    value = 2**level.value if level else old and old.value
    levels = [(f"without context: {value:.0f}", value)] if value else []
    axis, note = _updates_axis(record)
    about = f" ({shared.strip()})" if shared else ""
    return [
        Chart(
            f"curves-{record.identifier}" + "-authors" * bool(ending),
            title + about + ending,
            axis,
            "validation perplexity",
            series,
            levels,
            log_y=True,
            note=note,
        )
    ]


def _shared_words(labels: list[list[str]]) -> str:
    """The words that all labels begin with."""
    words = []
    for column in zip(*(label[:-1] for label in labels)):
        if len(set(column)) > 1:
            break
        words.append(column[0])
    return "".join(word + " " for word in words)


def _paired_colors(record: Record, models: Sequence[str]) -> dict[str, int]:
    """Give the models of each n one color if each n has its own RoBERTa."""
    n_of = {m.model: m.n for m in record.select("perplexity", seed=None)}
    controls = [model for model in models if model.startswith("roberta")]
    if len(controls) < 2:
        return {}
    colors = {model: i for i, model in enumerate(model for model in models if model not in controls)}
    by_n = {n_of[model]: color for model, color in colors.items()}
    return colors | {model: by_n.get(n_of[model], len(colors)) for model in controls}


def _updates_axis(record: Record) -> tuple[str, str]:
    """Axis title, which names where the updates start, and a note on the points of a curve."""
    runs = {
        name: run
        for name, run in record.configuration.get("runs", {}).items()
        if isinstance(run, dict) and "made" in run
    }
    if not runs:
        return "updates", ""
    note = (
        "Each point is measured on a part of the validation split, which depends on the seed; the tables use the whole "
        "split, with the same masks for all models."
    )
    starts = [run.get("from") for run in runs.values()]
    before = {name: _total_updates(run.get("from")) for name, run in runs.items()}
    if not any(starts):
        return "updates, from scratch", note
    if len(set(before.values())) > 1:
        return (
            "updates of the last stage",
            f"{note} Updates before the last stage: {', '.join(f'{name} {u:,}' for name, u in before.items())}.",
        )
    updates = next(iter(before.values()))
    if all(start == starts[0] for start in starts):
        return f"updates after the common RoBERTa of {updates:,} updates", note
    if all(start["model"].get("k") is None for start in starts if start):
        return (
            f"updates after a RoBERTa of {updates:,} updates",
            f"{note} Each n starts from the RoBERTa of that n, after the same number of updates.",
        )
    return f"updates after each model's first {updates:,}", note


def _total_updates(run: Mapping[str, Any] | None) -> int:
    return 0 if run is None else run["updates"] + _total_updates(run.get("from"))
