"""Time and memory of a local window: ``--local-window`` next to equation (7) alone.

Usage:

    fairseq-linformer reproduce local-window-cost --scale cpu
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ...benchmark.local_window import LocalWindowCell
from ...benchmark.timing import ratio_spread
from ..cells import Cell, CellExperiment, CellKind, rule, single_value, spread
from ..records import Measurement, Record
from ..registry import Claim
from ..report.tables import Table, spread_cells
from ..statistics import FAILS, HOLDS, Check
from .table_1 import CPU, GPU, SMOKE

EVALUATED = 16
"""W that the claim is about."""
MAX_STEP, MAX_BYTES, MAX_PER_TOKEN = 1.15, 1.25, 1.15
"""Limits: a step and its bytes relative to W = 0; time per token at the longest n relative to the shortest."""

ROUNDS = 7


def _measurements(cell: Cell) -> Iterator[Measurement]:
    c, found = cell["configuration"], cell["measured"]
    for reach in map(str, c["reaches"]):
        at: dict[str, Any] = {"model": f"W={reach}", "k": c["k"]}
        times = {int(n): values[reach] for n, values in found["seconds"].items()}
        shortest, longest = min(times), max(times)
        ratio = spread(ratio_spread(times[longest], times[shortest]), "ratio of times per token")
        yield Measurement(metric="time_per_token_ratio", n=longest, baseline_n=shortest, **at, **ratio)
        if reach == "0":
            continue
        at["baseline"] = "W=0"
        steps, count = found["step_seconds"], found["step_bytes"]
        step = spread(ratio_spread(steps[reach], steps["0"]), "ratio of times")
        yield Measurement(metric="relative_time", phase="training step", n=c["n"], **at, **step)
        share = single_value(count[reach] / count["0"], "ratio of bytes")
        yield Measurement(metric="relative_bytes", phase="training step", n=c["n"], **at, **share)
        for n, values in times.items():
            inference = spread(ratio_spread(values, found["seconds"][str(n)]["0"]), "ratio of times")
            yield Measurement(metric="relative_time", phase="inference", n=n, **at, **inference)


KIND = CellKind(
    "localwindow",
    "Exact attention to neighbors, random tokens, in one interleaved run: times and bytes of a training step and times "
    "of inference relative to W = 0, and time per token at a long n relative to a short one",
    "this project: --local-window",
    _measurements,
)


def _checks(record: Record) -> list[Check]:
    limits = {
        ("relative_time", "training step"): MAX_STEP,
        ("relative_bytes", "training step"): MAX_BYTES,
        ("time_per_token_ratio", None): MAX_PER_TOKEN,
    }
    checks = []
    for m in record.measurements:
        limit = limits.get((m.metric, m.phase))
        if m.model == f"W={EVALUATED}" and limit is not None:
            name = f"{m.phase or 'inference'}, n={m.n}, k={m.k}: {m.metric.replace('_', ' ')}"
            interval = f" [{m.low:.3g}, {m.high:.3g}]" if m.interval else ""
            outcome = HOLDS if m.value <= limit else FAILS
            checks.append(Check(outcome, f"{name} {m.value:.3g}{interval}; needs ≤ {limit:g}"))
    return checks


CLAIM = Claim(
    "local-window-cost",
    "this project: --local-window",
    f"{EVALUATED} exact neighbors per side cost little time and memory, and keep them linear in n.",
    f"Holds if, with W = {EVALUATED}, the median over interleaved rounds of a training step's time is at most "
    f"{MAX_STEP} times that of W = 0 at n = 512, its peak bytes at most {MAX_BYTES} times, and the time per token of "
    f"inference at n = 16,384 at most {MAX_PER_TOKEN} times that at n = 512; does not hold if one is more. (Written "
    "before the first measurement.)",
    rule("local-window-cost", "benchmark-localwindow-*", _checks),
)


class LocalWindowCost(CellExperiment):
    def tables(self, records: Sequence[Record]) -> list[Table]:
        rows = []
        for m in (m for record in records for m in record.measurements):
            where = m.phase or f"inference, against n = {m.baseline_n:,}"
            rows.append([f"{m.k}", m.model, f"{m.n:,}", where, m.metric.replace("_", " "), *spread_cells(m, 3)])
        heads = ["k", "model", "n", "setting", "quantity", "median", "lowest to highest", "rounds"]
        return [Table(heads, rows, "Cost of a local window")] if rows else []


EXPERIMENTS = (
    LocalWindowCost(
        "local-window-cost",
        "Cost of a local window",
        [CLAIM],
        [KIND],
        {
            "smoke": lambda: [LocalWindowCell(32, 64, 8, (0, 4, 16), 2, 64, **SMOKE)],
            "cpu": lambda: [LocalWindowCell(k=k, **{**CPU, "rounds": ROUNDS}) for k in (128, 256)],
            "gpu": lambda: [LocalWindowCell(k=k, batch=64, **{**GPU, "rounds": ROUNDS}) for k in (128, 256)],
        },
    ),
)
