"""Table 1: the time of a layer as n grows; ``operations.py`` counts its operations.

Usage:

    fairseq-linformer reproduce table-1 --scale cpu
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import mean
from typing import Any

from ...benchmark import scaling
from ...benchmark.timing import summarize
from .. import paper
from ..cells import Cell, CellExperiment, CellKind, single_value, spread
from ..claim import Claim
from ..paper import CellResult
from ..records import Measurement, Record
from ..report.charts import Chart, Series
from ..report.tables import MISSING, Table
from ..rules import rule
from ..statistics import HOLDS, UNDECIDED, Check, Estimate

LINEAR, QUADRATIC = 1.15, 1.5
"""Limits on the exponent of n in a layer's time: linear is at most the first, quadratic above the second. n^1.5 is the
sparse Transformer's."""
DECIDING = ("linformer", "transformer-eager")
"""Models that the verdict uses. With SDPA, attention is a small part of a layer at these n."""
FAMILIES = {
    "recurrent": ("recurrent",),
    "transformer": ("transformer-eager", "transformer-sdpa"),
    "sparse": ("bigbird", "longformer"),
    "reformer": ("reformer",),
    "linformer": ("linformer",),
}
"""The models of each row of Table 1."""
MAX_LINES = 10


def _measurements(cell: Cell) -> Iterator[Measurement]:
    c = cell["configuration"]
    for model, values in cell["measured"]["seconds"].items():
        yield Measurement(
            metric="microseconds_per_token",
            model=model,
            n=c["n"],
            **spread(summarize(values), "microseconds a token", 1e6 / c["tokens"]),
        )


