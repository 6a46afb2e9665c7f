"""Time and memory of a local window: ``--local-window`` next to equation (7) alone.

Usage:

    fairseq-linformer reproduce local-window-cost --scale cpu
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ...benchmark.local_window import LocalPerTokenCell, LocalStepCell, LocalWindowCell
from ...benchmark.timing import ratio_spread
from ..cells import Cell, CellExperiment, CellKind, single_value, spread
from ..claim import Claim
from ..records import Measurement, Record
from ..report.tables import Table, spread_cells
from ..rules import rule
from ..statistics import FAILS, HOLDS, Check
from .table_1 import CPU, GPU, SMOKE

EVALUATED = 16
"""W that the claim is about."""
MAX_STEP, MAX_BYTES, MAX_PER_TOKEN = 1.15, 1.25, 1.15
"""Limits: a step and its bytes relative to W = 0; time per token at the longest n relative to the shortest."""

ROUNDS = 7


def _step(cell: Cell) -> Iterator[Measurement]:
    c, found = cell["configuration"], cell["measured"]
    for local_window in map(str, c["reaches"][1:]):
        at: dict[str, Any] = {"model": f"W={local_window}", "baseline": "W=0", "n": c["lengths"][0], "k": c["k"]}
        times = spread(ratio_spread(found["seconds"][local_window], found["seconds"]["0"]), "ratio of times")
        yield Measurement(metric="relative_time", phase="training step", **at, **times)
        share = single_value(found["bytes"][local_window] / found["bytes"]["0"], "ratio of bytes")
        yield Measurement(metric="relative_bytes", phase="training step", **at, **share)


def _per_token(cell: Cell) -> Iterator[Measurement]:
    c = cell["configuration"]
    seconds = {int(n): values for n, values in cell["measured"]["seconds"].items()}
    shortest, *longer = sorted(seconds)
    for local_window in map(str, c["reaches"]):
        at: dict[str, Any] = {"model": f"W={local_window}", "k": c["k"], "phase": "inference"}
        for n in longer:
            ratio = spread(
                ratio_spread(seconds[n][local_window], seconds[shortest][local_window]), "ratio of times per token"
            )
            yield Measurement(metric="time_per_token_ratio", n=n, baseline_n=shortest, **at, **ratio)
        if local_window != "0":
            for n, values in seconds.items():
                times = spread(ratio_spread(values[local_window], values["0"]), "ratio of times")
                yield Measurement(metric="relative_time", n=n, baseline="W=0", **at, **times)


WHERE = "this project: --local-window"
KINDS = (
    CellKind(
        "localstep",
        "Exact attention to neighbors, random tokens: times and bytes of a training step relative to W = 0",
        WHERE,
        _step,
    ),
    CellKind(
        "localpertoken",
        "Exact attention to neighbors, random tokens: times of inference relative to W = 0, and time per token at a "
        "long n relative to a short one",
        WHERE,
        _per_token,
    ),
)


def _checks(record: Record) -> list[Check]:
    limits = {
        ("relative_time", "training step"): MAX_STEP,
        ("relative_bytes", "training step"): MAX_BYTES,
        ("time_per_token_ratio", "inference"): MAX_PER_TOKEN,
    }
    checks = []
    for m in record.measurements:
        limit = limits.get((m.metric, m.phase))
        if m.model == f"W={EVALUATED}" and limit is not None:
            name = f"{m.phase}, n={m.n}, k={m.k}: {m.metric.replace('_', ' ')}"
            interval = f" [{m.low:.3g}, {m.high:.3g}]" if m.interval else ""
            outcome = HOLDS if m.value <= limit else FAILS
            checks.append(Check(outcome, f"{name} {m.value:.3g}{interval}; needs ≤ {limit:g}"))
    return checks


CLAIM = Claim(
    "local-window-cost",
    "this project: --local-window",
    f"A local window of {EVALUATED} adds little time and memory, and keeps both linear in n.",
    f"Holds if, with W = {EVALUATED}, the median over interleaved rounds of a base model's training step is at most "
    f"{MAX_STEP} times that of W = 0 at n = 512, its peak bytes at most {MAX_BYTES} times, and the time per token of "
    f"inference at n = 16,384 at most {MAX_PER_TOKEN} times that at n = 512; does not hold if one is more. (Written "
    "before the first measurement.)",
    rule("local-window-cost", "benchmark-local*", _checks),
)


class LocalWindowCost(CellExperiment):
    def tables(self, records: Sequence[Record]) -> list[Table]:
        rows = []
        for m in (m for record in records for m in record.measurements):
            where = f"{m.phase}, against n = {m.baseline_n:,}" if m.baseline_n else m.phase
            rows.append([f"{m.k}", m.model, f"{m.n:,}", where, m.metric.replace("_", " "), *spread_cells(m, 3)])
        heads = ["k", "model", "n", "setting", "quantity", "median", "lowest to highest", "rounds"]
        return [Table(heads, rows, "Cost of a local window")] if rows else []


def _cells(batch: int, **options: Any) -> list[LocalWindowCell]:
    """Steps of the base model with ``batch`` sentences, and inference of two of its layers."""
    options["rounds"] = ROUNDS
    steps = [LocalStepCell(k=k, batch=batch, **{**options, "layers": 12}) for k in (128, 256)]
    return [*steps, *(LocalPerTokenCell(k=k, **{**options, "layers": 2}) for k in (128, 256))]


EXPERIMENTS = (
    LocalWindowCost(
        "local-window-cost",
        "Cost of a local window",
        [CLAIM],
        KINDS,
        {
            "smoke": lambda: [
                LocalStepCell(lengths=(32,), k=8, batch=2, **SMOKE),
                LocalPerTokenCell(lengths=(32, 64), k=8, tokens=64, **SMOKE),
            ],
            "cpu": lambda: _cells(4, **CPU),
            "gpu": lambda: _cells(64, **GPU),
        },
    ),
)
