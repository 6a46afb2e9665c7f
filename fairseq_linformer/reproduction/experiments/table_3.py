"""Table 3 (left): how many times faster the Linformer is, by n and k; ``memory.py`` has the right half.

Usage:

    fairseq-linformer reproduce table-3 --scale cpu
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ...benchmark import inference
from ...benchmark.encoders import BASELINES
from ...benchmark.timing import ratio_spread, summarize
from .. import paper
from ..cells import Cell, CellExperiment, CellKind, setting, single_value, spread
from ..claim import Claim
from ..paper import TABLE_3_DIMENSIONS, CellResult
from ..records import Measurement, Record
from ..report.charts import Chart, Series
from ..report.tables import MISSING, Table
from ..rules import rule
from ..statistics import FAILS, HOLDS, UNDECIDED, Check, Evaluate
from .table_1 import CPU, GPU, SMOKE

METRICS = {"time": "time_ratio", "memory": "batch_ratio"}
HALVES = {"time": paper.TABLE_3_TIME, "memory": paper.TABLE_3_MEMORY}
"""The halves of Table 3, left and right."""


def _measurements(cell: Cell) -> Iterator[Measurement]:
    """Seconds of each model, and the ratios of times, bytes and largest batches for each k."""
    c, found = cell["configuration"], cell["measured"]
    n, seconds, largest = c["n"], found["seconds"], found["largest"]
    for name, values in seconds.items():
        yield Measurement(metric="seconds", n=n, **_model(name), **spread(summarize(values), "s"))
    for k in c["dimensions"]:
        ours = f"k={k}"
        for base in BASELINES:
            at = {"model": "linformer", "baseline": base, "n": n, "k": k}
            if base in seconds and ours in seconds:
                yield Measurement(
                    metric="time_ratio", **at, **spread(ratio_spread(seconds[base], seconds[ours]), "ratio of times")
                )
            if largest.get(base) and largest.get(ours):
                yield Measurement(
                    metric="batch_ratio", **at, **single_value(largest[ours] / largest[base], "ratio of batches")
                )
            if base in found["bytes"] and ours in found["bytes"]:
                per_sentence = [after - before for before, after in (found["bytes"][base], found["bytes"][ours])]
                yield Measurement(
                    metric="bytes_ratio", **at, **single_value(per_sentence[0] / per_sentence[1], "ratio of bytes")
                )


def _model(name: str) -> dict:
    return {"model": "linformer", "k": int(name.removeprefix("k="))} if name.startswith("k=") else {"model": name}


KIND = CellKind(
    "inference",
    "A full forward pass without gradients at equal tokens, of a Transformer (eager: materialized weights; sdpa: "
    "PyTorch's fused kernel) and a Linformer with layerwise sharing: ratios of times and of largest batches",
    "section 5.3, Table 3",
    _measurements,
    paper={
        f"n={n} k={k}": {half: paper.table_3(table, n, k) for half, table in HALVES.items()}
        for n in paper.TABLE_3_TIME
        for k in TABLE_3_DIMENSIONS
        if paper.table_3(paper.TABLE_3_TIME, n, k)
    },
)


def measured_cells(record: Record, half: str) -> dict[tuple[int, int], Measurement]:
    """The measurements of the paper's cells by (n, k), in its order, against a Transformer that materializes its
    weights."""
    by_cell = {(m.n, m.k): m for m in record.select(METRICS[half], baseline="eager")}
    printed = (
        (n, k) for n in HALVES[half] for k in TABLE_3_DIMENSIONS if paper.table_3(HALVES[half], n, k) is not None
    )
    return {cell: by_cell[cell] for cell in printed if cell in by_cell}


def half_rule(
    experiment: str, missing: str, half: str, remarks_of: Callable[[Record], list[str]] = lambda record: []
) -> Evaluate:
    """More than 1 in every cell, rising with n and with a smaller k.

    Args:
        experiment: of the records.
        missing: name pattern of the records, for the verdict when there are none.
        half: ``time`` or ``memory``.
        remarks_of: see ``rule``.
    """

    def checks(record: Record) -> list[Check]:
        cells, found = measured_cells(record, half), []
        for (n, k), m in cells.items():
            outcome = HOLDS if m.low > 1 else FAILS if m.high <= 1 else UNDECIDED
            printed = paper.table_3(HALVES[half], n, k)
            found.append(Check(outcome, f"n = {n}, k = {k}: {half} {m.value:.3g}x (paper: {printed:g}x); needs > 1"))
        return found + _in_order(cells)

    def applies(record: Record) -> object:
        return measured_cells(record, half)

    return rule(experiment, missing, checks, remarks_of, applies, "a cell of Table 3")


def against_sdpa(record: Record) -> list[str]:
    """The smallest k against a Transformer with PyTorch's fused kernel, which the paper did not have."""
    k = min(TABLE_3_DIMENSIONS)
    ratios = [f"{m.value:.3g}x at n = {m.n:,}" for m in record.select("time_ratio", baseline="sdpa", k=k)]
    return [f"against SDPA, k = {k}: {', '.join(ratios)}; not part of the verdict"] if ratios else []