def _exponents(cells: Sequence[Cell]) -> Iterator[Measurement]:
    """Exponents of n in the time per token, over all lengths of each model and over the longer half of them."""
    for model in dict.fromkeys(model for cell in cells for model in cell["configuration"]["models"]):
        points = [
            (
                cell["configuration"]["n"],
                summarize(cell["measured"]["seconds"][model]).median / cell["configuration"]["tokens"],
            )
            for cell in cells
            if model in cell["measured"]["seconds"]
        ]
        for metric, some in (("exponent", points), ("exponent_longer_half", points[len(points) // 2 :])):
            if len(some) >= 2:
                yield Measurement(
                    metric=metric, model=model, **single_value(scaling.exponent(*zip(*some)), "exponent of n")
                )


KIND = CellKind(
    "scaling",
    "Time of a forward pass at a fixed number of tokens for the families of Table 1 and later ones, random weights, "
    "equal sizes: microseconds per token, and the exponent of n in it",
    "Table 1, and Figure 2, top right",
    _measurements,
    _exponents,
)


def exponent(record: Record, model: str) -> Estimate | None:
    """The exponent of n in a layer's time, one more than in the time per token, over the longer half of the lengths.

    Its interval is that of any choice of rounds: the slope is largest with the slowest rounds of long n and the fastest
    of short n. None with fewer than two lengths in that half.
    """
    times = sorted(record.select("microseconds_per_token", model=model), key=lambda m: m.n)
    longer = times[len(times) // 2 :]
    if len(longer) < 2:
        return None
    lengths = [m.n for m in longer]
    middle = mean(map(math.log, lengths))
    slowest = [m.high if math.log(m.n) > middle else m.low for m in longer]
    fastest = [m.low if math.log(m.n) > middle else m.high for m in longer]
    value, high, low = (
        1 + scaling.exponent(lengths, values) for values in ([m.value for m in longer], slowest, fastest)
    )
    return Estimate(value, low, high, f"{model}: exponent of layer time, n = {lengths[0]} to {lengths[-1]}")


def time_checks(record: Record) -> list[Check]:
    """The exponents of ``DECIDING``; none if the record has no times of any model."""
    models = _timed_models(record)
    estimates = {model: estimate for model in models if (estimate := exponent(record, model))}
    if not estimates:
        return []
    checks = []
    for model in DECIDING:
        if model not in estimates:
            checks.append(Check(UNDECIDED, f"{record.identifier} has no exponent of {model}"))
        elif min(m.repetitions for m in record.select("microseconds_per_token", model=model)) < 2:
            checks.append(Check(UNDECIDED, f"{estimates[model]}; a single round has no interval"))
        elif model == "linformer":
            checks.append(estimates[model].at_most(LINEAR))
        else:  # less does not refute it: at short n other parts of a layer outweigh attention
            check = estimates[model].more_than(QUADRATIC)
            checks.append(check if check.outcome == HOLDS else Check(UNDECIDED, check.text))
    return checks


def other_exponents(record: Record) -> list[str]:
    """Exponents of models that the verdict does not use."""
    others = [model for model in _timed_models(record) if model not in DECIDING]
    return [str(estimate) for model in others if (estimate := exponent(record, model))]


def _timed_models(record: Record) -> list[str]:
    return list(dict.fromkeys(m.model for m in record.select("microseconds_per_token")))


TIME = Claim(
    "table-1",
    "Table 1, section 1",
    "A Linformer layer takes time proportional to n, a Transformer layer to n squared.",
    "The exponent of n in a layer's time at equally many tokens, over the longer half of the lengths, between the "
    f"extremes of its rounds. Holds if the whole interval is at most {LINEAR:g} for the Linformer and above "
    f"{QUADRATIC:g} for the Transformer with eager attention; does not hold if it is above {LINEAR:g} for the "
    "Linformer; otherwise not enough evidence: at short n other parts of a layer outweigh attention. SDPA and other "
    "models are reported and do not decide.",
    rule("table-1", "benchmark-scaling-*", time_checks, other_exponents),
)
_COMMON = dict(device="cpu", dtype="fp32", rounds=3, embed_dim=768, heads=12, warm_up=1)
SMOKE: dict[str, Any] = {**_COMMON, "layers": 1, "rounds": 2, "embed_dim": 64, "heads": 1, "warm_up": 0}
CPU: dict[str, Any] = {**_COMMON, "layers": 2}
GPU: dict[str, Any] = {**_COMMON, "layers": 12, "device": "cuda", "dtype": "bf16"}
"""Settings of benchmark cells by scale."""


class Table1(CellExperiment):
    def tables(self, records: Sequence[Record]) -> list[Table]:
        """Complexities as printed, and the exponent of n in the measured time of a layer."""
        rows: list[list] = []
        names: dict[tuple[int, int], str] = {}
        for family, models in FAMILIES.items():
            per_layer, sequential = (
                paper.CELLS[f"table-1-{family}-{column}"] for column in ("per-layer", "sequential")
            )
            names |= {(len(rows), 1): per_layer.identifier, (len(rows), 2): sequential.identifier}
            for model in models:
                measured = [exponent(r, model) for r in records] or [None]
                ours = (MISSING if e is None else f"n^{e.value:.2f} [{e.low:.2f}, {e.high:.2f}]" for e in measured)
                rows.append([family, per_layer.printed, sequential.printed, model, *ours])
        heads = [f"time of a layer, {r.identifier.removeprefix('benchmark-scaling-')}" for r in records] or [
            "time of a layer, ours"
        ]
        caption = (
            "Table 1: complexity as printed; ours is the exponent of n over the longer half of the lengths, between "
            "the extremes of its rounds, at equally many tokens for each n (a recurrent model's time grows because "
            "fewer and longer sentences take more sequential steps)"
        )
        return [
            Table(["family", "per layer (paper)", "sequential (paper)", "model", *heads], rows, caption, names=names)
        ]

    def paper_cells(self, records: Sequence[Record]) -> Iterable:
        for cell in paper.CELLS.values():
            if cell.table == "table-1":
                models = FAMILIES[cell.row] if cell.column == "per layer" else ()
                yield (
                    cell,
                    [
                        CellResult((r.identifier,), r.scale, model, m)
                        for r in records
                        for model in models
                        if (m := _measured_exponent(r, model))
                    ],
                )


def _measured_exponent(record: Record, model: str) -> Measurement | None:
    """``exponent`` as a measurement; None as there."""
    if (estimate := exponent(record, model)) is None:
        return None
    rounds = min(m.repetitions for m in record.select("microseconds_per_token", model=model))
    interval = (estimate.low, estimate.high) if rounds > 1 else None
    return Measurement(
        metric="exponent",
        model=model,
        value=estimate.value,
        unit="exponent of n",
        interval=interval,
        repetitions=rounds,
    )


def time_charts(records: Sequence[Record]) -> list[Chart]:
    """Time per token over n, at equal numbers of tokens."""
    charts = []
    for record in records:
        times = record.select("microseconds_per_token")
        lines = {
            model: [(m.n, m.value) for m in times if m.model == model]
            for model in record.configuration.get("models", ())
        }
        lines = {model: points for model, points in lines.items() if points}
        if len(lines) > MAX_LINES:
            lines = {model: points for model, points in lines.items() if model.startswith(("linformer", "transformer"))}
        if lines:
            charts.append(
                Chart(
                    f"figure-2-{record.identifier}",
                    f"Figure 2 (top right), {record.identifier}",
                    "n",
                    "microseconds per token",
                    [Series(model, [points]) for model, points in lines.items()],
                    log_x=True,
                    log_y=True,
                )
            )
    return charts


EXPERIMENTS = (
    Table1(
        "table-1",
        "Table 1",
        [TIME],
        [KIND],
        {
            "smoke": lambda: scaling.build_cells(
                (64, 128), models=("transformer-eager", "transformer-sdpa", "linformer"), k=16, **SMOKE
            ),
            "cpu": lambda: scaling.build_cells(
                (512, 1024, 2048, 4096, 8192), models=tuple(scaling.FAMILIES), k=256, usable_gib=8.0, **CPU
            ),
            "gpu": lambda: scaling.build_cells(models=tuple(scaling.FAMILIES), k=256, usable_gib=70.0, **GPU),
        },
    ),
)
