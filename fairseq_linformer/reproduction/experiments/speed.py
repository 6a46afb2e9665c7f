"""Time and memory against the authors' code, RoBERTa and other packages, at base size.

    fairseq-linformer reproduce speed --scale cpu --minutes 9        # rerun to resume
    fairseq-linformer benchmark finetuning OUT --data data/sst-2     # a whole process on real sentences

``reproduce speed`` does not run the second: it needs a prepared task.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from ...benchmark import inference, training
from ...benchmark.flops import utilization
from ...benchmark.models import PYPI_MODELS, missing_requirement
from ...benchmark.timing import Spread, num_threads, ratio_spread, summarize
from ...benchmark.train_process import ProcessCell, SharesCell
from ..cells import Cell, CellExperiment, CellKind, setting, single_value, spread
from ..claim import Claim
from ..inputs import Inputs
from ..records import Measurement, Record
from ..report.tables import Table
from ..rules import evidence
from ..statistics import FAILS, HOLDS, Check, Evaluate, Verdict, combine, not_measured
from .table_1 import GPU, SMOKE

THREADS = 2
"""Of PyTorch, at scale cpu."""


# Measurements of cells


def _step(cell: Cell) -> Iterator[Measurement]:
    """Tokens per second, utilization and bytes of a training step; ratios of times are theirs over ours, of bytes ours
    over theirs."""
    c, found = cell["configuration"], cell["measured"]
    at = {"phase": "finetuning" if c["classify"] else "pretraining", "n": c["n"]}
    ours = next((name for name in ("ours", "ours-modules") if name in c["models"]), None)
    for name, size in found.get("bytes", {}).items():
        yield Measurement(metric="bytes", model=name, **at, **single_value(size, "bytes"))
        if ours in found["bytes"] and name != ours:
            share = single_value(found["bytes"][ours] / size, "ratio of bytes")
            yield Measurement(metric="bytes_share", model=ours, baseline=name, **at, **share)
    for name, values in found.get("seconds", {}).items():
        speed = summarize([found["tokens"] / s for s in values])
        utilized = summarize(
            [utilization(found["operations"][name], s, cell["peak_operations_per_second"]) for s in values]
        )
        yield Measurement(metric="tokens_per_second", model=name, **at, **spread(speed, "tokens/s"))
        yield Measurement(metric="utilization", model=name, **at, **spread(utilized, "share of the peak"))
        if ours in found["seconds"] and name != ours:
            times = spread(ratio_spread(values, found["seconds"][ours]), "ratio of times")
            yield Measurement(metric="time_ratio", model=ours, baseline=name, **at, **times)


def _whole(cell: Cell) -> Iterator[Measurement]:
    n, seconds = cell["configuration"]["n"], cell["measured"]["seconds"]
    for name, values in seconds.items():
        yield Measurement(metric="seconds", model=name, n=n, **spread(summarize(values), "s"))
        if name != "ours" and "ours" in seconds:
            yield Measurement(
                metric="time_ratio",
                model="ours",
                baseline=name,
                n=n,
                **spread(ratio_spread(values, seconds["ours"]), "ratio of times"),
            )


def _process(unit: str):
    def measurements(cell: Cell) -> Iterator[Measurement]:
        found, n = cell["measured"], cell["configuration"]["n"]
        memory = "memory" if cell["configuration"]["device"] == "cpu" else "host_memory"
        for name, values in found["words"].items():
            yield Measurement(metric=f"{unit}_per_second", model=name, n=n, **spread(summarize(values), f"{unit}/s"))
            yield Measurement(metric=memory, model=name, n=n, **spread(summarize(found["bytes"][name]), "MiB", 2**-20))
            if name != "ours" and "ours" in found["words"]:
                speed = spread(ratio_spread(found["words"]["ours"], values), f"ratio of {unit}/s")
                yield Measurement(metric="speed_ratio", model="ours", baseline=name, n=n, **speed)

    return measurements


def _shares(cell: Cell) -> Iterator[Measurement]:
    """The share of each part in all updates together, with the lowest and highest share in a single update."""
    n = cell["configuration"]["n"]
    for name, parts in cell["measured"]["seconds"].items():
        whole = parts["whole"]
        yield Measurement(metric="seconds", part="whole", model=name, n=n, **spread(summarize(whole), "s"))
        for part, taken in parts.items():
            if part != "whole":
                each = [a / b for a, b in zip(taken, whole)]
                values = Spread(sum(taken) / sum(whole), min(each), max(each), len(each))
                yield Measurement(metric="share", part=part, model=name, n=n, **spread(values, "share of an update"))


_NOT_PRINTED = "the paper gives no time of training"
KINDS = (
    CellKind(
        "whole",
        "Features of a batch from fairseq's own models: times of RoBERTa and of the authors' code over ours",
        "section 5.3, Table 3",
        _whole,
    ),
    CellKind(
        "training",
        "A whole training step (forward, backward, optimizer; half precision includes weights, gradients and Adam's "
        "moments): times of the others over ours, tokens per second, model FLOPs utilization, and peak bytes without "
        "parameters and gradients",
        _NOT_PRINTED,
        _step,
    ),
    CellKind(
        "process",
        "A whole fairseq-train process on random tokens: words per second as it logs them, over all updates after the "
        "warm-up, and peak host memory",
        _NOT_PRINTED,
        _process("words"),
    ),
    CellKind(
        "shares",
        "An update of fairseq-train on random tokens, with timers around the calls of its training loop: the share of "
        "each part",
        _NOT_PRINTED,
        _shares,
    ),
    CellKind(
        "finetuning",
        "A whole fairseq-train process that finetunes on real sentences: tokens per second as it logs them, over all "
        "updates after the warm-up, and peak host memory",
        "the paper gives no time of finetuning",
        _process("tokens"),
    ),
)


# Limits


@dataclass(frozen=True)
class Bound:
    """A limit of one measurement.

    Attributes:
        text: the quantity, in words.
        kind: of the cells.
        metric, fields: of the measurement.
        least, most: limits of its median.
        experiment: of the records.
    """

    text: str
    kind: str
    metric: str
    fields: dict
    least: float = -float("inf")
    most: float = float("inf")
    experiment: str = "speed"

    def check(self, records: Sequence[Record], scale: str) -> tuple[Record, Check] | None:
        """Compare the median in the record with the most layers; None if none has the measurement."""
        found = [
            (record, m)
            for record in evidence(records, self.experiment, scale)
            if record.identifier.startswith(f"benchmark-{self.kind}-")
            and not record.configuration.get("options")
            and (m := record.find(self.metric, **self.fields))
        ]
        if not found:
            return None
        record, m = max(found, key=lambda pair: pair[0].configuration["layers"])
        is_kept = self.least <= m.value <= self.most
        in_every_round = all((self.least <= end <= self.most) == is_kept for end in (m.low, m.high))
        limit = f"≥ {self.least:.3g}" if self.most == float("inf") else f"≤ {self.most:.3g}"
        rounds = "" if in_every_round else " (median; not every round)"
        return record, Check(
            HOLDS if is_kept else FAILS,
            f"{self.text}: {m.value:.3g} [{m.low:.3g}, {m.high:.3g}]; needs {limit}{rounds}",
        )


def _over(model: str, n: int, phase: str) -> dict:
    return {"baseline": model, "model": "ours", "n": n, "phase": phase}


TRAINING_BOUNDS = (
    Bound(
        "pretraining step, n = 512, k = 256, layerwise: the authors' time over ours",
        "training",
        "time_ratio",
        _over("authors", 512, "pretraining"),
        1.12,
    ),
    Bound(
        "training step, 32 tokens: the authors' time over ours",
        "training",
        "time_ratio",
        _over("authors", 32, "finetuning"),
        2.4,
    ),
    Bound(
        "training step, 32 tokens: RoBERTa's time over ours",
        "training",
        "time_ratio",
        _over("roberta", 32, "finetuning"),
        1 / 1.1,
    ),
    Bound(
        "training step, 128 tokens: the authors' time over ours",
        "training",
        "time_ratio",
        _over("authors", 128, "finetuning"),
        1.2,
    ),
    Bound(
        "activation memory of a training step, n = 4,096: ours over the authors'",
        "training",
        "bytes_share",
        _over("authors", 4096, "pretraining"),
        most=0.75,
    ),
)
PROCESS_BOUNDS = (
    Bound(
        "a whole process on SST-2: our tokens per second over the authors'",
        "finetuning",
        "speed_ratio",
        {"baseline": "authors", "n": 512},
        2,
    ),
    Bound(
        "a whole process on SST-2: our tokens per second over RoBERTa's",
        "finetuning",
        "speed_ratio",
        {"baseline": "roberta", "n": 512},
        0.85,
    ),
)
INFERENCE_BOUNDS = (
    Bound(
        "inference, n = 16,384, k = 256: RoBERTa's time with SDPA over ours",
        "whole",
        "time_ratio",
        {"baseline": "roberta", "n": 16384},
        5.3,
    ),
    Bound(
        "time per token at n = 16,384 over that at n = 512",
        "pertoken",
        "time_per_token_ratio",
        {"n": 16384, "baseline_n": 512},
        most=1.15,
        experiment="figure-2",
    ),
)


def bounds_rule(bounds: Sequence[Bound]) -> Evaluate:
    def evaluate(records: Sequence[Record], scale: str) -> Verdict:
        found = [pair for bound in bounds if (pair := bound.check(records, scale))]
        if not found:
            return not_measured(f"of speed at scale {scale}")
        return combine([check for _, check in found], list({record.identifier: record for record, _ in found}.values()))

    return evaluate


_RULE = (
    "Holds if the median over interleaved rounds of each measured ratio is within its limit; does not hold if one is "
    "not."
)
_EARLIER = "No claim: the benchmark's report compared the same limits"
_NOW_CLAIMS = "The limits of the benchmark's report became claims."
CLAIMS = (
    Claim(
        "speed-training",
        "this project: benchmark training",
        "A training step takes less time and memory than with the authors' code.",
        _RULE,
        bounds_rule(TRAINING_BOUNDS),
    ),
    Claim(
        "speed-finetuning",
        "this project: benchmark finetuning",
        "A finetuning process is at least twice as fast as the authors', and nearly as fast as RoBERTa's, on short "
        "sentences.",
        _RULE,
        bounds_rule(PROCESS_BOUNDS),
    ),
    Claim(
        "speed-inference",
        "this project: benchmark inference",
        "Inference on long inputs is several times as fast as RoBERTa's.",
        _RULE,
        bounds_rule(INFERENCE_BOUNDS),
    ),
)


class Speed(CellExperiment):
    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        with num_threads(THREADS) if scale == "cpu" else nullcontext():
            return super().measure(scale, inputs, command)

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return [_table(record) for record in records]


def _table(record: Record) -> Table:
    """A row per measurement."""
    rows = []
    for m in record.measurements:
        where = ", ".join([*filter(None, [m.phase]), f"n = {m.n:,}"])
        model = m.model if m.baseline is None else f"{m.model}, against {m.baseline}"
        rows.append(
            [
                where,
                f"{model}: {m.part or m.metric.replace('_', ' ')}",
                f"{m.value:.4g}",
                "" if m.interval is None else f"{m.low:.4g} to {m.high:.4g}",
                m.unit,
            ]
        )
    return Table(
        ["setting", "quantity", "median", "lowest to highest", "unit"], rows, f"{record.identifier}: {setting(record)}"
    )


def _cells(
    training_options: dict,
    process_options: dict,
    lengths: tuple[int, ...],
    finetuning: tuple[int, ...],
    whole: tuple[int, ...],
) -> list:
    """Training steps and their bytes, whole processes and their parts, and inference with whole models."""
    peers = tuple(name for name in PYPI_MODELS if missing_requirement(name) is None)
    cells: list[Any] = training.build_cells(lengths, finetuning, **training_options)
    cells += training.build_cells(lengths, finetuning, models=("ours", *peers), **training_options) if peers else []
    cells += [kind(lengths[0], 1, **process_options) for kind in (ProcessCell, SharesCell)]
    whole_options = {**process_options, "rounds": 2, "tokens": inference.TOKENS_PER_BATCH[process_options["device"]]}
    return cells + [inference.WholeModelCell(n, **whole_options) for n in whole]


_BASE = dict(device="cpu", dtype="fp32", layers=12, embed_dim=768, heads=12)
_SMOKE = {name: SMOKE[name] for name in _BASE}
EXPERIMENTS = (
    Speed(
        "speed",
        "Speed and memory",
        CLAIMS,
        KINDS,
        {
            "smoke": lambda: training.build_cells(
                (32,), (16,), 64, models=("ours-modules", "transformer-sdpa"), k=16, rounds=1, warm_up=0, **_SMOKE
            ),
            "cpu": lambda: _cells(
                {**_BASE, "k": 256}, {**_BASE, "k": 256}, (512, 1024, 2048, 4096), (32, 64, 128), (512, 4096, 16384)
            ),
            "gpu": lambda: _cells(
                {**GPU, "k": 256, "tokens": training.TOKENS_PER_STEP["cuda"]},
                {**_BASE, "device": "cuda", "dtype": "bf16", "k": 256},
                (512, 1024, 2048, 4096),
                (32, 64, 128),
                (512, 4096, 16384),
            ),
        },
    ),
)
