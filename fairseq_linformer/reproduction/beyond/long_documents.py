"""A Linformer classifies long documents faster than other encoders of equal width and depth, in flat memory per token.

Random tokens without padding and random weights, two threads, all models in turn in each round; k = 256 at every n, as
in Figure 3 (d), and one E for all layers, as in Table 3; other options than sizes are the defaults of `transformers`
(`document_models.py`). BigBird is not measured where its attention is full, or takes n x n memory.

**speed**: every round is at least 3 times as fast as Longformer and 1.5 times as ModernBERT at n = 4,096, also if the
Linformer computes every position in its last layer, as they do; and 5 times as its Transformer with SDPA at n =
16,384, which computes only the first position there too. **memory**: the resident bytes per token that the forward
pass of one document adds at n = 16,384 are at most 1.2 times those at n = 4,096. (Written before the first
measurement.)
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...benchmark.timing import num_threads
from .. import document_models as models
from ..benchmarks import ratio_rows
from ..document_models import EVERY_POSITION, LINFORMER, LONGFORMER, MODERNBERT, OTHERS, TRANSFORMER
from ..page import Panel, Table, pivot
from ..result import Inputs, Parts, Result, Row, Rows, environment, join, repeated, significant
from ..verdict import UNDECIDED, Check, Verdict, decide, every_round_at_least

TITLE = "Long documents"
SAYS = "3 times as fast as Longformer, 1.5 times as ModernBERT, 5 times as its Transformer"
PARTS: Parts = {scale: {"documents": ()} for scale in ("smoke", "cpu")}
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {**models.SMOKE, "lengths": (128,), "rounds": (2,), "tokens": 128, "k": 16},
    "cpu": {
        **models.MINILM,
        "lengths": (512, 1024, 2048, 4096, 8192, 16384),
        "rounds": (3, 3, 3, 5, 3, 3),
        "tokens": 2048,
        "k": 256,
    },
}
"""Sizes of the models, lengths n, rounds at each, and tokens of a round (or one document)."""
PER_TOKEN, RATE, RATIO = "bytes_per_token", "documents_per_second", "time_ratio"
BARS = ((4096, LONGFORMER, 3.0), (4096, MODERNBERT, 1.5), (16384, TRANSFORMER, 5.0))
"""n, model, and how many times as fast as it the Linformer must be."""
FLAT = (4096, 16384, 1.2)


def run(part: str, scale: str, inputs: Inputs) -> Result:
    import onnxscript  # noqa: F401  without it, fail before any work

    sizes, rows = SIZES[scale], Rows()
    with num_threads(sizes["threads"]):
        for n, rounds in zip(sizes["lengths"], sizes["rounds"]):
            rows += measure_length(n, rounds, sizes)
    return Result(part, scale, rows, environment(inputs, "random tokens"), {"sizes": sizes})


def measure_length(n: int, rounds: int, sizes: dict[str, Any]) -> list[Row]:
    """Times of all models in turn, then the memory of each."""
    found: list[Row] = []
    names, documents = models.measured_models(n), models.count_documents(n, sizes)
    with TemporaryDirectory() as folder:
        graphs = Path(folder)
        models.write_graphs(graphs, n, sizes)
        seconds = models.time_models(names, n, sizes, rounds, graphs)
        for name in names:
            added = models.measure_memory(name, n, sizes, graphs)
            found.append(Row(metric=PER_TOKEN, model=name, n=n, value=significant(added / n), unit="bytes per token"))
    for name, times in seconds.items():
        rates = repeated([documents / each for each in times])
        found.append(Row(metric=RATE, unit="documents per second", model=name, n=n, **rates))
    return [*found, *ratio_rows(seconds, models.OURS, OTHERS, n=n)]


# Verdicts


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows = join(results)
    speed = f"A Linformer classifies long documents faster: {SAYS}."
    memory = "The memory per token that classifying a document takes does not grow with its length."
    return [Verdict("speed", speed, speed_checks(rows)), Verdict("memory", memory, memory_checks(rows))]


def speed_checks(rows: Rows) -> list[Check]:
    """Every bar in every round; against models that compute every position, also for a Linformer that does."""
    checks = []
    for n, other, bar in BARS if rows else ():
        for model in (LINFORMER, EVERY_POSITION)[: 1 if other == TRANSFORMER else 2]:
            row = rows.find(RATIO, model=model, baseline=other, n=n)
            checks.append(every_round_at_least(row, f"n = {n:,}: {model} over {other}", bar))
    return checks


def memory_checks(rows: Rows) -> list[Check]:
    short, long, most = FLAT
    first, last = (rows.find(PER_TOKEN, model=LINFORMER, n=n) for n in (short, long))
    text = f"bytes per token, n = {long:,} / n = {short:,}"
    if first is None or last is None:
        return [Check(UNDECIDED, f"{text} was not measured")] if rows else []
    growth = last.value / first.value
    return [decide(growth <= most, f"{text}: {growth:.2f}; needs ≤ {most:g}")]


# Tables and chart


def tables(results: Sequence[Result]) -> list[Table]:
    rows = join(results)
    ratios = [
        Row(row, models=f"{row.model} over {row.baseline}")
        for row in rows.select(RATIO)
        if row.model in (LINFORMER, EVERY_POSITION)
    ]
    title = "KiB per token that a forward pass adds to the loaded model"
    return [
        *pivot("Documents per second", rows.select(RATE), "model", "n"),
        *pivot("Times as fast, median [extremes of the rounds]", ratios, "models", "n"),
        *pivot(title, memory_rows(rows), "model", "n"),
    ]


def memory_rows(rows: Rows) -> Rows:
    """KiB per token."""
    return Rows(Row(row, value=row.value / 1024) for row in rows.select(PER_TOKEN))


def chart(results: Sequence[Result]) -> list[Panel]:
    """Tokens per second and memory per token, over n."""
    rows = Rows(row for row in join(results) if row.model != EVERY_POSITION)
    speed = Rows(Row(row, value=row.value * row.n) for row in rows.select(RATE)).lines("model", "n")
    memory = memory_rows(rows).lines("model", "n")
    windowed = [name for name in speed if "local window" in name]
    panels = [
        Panel("Speed", "n", "tokens per second", speed, {}, windowed, log_x=True, log_y=True),
        Panel("Memory", "n", "KiB per token", memory, {}, windowed, log_x=True, log_y=True),
    ]
    return panels if speed else []