def _in_order(cells: Mapping[tuple[int, int], Measurement]) -> list[Check]:
    """The saving rises with n for each k, and with a smaller k for each n."""
    checks = []
    for k in sorted({k for _, k in cells}):
        checks += _rises([(f"n = {n}", cells[n, k]) for n in sorted(n for n, other in cells if other == k)], f"k = {k}")
    for n in sorted({n for n, _ in cells}):
        checks += _rises(
            [(f"k = {k}", cells[n, k]) for k in sorted((k for other, k in cells if other == n), reverse=True)],
            f"n = {n}",
        )
    return checks


def _rises(line: list[tuple[str, Measurement]], where: str) -> list[Check]:
    """Every round of the last is above every one of the first, and no step goes down by more than rounds differ."""
    if len(line) < 2:
        return []
    down = next(((a, b) for (a, x), (b, y) in itertools.pairwise(line) if y.high < x.low), None)
    (first, x), (last, y) = line[0], line[-1]
    outcome = FAILS if down else HOLDS if y.low > x.high else UNDECIDED
    text = f"{where}: {x.value:.3g}x at {first}, {y.value:.3g}x at {last}; needs more, no step down"
    return [Check(outcome, text + (f"; it falls from {down[0]} to {down[1]}" if down else ""))]


TIME = Claim(
    "table-3-time",
    "Table 3 (left), section 5.3",
    "The Linformer is faster than the Transformer; its speedup grows with n, and with a smaller k.",
    "Holds if in every cell of the paper that was measured each round of the Linformer is faster than that of a "
    "Transformer that materializes its weights; and if, for each k from the shortest n to the longest, and for each n "
    "from the largest k to the smallest, every round of the last saves more than every one of the first, and no step "
    "saves less by more than its rounds differ. Does not hold if no round is faster, in one cell, or if one step saves "
    "less by more than that.",
    half_rule("table-3", "benchmark-inference-*", "time", against_sdpa),
)


class Table3(CellExperiment):
    def tables(self, records: Sequence[Record]) -> list[Table]:
        """The left half as printed, and the ratios of this implementation that the paper does not have."""
        return [*half_tables("time", records), *(table for record in records for table in other_ratios(record))]

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        return [half_chart("time", records)]

    def paper_cells(self, records: Sequence[Record]) -> Iterable:
        return half_cells("time", records)


SIDES = {"time": "left", "memory": "right"}


def half_tables(half: str, records: Sequence[Record]) -> list[Table]:
    """A half as printed, with ours and ours over the paper's: a table per record."""
    tables, cells = [], _cells_of(half)
    for i, record in enumerate(records or [None]):
        rows = []
        for cell in cells:
            m = _measured(record, cell)
            if i and m is None:  # only the first table names what is missing
                continue
            n = int(cell.row.split(" = ")[1])
            rows.append([f"n = {n:,}, {cell.column}", f"{cell.printed:g}x", *_ours(m, float(cell.printed))])
        where = "" if record is None else f"; ours: {record.identifier}, {describe_setting(record)}"
        caption = f"Table 3 ({SIDES[half]}): {half} saved, against a Transformer that materializes its weights{where}"
        names = {(row, 1): cell.identifier for row, cell in enumerate(cells)} if i == 0 else {}
        if rows:
            heads = ["", "paper", "ours", "lowest to highest", "ours over the paper's"]
            tables.append(Table(heads, rows, caption, names=names))
    return tables


