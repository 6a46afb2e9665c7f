"""Documents per second of a Linformer in PyTorch, as an ONNX graph and as an int8 graph.

Usage:

    fairseq-linformer reproduce int8-speed --scale cpu

Random tokens without padding, two threads, all models in turn in each round. Weights do not matter for time, so nothing
is trained; all layers share one E.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...benchmark.timing import choose_clock, num_threads
from ...checkpoints.onnx_export import check_packages
from .. import document_models as models
from ..claim import Claim
from ..document_speed import RATE, RATIO, RATIO_UNIT, speed_measurements
from ..inputs import Inputs
from ..records import Measurement, Record
from ..report.tables import MISSING, Table
from ..rules import every_round_at_least, rule
from ..statistics import Check
from ..untrained_experiment import RANDOM_TOKENS, UntrainedExperiment

NAME = "int8-speed"
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

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        started, sizes = time.monotonic(), SIZES[scale]
        with num_threads(sizes["threads"]), TemporaryDirectory() as folder:
            clock, measurements = choose_clock("cpu"), []
            for n in sizes["lengths"]:
                measurements += _time_length(n, sizes, clock, Path(folder))
        claim = "Documents per second of Linformers in PyTorch, as ONNX graphs and as int8 graphs"
        configuration = {"sizes": sizes, "threads": sizes["threads"], "clock": clock}
        return [
            self.record(scale, command, started, claim, measurements, configuration, {RATIO_UNIT: 0.25}, RANDOM_TOKENS)
        ]

    def tables(self, records: Sequence[Record]) -> list[Table]:
        """A row per model, a column per n."""
        return [_table(record) for record in records]


def _time_length(n: int, sizes: dict[str, Any], clock: str, graphs: Path) -> list[Measurement]:
    models.write_graphs(graphs, n, sizes)
    names = [name for model, others in PAIRS for name in (model, *others)]
    seconds = models.time_models(names, n, sizes, sizes["rounds"], clock, graphs)
    pairs = [(model, other) for model, others in PAIRS for other in others]
    return list(speed_measurements(seconds, pairs, models.count_documents(n, sizes), n))


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
        f"{record.identifier}: documents per second, n tokens each, k = {sizes['k']}, {sizes['threads']} threads; in "
        "parentheses how many times as fast int8 is, median, lowest and highest of the rounds"
    )
    return Table(["model", *(f"n = {n}" for n in sizes["lengths"])], rows, caption)


EXPERIMENTS = (Int8Speed(),)
