"""Documents per second and peak memory: this Linformer next to other encoders of equal width and depth.

Usage:

    fairseq-linformer reproduce long-documents --scale cpu

Random tokens without padding, two threads, all models in turn in each round. Weights do not matter for time and memory,
so nothing is trained. k is 256 at every n, as in Figure 3 (d) of the paper, and all layers share one E, as in its Table
3. ``document_models.py`` has the models; other options than their sizes are the defaults of ``transformers``.
"""

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...benchmark.timing import choose_clock, num_threads
from ...planning.gpus import GIB
from .. import document_models as models
from ..cells import single_value
from ..claim import Claim
from ..document_models import EVERY_POSITION, LINFORMER, LONGFORMER, MODERNBERT, OTHERS, TRANSFORMER
from ..document_speed import RATE, RATIO, speed_measurements
from ..inputs import Inputs
from ..records import Measurement, Paper, Record
from ..report.charts import Chart, Series
from ..report.tables import MISSING, Table
from ..rules import every_round_at_least, rule
from ..statistics import UNDECIDED, Check, decide
from ..untrained_experiment import RANDOM_TOKENS, UntrainedExperiment

NAME = "long-documents"
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "lengths": (1024,),
        "rounds": (2,),
        "tokens": 1024,
        "layers": 1,
        "width": 32,
        "heads": 2,
        "vocabulary": 100,
        "k": 16,
        "window": 4,
        "threads": 1,
    },
    "cpu": {
        "lengths": (512, 1024, 2048, 4096, 8192, 16384),
        "rounds": (3, 3, 3, 5, 3, 3),
        "tokens": 2048,
        "layers": 6,
        "width": 384,
        "heads": 12,
        "vocabulary": 30522,
        "k": 256,
        "window": 16,
        "threads": 2,
    },
}
"""By scale: lengths n, rounds at each, the tokens of a round (or one document), and the sizes of the models: those of
all-MiniLM-L6-v2 at ``cpu``. k of the Linformers, W of those with a local window."""
LONGEST_WITH_WARM_UP = 4096
"""n up to which a round that is not recorded comes first; a round of longer documents takes minutes."""
PEAK, PER_TOKEN = "peak_bytes", "bytes_per_token"
TOLERANCE = {"ratio of times": 0.25, "bytes per token": 0.25}
PACKAGES = ("transformers", "onnx", "onnxscript", "onnxruntime")

BARS = ((4096, LONGFORMER, 3.0), (4096, MODERNBERT, 1.5), (16384, TRANSFORMER, 5.0))
"""n, model, and how many times as fast as it the Linformer must be."""
FLAT = (4096, 16384, 1.2)
"""The Linformer's bytes per token at the second n are at most this many times those at the first."""


def _speed_checks(record: Record) -> list[Check]:
    """Every bar in every round; against models that compute every position, also for a Linformer that does."""
    return [
        every_round_at_least(record, model, baseline, n, bar)
        for n, baseline, bar in BARS
        for model in (LINFORMER, EVERY_POSITION)[: 1 if baseline == TRANSFORMER else 2]
    ]


def _memory_checks(record: Record) -> list[Check]:
    short, long, most = FLAT
    first, last = (record.find(PER_TOKEN, model=LINFORMER, n=n) for n in (short, long))
    quantity = f"bytes per token, n = {long:,} / n = {short:,}"
    if first is None or last is None:
        return [Check(UNDECIDED, f"{quantity} was not measured")]
    growth = last.value / first.value
    return [decide(growth <= most, f"{quantity}: {growth:.2f}; needs ≤ {most:g}")]


_OURS = "Our Linformer is that of PyTorch without a local window, k = 256, layerwise sharing"
CLAIMS = (
    Claim(
        NAME,
        "this project: inference on long documents",
        "A Linformer classifies long documents faster than Longformer (3 times), ModernBERT (1.5 times) and its "
        "Transformer (5 times).",
        f"{_OURS}; time of the other model over its time, in each interleaved round. Holds if every round is at least "
        f"{BARS[0][2]:g} for Longformer and {BARS[1][2]:g} for ModernBERT at n = {BARS[0][0]:,}, also if the Linformer "
        "computes every position in its last layer, as they do, and at least "
        f"{BARS[2][2]:g} for its Transformer with SDPA at n = {BARS[2][0]:,}, which like the Linformer computes only "
        "the first position there; does not hold if one round is less. (Written before the first measurement.)",
        rule(NAME, f"{NAME}-*", _speed_checks),
    ),
    Claim(
        f"{NAME}-memory",
        "this project: inference on long documents",
        "The memory per token that classifying a document takes does not grow with its length.",
        f"{_OURS}; resident bytes that the forward pass of one document adds to a process with the loaded model, at "
        f"their peak, per token. Holds if those at n = {FLAT[1]:,} are at most {FLAT[2]:g} times those at "
        f"n = {FLAT[0]:,}; otherwise does not hold. (Written before the first measurement.)",
        rule(NAME, f"{NAME}-*", _memory_checks),
    ),
)


