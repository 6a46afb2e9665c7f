"""Table 3: how much faster the Linformer is, and how many times larger its batches, by n and k.

    fairseq-linformer reproduce table-3 --scale cpu
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...benchmark import inference
from ...benchmark.encoders import BASELINES
from ...benchmark.timing import ratio, spread_of
from .. import paper
from ..cells import Cell, CellExperiment, CellKind, evidence, once, setting, spread
from ..paper import TABLE_3_DIMENSIONS, CellResult
from ..records import Measurement, Record
from ..registry import Claim
from ..report.charts import Chart, Series
from ..report.tables import MISSING, Table
from ..statistics import FAILS, HOLDS, UNDECIDED, Check, Evaluate, Verdict, combine_records, not_measured
from .table_1 import CPU, GPU, SMOKE

METRICS = {"time": "time_ratio", "memory": "batch_ratio"}
HALVES = {"time": paper.TABLE_3_TIME, "memory": paper.TABLE_3_MEMORY}
"""Of Table 3, left and right."""


def _measurements(cell: Cell) -> Iterator[Measurement]:
    """Seconds of each model; and for each k, the Transformer's over the Linformer's."""
    c, found = cell["configuration"], cell["measured"]
    n, seconds, largest = c["n"], found["seconds"], found["largest"]
    for name, values in seconds.items():
        yield Measurement(metric="seconds", n=n, **_model(name), **spread(spread_of(values), "s"))
    for k in c["dimensions"]:
        ours = f"k={k}"
        for base in BASELINES:
            at = {"model": "linformer", "baseline": base, "n": n, "k": k}
            if base in seconds and ours in seconds:
                yield Measurement(metric="time_ratio", **at, **spread(ratio(seconds[base], seconds[ours]), "ratio of times"))
            if largest.get(base) and largest.get(ours):
                yield Measurement(metric="batch_ratio", **at, **once(largest[ours] / largest[base], "ratio of batches"))
            if base in found["bytes"] and ours in found["bytes"]:
                per_sentence = [after - before for before, after in (found["bytes"][base], found["bytes"][ours])]
                yield Measurement(metric="bytes_ratio", **at, **once(per_sentence[0] / per_sentence[1], "ratio of bytes"))


def _model(name: str) -> dict:
    return {"model": "linformer", "k": int(name.removeprefix("k="))} if name.startswith("k=") else {"model": name}


KIND = CellKind(
    "inference",
    "A full forward pass without gradients, Transformer (eager: materialised weights; sdpa: PyTorch's fused kernel) against Linformer "
    "with layerwise sharing, equal tokens: how many times the time, and how many times the largest batch",
    "section 5.3, Table 3", _measurements,
    paper={f"n={n} k={k}": {half: paper.table_3(table, n, k) for half, table in HALVES.items()}
           for n in paper.TABLE_3_TIME for k in TABLE_3_DIMENSIONS if paper.table_3(paper.TABLE_3_TIME, n, k)},
)  # fmt: skip


def measured_cells(record: Record, half: str) -> dict[tuple[int, int], Measurement]:
    """By (n, k), in the paper's order: what stands beside its cells, against a Transformer that materializes its weights."""
    by_place = {(m.n, m.k): m for m in record.select(METRICS[half], baseline="eager")}
    printed = ((n, k) for n in HALVES[half] for k in TABLE_3_DIMENSIONS if paper.table_3(HALVES[half], n, k) is not None)
    return {place: by_place[place] for place in printed if place in by_place}