def half_chart(half: str, records: Sequence[Record]) -> Chart:
    """A half as lines, the paper's with ours of the first record."""
    lines = []
    for i, k in enumerate(TABLE_3_DIMENSIONS):
        printed: list[tuple[float, float]] = [
            (n, value) for n in HALVES[half] if (value := paper.table_3(HALVES[half], n, k)) is not None
        ]
        lines.append(Series(f"k = {k}, paper", [printed], True, i))
        for record in records[:1]:
            points = sorted((m.n, m.value) for m in record.select(METRICS[half], baseline="eager", k=k))
            lines += [Series(f"k = {k}, ours", [points], False, i)] if points else []
    ours = "".join(f"; ours: {describe_setting(record)}" for record in records[:1])
    title = f"Table 3 ({SIDES[half]}): {half} saved{ours}"
    return Chart(f"table-3-{half}-chart", title, "n", "times the Transformer's", lines, log_x=True, log_y=True)


def half_cells(half: str, records: Sequence[Record]) -> Iterator[tuple[paper.PaperCell, list[CellResult]]]:
    for cell in _cells_of(half):
        found = [(r, m) for r in records if (m := _measured(r, cell))]
        yield cell, [CellResult((r.identifier,), r.scale, "", m.model_copy(update={"unit": "times"})) for r, m in found]


def _cells_of(half: str) -> list[paper.PaperCell]:
    return [cell for cell in paper.CELLS.values() if cell.table == "table-3" and cell.row.startswith(half)]


def other_ratios(record: Record) -> list[Table]:
    """Time against PyTorch's fused kernel, which the paper did not have, and largest batches on the record's device."""
    times = {(m.n, m.k): m for m in record.select("time_ratio", baseline="sdpa")}
    batches = {base: {(m.n, m.k): m for m in record.select("batch_ratio", baseline=base)} for base in BASELINES}
    rows = []
    for n, k in sorted(set(times).union(*batches.values())):
        time = times.get((n, k))
        largest = [f"{m.value:.3g}x" if (m := batches[base].get((n, k))) else MISSING for base in BASELINES]
        spread_of_time = "" if time is None or time.interval is None else f"{time.low:.3g} to {time.high:.3g}"
        rows.append([f"n = {n:,}, k = {k}", f"{time.value:.3g}x" if time else MISSING, spread_of_time, *largest])
    heads = ["", "time, over sdpa", "lowest to highest", *(f"largest batch, over {base}" for base in BASELINES)]
    chunks = ", with the feed-forward computed in chunks, as on a CPU only" if record.scale == "cpu" else ""
    caption = (
        f"Our ratios that the paper does not have: {record.identifier}, {describe_setting(record)}; "
        f"largest batches for {record.configuration.get('memory_gib', inference.PAPER_MEMORY_GIB):g} GiB{chunks}"
    )
    return [Table(heads, rows, caption)] if rows else []


def _measured(record: Record | None, cell: paper.PaperCell) -> Measurement | None:
    half, n = cell.row.split(", n = ")
    return (
        None
        if record is None
        else record.find(METRICS[half], baseline="eager", n=int(n), k=int(cell.column.removeprefix("k = ")))
    )


def _ours(m: Measurement | None, printed: float) -> list[str]:
    if m is None:
        return [MISSING, "", ""]
    return [f"{m.value:.3g}x", "" if m.interval is None else f"{m.low:.3g} to {m.high:.3g}", f"{m.value / printed:.2f}"]


def describe_setting(record: Record) -> str:
    """What ours was measured on, or counted for; the paper's is a V100."""
    c = record.configuration
    return c["conditions"] if "conditions" in c else f"{setting(record)}, {c['device'].upper()}, {c['dtype']}"


EXPERIMENTS = (
    Table3(
        "table-3",
        "Table 3",
        [TIME],
        [KIND],
        {
            "smoke": lambda: inference.build_cells((256,), (128,), tokens=256, **SMOKE),
            "cpu": lambda: inference.build_cells(
                (512, 1024, 2048, 4096, 8192, 16384), usable_gib=8.0, tokens=4096, **CPU
            ),
            "gpu": lambda: inference.build_cells(usable_gib=70.0, tokens=65536, **GPU),
        },
    ),
)
