"""Sentences per second of an encoder in ``transformers`` and here, and of the Linformers converted from it.

Usage:

    fairseq-linformer reproduce encoder-speed --scale encoder --encoder NAME

Features of random tokens without padding, one thread, all models in turn in each round. Weights do not matter for time,
so nothing is trained; for n above the encoder's, positions are resized.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from ...benchmark.timing import choose_clock, num_threads, ratio_spread, summarize, time_interleaved
from ...checkpoints.from_transformers import read_transformers
from ...checkpoints.models import build_model
from ...checkpoints.resize import resize
from ...checkpoints.roberta import from_roberta
from ...checkpoints.transformers_loading import load_from_transformers
from ..cells import spread
from ..claim import Claim
from ..encoder_models import STAGGERED
from ..inputs import Inputs
from ..records import Measurement, Paper, Record
from ..report.charts import Chart, Series
from ..report.tables import MISSING, Table
from ..rules import rule
from ..statistics import Check, decide
from ..untrained_experiment import RANDOM_TOKENS, UntrainedExperiment

NAME = "encoder-speed"
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {"lengths": (16, 64), "k": 8, "window": 4, "tokens": 64, "rounds": 2},
    "encoder": {"lengths": (32, 128, 512, 1024, 4096), "k": 128, "window": 16, "tokens": 4096, "rounds": 7},
}
"""Lengths n, k of the Linformers, W of the second one, tokens per batch, and rounds, by scale."""
TRANSFORMERS, ROBERTA, LINFORMER, WINDOWED = "transformers", "Transformer", "Linformer", "Linformer, local window"
MODELS = (TRANSFORMERS, ROBERTA, LINFORMER, WINDOWED)
RATIO, RATE = "time_ratio", "sentences_per_second"
TOLERANCE = {"ratio of times": 0.25}
FASTER_FROM = {LINFORMER: 512, WINDOWED: 1024}
"""n from which each Linformer must be faster."""


def _checks(record: Record) -> list[Check]:
    """Every round at every n from ``FASTER_FROM`` on."""
    checks = []
    for m in record.select(RATIO):
        if m.n >= FASTER_FROM.get(m.model, m.n + 1):
            text = f"n = {m.n:,}: {m.model} {m.value:.2f} times as fast [{m.low:.2f}, {m.high:.2f}]; needs > 1"
            checks.append(decide(m.low > 1, text))
    return checks


CLAIMS = (
    Claim(
        NAME,
        "this project: convert from-transformers",
        "A converted Linformer is faster on long inputs than its Transformer in transformers.",
        f"Time of transformers over that of the model, in each interleaved round: holds if k = 128 is faster in every "
        f"round from n = {FASTER_FROM[LINFORMER]} on, and with W = 16 from n = {FASTER_FROM[WINDOWED]:,} on; otherwise "
        "does not hold. (Written before the first measurement.)",
        rule(NAME, f"{NAME}-*", _checks),
    ),
)


class EncoderSpeed(UntrainedExperiment):
    """Forward passes of four models at several n; writes only its record."""

    name, title, claims, scales = NAME, "Speed of a converted encoder", CLAIMS, tuple(SIZES)
    reads = ("encoder",)

    def cost(self, scale: str) -> str:
        sizes = SIZES[scale]
        return f"{len(sizes['lengths']) * len(MODELS)} models, {sizes['rounds']} rounds"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        started, sizes = time.monotonic(), SIZES[scale]
        checkpoint, _ = read_transformers(str(inputs.encoder))
        with num_threads(1):
            clock, measurements = choose_clock("cpu"), []
            for n in sizes["lengths"]:
                runs = _build_runs(str(inputs.encoder), checkpoint, n, sizes)
                seconds = time_interleaved(runs, sizes["rounds"], clock=clock)
                measurements += _summarize(seconds, n, sizes)
        claim = "Speed of an encoder in transformers and in this project, and of converted Linformers"
        configuration = {"sizes": sizes, "encoder": checkpoint["provenance"]["imported"], "threads": 1, "clock": clock}
        paper = Paper(where="not in the paper, whose Table 3 has a single layer on a GPU")
        return [
            self.record(scale, command, started, claim, measurements, configuration, TOLERANCE, RANDOM_TOKENS, paper)
        ]

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return [_table(record) for record in records]

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        """Sentences per second over n."""
        return [_chart(record, self.title) for record in records]


def _build_runs(
    encoder: str, checkpoint: dict[str, Any], n: int, sizes: dict[str, Any]
) -> dict[str, Callable[[], object]]:
    """A forward pass of each model on the same number of tokens."""
    from transformers import AutoConfig, AutoModel

    config = load_from_transformers(AutoConfig, encoder)
    shape = torch.Size((max(1, sizes["tokens"] // n), n))
    tokens = torch.randint(5, config.vocab_size, shape)
    positions = max(n, checkpoint["cfg"]["model"].max_positions)
    if positions > checkpoint["cfg"]["model"].max_positions:
        checkpoint = resize(checkpoint, positions)
        config.max_position_embeddings = positions + 2  # RoBERTa's begin at 2
    theirs = AutoModel.from_config(config, attn_implementation="sdpa").eval()
    options: dict[str, Any] = {"projected_dim": sizes["k"], "max_positions": positions, "projection_init": STAGGERED}
    ours = {
        ROBERTA: checkpoint,
        LINFORMER: from_roberta(checkpoint, **options),
        WINDOWED: from_roberta(checkpoint, local_window=sizes["window"], **options),
    }
    built = {name: build_model(each).eval() for name, each in ours.items()}

    def run_theirs() -> object:
        with torch.inference_mode():
            return theirs(input_ids=tokens)

    def run_ours(name: str) -> Callable[[], object]:
        def run() -> object:
            with torch.inference_mode():
                return built[name](tokens, features_only=True)

        return run

    return {TRANSFORMERS: run_theirs, **{name: run_ours(name) for name in built}}


def _summarize(seconds: dict[str, list[float]], n: int, sizes: dict[str, Any]) -> list[Measurement]:
    found = []
    sentences = max(1, sizes["tokens"] // n)
    for name, times in seconds.items():
        at: dict[str, Any] = {"model": name, "n": n, **({"k": sizes["k"]} if name.startswith(LINFORMER) else {})}
        rate = summarize([sentences / each for each in times])
        ratio = ratio_spread(seconds[TRANSFORMERS], times)
        for metric, values, unit in ((RATE, rate, "sentences per second"), (RATIO, ratio, "ratio of times")):
            if (metric, name) != (RATIO, TRANSFORMERS):
                found.append(Measurement(metric=metric, **at, **spread(values, unit)))
    return found


def _table(record: Record) -> Table:
    rows = []
    for n in record.configuration["sizes"]["lengths"]:
        cells = []
        for name in MODELS:
            rate, ratio = (record.find(metric, model=name, n=n) for metric in (RATE, RATIO))
            cell = MISSING if rate is None else f"{rate.value:,.4g}"
            if ratio is not None:
                cell += f" ({ratio.value:.2f}x, {ratio.low:.2f} to {ratio.high:.2f})"
            cells.append(cell)
        rows.append([f"{n:,}", *cells])
    encoder = record.configuration["encoder"]["name"]
    caption = (
        f"{record.identifier}: {encoder}, sentences per second, n tokens each, one thread; in parentheses how many "
        "times as fast as in transformers, lowest to highest of the rounds"
    )
    return Table(["n", *MODELS], rows, caption)


def _chart(record: Record, title: str) -> Chart:
    series = []
    for name in MODELS:
        line = [(float(m.n), m.value * m.n) for m in record.select(RATE, model=name)]
        series.append(Series(name, [line]))
    encoder = Path(record.configuration["encoder"]["name"]).name
    return Chart(record.identifier, f"{title}, {encoder}", "n", "tokens per second", series)


EXPERIMENTS = (EncoderSpeed(),)