def rule_of(half: str, words: str) -> Evaluate:
    """More than 1 in every cell, rising with n and with a smaller k.

    Args:
        words: what the ratio says.
    """

    def checks(record: Record) -> list[Check]:
        cells, found = measured_cells(record, half), []
        for (n, k), m in cells.items():
            outcome = HOLDS if m.low > 1 else FAILS if m.high <= 1 else UNDECIDED
            printed = paper.table_3(HALVES[half], n, k)
            found.append(Check(outcome, f"n = {n}, k = {k}: {words} {m.value:.3g} times (paper: {printed:g}), more than 1 wanted"))
        return found + _in_order(cells)

    def evaluate(records: Sequence[Record], scale: str) -> Verdict:
        found = [r for r in evidence(records, "table-3", scale) if measured_cells(r, half)]
        missing = not_measured(f"benchmark-inference-* of scale {scale} with a cell of Table 3")
        return combine_records(found, checks) if found else missing

    return evaluate


def _in_order(cells: Mapping[tuple[int, int], Measurement]) -> list[Check]:
    """For each k over all n, and for each n over all k: the saving rises with n, and with a smaller k."""
    checks = []
    for k in sorted({k for _, k in cells}):
        checks += _rises([(f"n = {n}", cells[n, k]) for n in sorted(n for n, other in cells if other == k)], f"k = {k}")
    for n in sorted({n for n, _ in cells}):
        checks += _rises([(f"k = {k}", cells[n, k]) for k in sorted((k for other, k in cells if other == n), reverse=True)], f"n = {n}")
    return checks


def _rises(line: list[tuple[str, Measurement]], where: str) -> list[Check]:
    """Every round of the last is above every one of the first, and no step goes down by more than rounds differ."""
    if len(line) < 2:
        return []
    down = next(((a, b) for (a, x), (b, y) in zip(line, line[1:]) if y.high < x.low), None)
    (first, x), (last, y) = line[0], line[-1]
    outcome = FAILS if down else HOLDS if y.low > x.high else UNDECIDED
    said = f"{where}: {x.value:.3g} times at {first}, {y.value:.3g} at {last}, every round above every other and no step down wanted"
    return [Check(outcome, said + (f"; it falls from {down[0]} to {down[1]}" if down else ""))]


TIME = Claim(
    "table-3-time", "Table 3 (left), section 5.3",
    "The Linformer is faster than the Transformer, the more so the longer n and the smaller k.",
    "Holds if in every cell of the paper that was measured each round of the Linformer is faster than that of a Transformer that materialises its "
    "weights; and if, for each k from the shortest n to the longest, and for each n from the largest k to the smallest, every round of the last saves "
    "more than every one of the first, and no step saves less by more than its rounds differ. Does not hold if no round is faster, in one cell, or if "
    "one step saves less by more than that.", rule_of("time", "faster"),
)  # fmt: skip
MEMORY = Claim(
    "table-3-memory", "Table 3 (right), section 5.3",
    "The Linformer takes larger batches than the Transformer, the more so the longer n and the smaller k.",
    "Holds if in every cell of the paper that was measured its largest batch is larger; and if it is the more so, for each k from the shortest n to the "
    "longest, and for each n from the largest k to the smallest, with no step down. Does not hold if it is not larger, in one cell, or if a step "
    "goes down. (Written when an earlier measurement was known.)", rule_of("memory", "a larger batch,"),
)  # fmt: skip


