"""Figure 2 (top right): the Linformer's time per token at a fixed number of tokens, as n grows.

Usage:

    fairseq-linformer reproduce figure-2 --scale cpu
"""

from collections.abc import Iterator, Sequence

from ...benchmark import scaling
from ...benchmark.timing import ratio_spread
from ..cells import Cell, CellExperiment, CellKind, spread
from ..claim import Claim
from ..records import Measurement, Record
from ..report.charts import Chart
from ..report.tables import Table, spread_cells
from ..rules import evidence
from ..statistics import Check, Estimate, Verdict, combine_records, not_measured, ratio_of_extremes
from .table_1 import CPU, GPU, SMOKE, time_charts

FLAT_RATIO = 1.25
"""The largest ratio of times per token that counts as independent of n."""


def _measurements(cell: Cell) -> Iterator[Measurement]:
    seconds = {int(n): values for n, values in cell["measured"]["seconds"].items()}
    shortest, *longer = sorted(seconds)
    for n in longer:
        yield Measurement(
            metric="time_per_token_ratio",
            model="linformer",
            n=n,
            baseline_n=shortest,
            **spread(ratio_spread(seconds[n], seconds[shortest]), "ratio of times per token"),
        )


KIND = CellKind(
    "pertoken",
    "Time per token of the Linformer's forward pass at several n, in one interleaved run",
    "Figure 2, top right",
    _measurements,
)


def _checks(record: Record) -> list[Check]:
    """The Linformer's ratios in a record of this figure; the Transformers' in one of Table 1."""
    checks = [
        Estimate(m.value, m.low, m.high, f"linformer: time per token, n={m.n} / n={m.baseline_n}").at_most(FLAT_RATIO)
        for m in record.select("time_per_token_ratio")
    ]
    times = record.select("microseconds_per_token")
    for model in dict.fromkeys(m.model for m in times if m.model.startswith("transformer")):
        timed = sorted((m for m in times if m.model == model), key=lambda m: m.n)
        first, last = timed[0], timed[-1]
        if len(timed) > 1:
            text = f"{model}: time per token, n={last.n} / n={first.n}"
            checks.append(ratio_of_extremes(last, first, text).more_than(FLAT_RATIO))
    return checks


def verdict(records: Sequence[Record], scale: str) -> Verdict:
    found = evidence(records, "figure-2", scale)
    if not found:
        return not_measured(f"benchmark-pertoken-* of scale {scale}")
    return combine_records([*found, *evidence(records, "table-1", scale)], _checks)


CLAIM = Claim(
    "figure-2",
    "Figure 2 (top right), section 4",
    "At a fixed number of tokens the Linformer's time does not depend on n.",
    f"Holds if no round's time per token is more than {FLAT_RATIO} times that of the shortest n; does not hold if "
    "every round's is, for one n. "
    f"A Transformer that was timed at the same scale, here or for Table 1, must take more than {FLAT_RATIO} times as "
    "long at the longest n in any two rounds; the claim does not hold either if it does in no two. (Written when an "
    "earlier measurement was known.)",
    verdict,
)


class Figure2(CellExperiment):
    shows = ("table-1",)

    def tables(self, records: Sequence[Record]) -> list[Table]:
        rows = [
            [r.identifier, f"n={m.n} / n={m.baseline_n}", *spread_cells(m, 3)]
            for r in records
            for m in r.select("time_per_token_ratio")
        ]
        heads = ["record", "lengths", "ratio of times per token", "lowest to highest", "rounds"]
        return [Table(heads, rows, "Figure 2: the Linformer's time per token")] if rows else []

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        return time_charts(records)


EXPERIMENTS = (
    Figure2(
        "figure-2",
        "Figure 2",
        [CLAIM],
        [KIND],
        {
            "smoke": lambda: [scaling.PerTokenCell((64, 128), k=16, tokens=128, **SMOKE)],
            "cpu": lambda: [scaling.PerTokenCell(k=256, **CPU)],
            "gpu": lambda: [scaling.PerTokenCell(k=256, **GPU)],
        },
    ),
)