class LongDocuments(UntrainedExperiment):
    """Forward passes of all models at several n, and the memory of a process for each; writes only its record."""

    name, title, claims, scales = NAME, "Long documents", CLAIMS, tuple(SIZES)

    def check(self, scale: str, inputs: Inputs) -> None:
        super().check(scale, inputs)
        for package in PACKAGES:
            if find_spec(package) is None:
                raise ValueError(f"{self.name} needs {package}; install fairseq-linformer[huggingface,onnx]")

    def cost(self, scale: str) -> str:
        lengths, rounds = SIZES[scale]["lengths"], SIZES[scale]["rounds"]
        return f"{len(models.MODELS)} models, {len(lengths)} lengths, {min(rounds)} to {max(rounds)} rounds"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        started, sizes = time.monotonic(), SIZES[scale]
        with num_threads(sizes["threads"]):
            clock, measurements = choose_clock("cpu"), []
            for n, rounds in zip(sizes["lengths"], sizes["rounds"]):
                measurements += _measure_length(n, rounds, sizes, clock)
        claim = (
            "Documents per second and peak memory of Linformers, their Transformer, ModernBERT, Longformer and "
            "BigBird, of equal width and depth"
        )
        configuration = {"sizes": sizes, "threads": sizes["threads"], "clock": clock}
        paper = Paper(where="not in the paper, whose Table 3 has a Transformer on a GPU")
        return [
            self.record(scale, command, started, claim, measurements, configuration, TOLERANCE, RANDOM_TOKENS, paper)
        ]

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return [make(record) for record in records for make in (_speed_table, _ratio_table, _memory_table)]

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        """Tokens per second and memory per token, over n."""
        return [make(record) for record in records for make in (_speed_chart, _memory_chart)]


def _measure_length(n: int, rounds: int, sizes: dict[str, Any], clock: str) -> list[Measurement]:
    """Times of all models in turn, then the memory of each."""
    found: list[Measurement] = []
    names = [name for name in models.MODELS if not models.why_omitted(name, n)]
    with TemporaryDirectory() as folder:
        graphs = Path(folder)
        models.write_graphs(graphs, n, sizes)
        warm_up = int(n <= LONGEST_WITH_WARM_UP)
        seconds = models.time_models(names, n, sizes, rounds, clock, graphs, warm_up)
        for name in names:
            peak, added = models.measure_memory(name, n, sizes, graphs)
            at: dict[str, Any] = {"model": name, "n": n}
            found.append(Measurement(metric=PEAK, **at, **single_value(peak, "bytes")))
            found.append(Measurement(metric=PER_TOKEN, **at, **single_value(added / n, "bytes per token")))
    pairs = [(name, other) for name in names if name in models.OURS for other in OTHERS if other in seconds]
    return [*found, *speed_measurements(seconds, pairs, models.count_documents(n, sizes), n)]


def _names(record: Record) -> list[str]:
    return list(dict.fromkeys(m.model for m in record.select(RATE)))


def _describe(record: Record) -> str:
    s = record.configuration["sizes"]
    return (
        f"{record.identifier}: {s['layers']} layers of {s['width']}, k = {s['k']}, W = {s['window']}, "
        f"{s['threads']} threads"
    )


def _rows(record: Record, rows: Sequence[Sequence[str]], cell: Callable[..., str]) -> list[list[str]]:
    """A row per model or pair of models, a column per n."""
    lengths = record.configuration["sizes"]["lengths"]

    def cells(names: Sequence[str]) -> list[str]:
        return [models.why_omitted(names[-1], n) or cell(*names, n) for n in lengths]

    return [[" over ".join(names), *cells(names)] for names in rows]


def _heads(record: Record, first: str) -> list[str]:
    return [first, *(f"n = {n:,}" for n in record.configuration["sizes"]["lengths"])]


def _speed_table(record: Record) -> Table:
    def cell(name: str, n: int) -> str:
        m = record.find(RATE, model=name, n=n)
        return MISSING if m is None else f"{m.value:,.3g}"

    rows = _rows(record, [[name] for name in _names(record)], cell)
    return Table(_heads(record, "model"), rows, f"{_describe(record)}; documents per second, n tokens each, median")


def _ratio_table(record: Record) -> Table:
    def cell(name: str, other: str, n: int) -> str:
        m = record.find(RATIO, model=name, baseline=other, n=n)
        return MISSING if m is None else f"{m.value:.2f} [{m.low:.2f}, {m.high:.2f}]"

    pairs = [[name, other] for name in (LINFORMER, EVERY_POSITION) for other in OTHERS if other in _names(record)]
    caption = f"{_describe(record)}; how many times as fast, median, lowest and highest of the rounds"
    return Table(_heads(record, "models"), _rows(record, pairs, cell), caption)


def _memory_table(record: Record) -> Table:
    def cell(name: str, n: int) -> str:
        peak, per_token = (record.find(metric, model=name, n=n) for metric in (PEAK, PER_TOKEN))
        if peak is None or per_token is None:
            return MISSING
        return f"{peak.value / GIB:.2f} ({per_token.value / 1024:,.3g})"

    rows = _rows(record, [[name] for name in _names(record)], cell)
    caption = (
        f"{_describe(record)}; peak GiB of a process that classifies one document, and in parentheses the KiB per "
        "token that its forward pass adds to the loaded model"
    )
    return Table(_heads(record, "model"), rows, caption)


def _series(record: Record, metric: str) -> list[Series]:
    """A line per model; those with a local window are thin, in the color of those without."""
    drawn = [name for name in _names(record) if name != EVERY_POSITION]

    def scaled(m: Measurement) -> float:
        return m.value * m.n if metric == RATE else m.value / 1024

    colors = {name: i for i, name in enumerate(name for name in drawn if "local window" not in name)}
    return [
        Series(
            name,
            [[(float(m.n), scaled(m)) for m in record.select(metric, model=name)]],
            thin=name not in colors,
            color=colors[name.replace(", local window", "")],
        )
        for name in drawn
    ]


def _speed_chart(record: Record) -> Chart:
    series, title = _series(record, RATE), "Long documents, speed"
    return Chart(f"{record.identifier}-speed", title, "n", "tokens per second", series, log_x=True, log_y=True)


def _memory_chart(record: Record) -> Chart:
    series, title = _series(record, PER_TOKEN), "Long documents, memory"
    return Chart(f"{record.identifier}-memory", title, "n", "KiB per token", series, log_x=True, log_y=True)


EXPERIMENTS = (LongDocuments(),)