class Table3(CellExperiment):
    def tables(self, records: Sequence[Record]) -> list[Table]:
        """Both halves as printed, with ours and ours over the paper's: a table per record."""
        tables = []
        for half, side in (("time", "left"), ("memory", "right")):
            cells = [cell for cell in paper.CELLS.values() if cell.table == "table-3" and cell.row.startswith(half)]
            for i, record in enumerate(records or [None]):
                rows = []
                for cell in cells:
                    m = _measured(record, cell)
                    if i and m is None:  # only the first table names what is missing
                        continue
                    n = int(cell.row.split(" = ")[1])
                    rows.append([f"n = {n:,}, {cell.column}", f"{cell.printed:g}x", *_ours(m, cell.printed)])
                where = "" if record is None else f"; ours: {record.identifier}, {circumstances_of(record, half)}"
                caption = f"Table 3 ({side}): {half} saved, against a Transformer that materialises its weights{where}"
                names = {(row, 1): cell.identifier for row, cell in enumerate(cells)} if i == 0 else {}
                if rows:
                    heads = ["", "paper", "ours", "lowest to highest", "ours over the paper's"]
                    tables.append(Table(heads, rows, caption, names=names))
        return tables + [table for record in records for table in fused_table(record)]

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        """Both halves as lines, the paper's beside ours of the first record."""
        charts = []
        for half, side in (("time", "left"), ("memory", "right")):
            lines = []
            for i, k in enumerate(TABLE_3_DIMENSIONS):
                printed = [(n, value) for n in HALVES[half] if (value := paper.table_3(HALVES[half], n, k)) is not None]
                lines.append(Series(f"k = {k}, paper", [printed], True, i))
                for record in records[:1]:
                    points = sorted((m.n, m.value) for m in record.select(METRICS[half], baseline="eager", k=k))
                    lines += [Series(f"k = {k}, ours", [points], False, i)] if points else []
            ours = "".join(f"; ours: {circumstances_of(record, half)}" for record in records[:1])
            charts.append(Chart(f"table-3-{half}-chart", f"Table 3 ({side}): {half} saved{ours}", "n", "times the Transformer's", lines,
                                log_x=True, log_y=True))  # fmt: skip
        return charts

    def paper_cells(self, records: Sequence[Record]) -> Iterable:
        for cell in paper.CELLS.values():
            if cell.table == "table-3":
                found = [(r, m) for r in records if (m := _measured(r, cell))]
                yield cell, [CellResult((r.identifier,), r.scale, "", m.model_copy(update={"unit": "times"})) for r, m in found]


def fused_table(record: Record) -> list[Table]:
    """Time and memory saved against PyTorch's fused kernel, which the paper did not have."""
    times, batches = ({(m.n, m.k): m for m in record.select(METRICS[half], baseline="sdpa")} for half in ("time", "memory"))
    rows = []
    for n, k in sorted({*times, *batches}):
        time, memory = times.get((n, k)), batches.get((n, k))
        spread_of_time = "" if time is None or time.interval is None else f"{time.low:.3g} to {time.high:.3g}"
        rows.append([f"n = {n:,}, k = {k}", f"{time.value:.3g}x" if time else MISSING, spread_of_time,
                     f"{memory.value:.3g}x" if memory else MISSING])  # fmt: skip
    caption = f"Against PyTorch's fused attention (sdpa): {record.identifier}, {circumstances_of(record, 'memory')}"
    return [Table(["", "time", "lowest to highest", "largest batch"], rows, caption)] if rows else []


def _measured(record: Record | None, cell: paper.Cell) -> Measurement | None:
    half, n = cell.row.split(", n = ")
    return record and record.find(METRICS[half], baseline="eager", n=int(n), k=int(cell.column.removeprefix("k = ")))


def _ours(m: Measurement | None, printed: float) -> list[str]:
    if m is None:
        return [MISSING, "", ""]
    return [f"{m.value:.3g}x", "" if m.interval is None else f"{m.low:.3g} to {m.high:.3g}", f"{m.value / printed:.2f}"]


def circumstances_of(record: Record, half: str) -> str:
    """What ours was measured on, which is not the paper's 12 layers on a V100."""
    c = record.configuration
    memory = f", largest batches computed for {c.get('memory_gib', inference.PAPER_MEMORY):g} GiB" if half == "memory" else ""
    return f"{setting(record)}, {c['device'].upper()}, {c['dtype']}{memory}"


EXPERIMENTS = (
    Table3("table-3", "Table 3", [TIME, MEMORY], [KIND], {
        "smoke": lambda: inference.rows((256,), (128,), tokens=256, **SMOKE),
        "cpu": lambda: inference.rows((512, 1024, 2048, 4096, 8192, 16384), usable_gib=8.0, tokens=4096, **CPU),
        "gpu": lambda: inference.rows(usable_gib=70.0, tokens=65536, **GPU),
    }),
)  # fmt: skip
