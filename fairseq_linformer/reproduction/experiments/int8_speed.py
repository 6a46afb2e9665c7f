"""Documents per second of a Linformer in PyTorch, as an ONNX graph and as an int8 graph.

Usage:

    fairseq-linformer reproduce int8-speed --scale cpu

Random tokens without padding, two threads, all models in turn in each round. Weights do not matter for time, so nothing
is trained; all layers share one E.
"""

import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch

from ...benchmark.timing import choose_clock, num_threads, ratio_spread, summarize, time_interleaved
from ...checkpoints.onnx_export import check_packages
from ...machine import current_commit
from .. import document_models as models
from ..cells import every_round_at_least, rule, spread
from ..records import Measurement, Paper, Record, ScaleName, circumstances
from ..registry import Claim, Inputs, UntrainedExperiment, check_configuration
from ..report.tables import MISSING, Table
from ..statistics import Check

NAME = "int8-speed"
RATIO, RATE = "time_ratio", "documents_per_second"
LIMIT_N, MIN_RATIO = 512, 1.5
"""n of the claim, and how many times as fast int8 must be."""
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "lengths": (32,),
        "rounds": 2,
        "tokens": 64,
        "layers": 1,
        "width": 32,
        "heads": 2,
        "vocabulary": 100,
        "k": 8,
        "window": 4,
        "threads": 1,
    },
    "cpu": {
        "lengths": (32, 128, LIMIT_N),
        "rounds": 9,
        "tokens": 2048,
        "layers": 6,
        "width": 384,
        "heads": 12,
        "vocabulary": 30522,
        "k": 128,
        "window": 16,
        "threads": 2,
    },
}
"""By scale, as in ``long_documents.py``."""
PAIRS = (
    (models.INT8, (models.LINFORMER, models.ONNX)),
    (models.WINDOWED_INT8, (models.WINDOWED, models.WINDOWED_ONNX)),
)
"""Each int8 model, with those in single precision."""


def _checks(record: Record) -> list[Check]:
    return [
        every_round_at_least(record, model, other, LIMIT_N, MIN_RATIO) for model, others in PAIRS for other in others
    ]


CLAIMS = (
    Claim(
        NAME,
        "this project: convert to-onnx --int8",
        "An int8 Linformer classifies at least one and a half times as fast as in single precision.",
        f"Time of PyTorch, and of the ONNX graph, over that of the int8 graph, with and without a local window, at n = "
        f"{LIMIT_N} on two threads: holds if each is at least {MIN_RATIO:g} in every interleaved round; otherwise does "
        "not hold. (Written before the first measurement on two threads.)",
        rule(NAME, f"{NAME}-*", _checks),
    ),
)


class Int8Speed(UntrainedExperiment):
    """Forward passes of classifiers in three runtimes, with and without a local window; writes only its record."""

    name, title, claims, scales = NAME, "Speed in 8 bits", CLAIMS, tuple(SIZES)

    def check(self, scale: str, inputs: Inputs) -> None:
        super().check(scale, inputs)
        check_packages(self.name)

    def cost(self, scale: str) -> str:
        sizes = SIZES[scale]
        return f"6 models, {len(sizes['lengths'])} lengths, {sizes['rounds']} rounds"

    def check_same(self, record: Record, inputs: Inputs) -> None:
        check_configuration(record, {"sizes": SIZES[record.scale]})

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        start, sizes = time.monotonic(), SIZES[scale]
        with num_threads(sizes["threads"]), TemporaryDirectory() as folder:
            clock, measurements = choose_clock("cpu"), []
            for n in sizes["lengths"]:
                measurements += _time_length(n, sizes, clock, Path(folder))
        record = Record(
            identifier=f"{NAME}-{scale}",
            experiment=NAME,
            made_by="reproduce",
            claim="Documents per second of Linformers in PyTorch, as ONNX graphs and as int8 graphs",
            paper=Paper(where="not in the paper"),
            measurements=measurements,
            commit=current_commit(),
            configuration={**json.loads(json.dumps({"sizes": sizes})), "threads": sizes["threads"], "clock": clock},
            seconds=round(time.monotonic() - start, 3),
            tolerance={"ratio of times": 0.25},
            **circumstances("none: random tokens", command, cast(ScaleName, scale)),
        )
        return [record]

    def tables(self, records: Sequence[Record]) -> list[Table]:
        """A row per model, a column per n."""
        return [_table(record) for record in records]


@torch.inference_mode()
def _time_length(n: int, sizes: dict[str, Any], clock: str, graphs: Path) -> list[Measurement]:
    documents, found = max(1, sizes["tokens"] // n), []
    models.write_graphs(graphs, n, sizes)
    tokens = models.build_tokens(documents, n, sizes)
    names = [name for model, others in PAIRS for name in (model, *others)]
    runs = {name: partial(models.build_call(name, n, sizes, graphs), tokens) for name in names}
    seconds = time_interleaved(runs, sizes["rounds"], clock=clock)
    for name, times in seconds.items():
        rate = summarize([documents / each for each in times])
        found.append(Measurement(metric=RATE, model=name, n=n, **spread(rate, "documents per second")))
    for model, others in PAIRS:
        for other in others:
            ratio = spread(ratio_spread(seconds[other], seconds[model]), "ratio of times")
            found.append(Measurement(metric=RATIO, model=model, baseline=other, n=n, **ratio))
    return found


def _table(record: Record) -> Table:
    sizes, rows = record.configuration["sizes"], []
    for model, others in PAIRS:
        for name in (*others, model):
            cells = []
            for n in sizes["lengths"]:
                rate, ratio = record.find(RATE, model=name, n=n), record.find(RATIO, model=model, baseline=name, n=n)
                cell = MISSING if rate is None else f"{rate.value:,.3g}"
                cells.append(
                    cell if ratio is None else f"{cell} ({ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}])"
                )
            rows.append([name, *cells])
    caption = (
        f"{record.identifier}: documents of n tokens per second, k = {sizes['k']}, {sizes['threads']} threads; in "
        "parentheses how many times as fast int8 is, median, lowest and highest of the rounds"
    )
    return Table(["model", *(f"n = {n}" for n in sizes["lengths"])], rows, caption)


EXPERIMENTS = (Int8Speed(),)
