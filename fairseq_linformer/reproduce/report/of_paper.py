"""The paper's tables with ours beside them."""

import re
from dataclasses import dataclass, replace
from statistics import mean
from typing import List, Optional, Sequence, Tuple

from .. import paper
from ..benchmark_report import FAMILIES
from ..ledger import Entry, Measurement
from ..paper import AVERAGE, CELLS, Cell
from ..verdict import interval
from . import of_models
from .figures import of_table_3
from .of_models import MISSING
from .tables import Table


@dataclass(frozen=True)
class Found:
    """What was measured of a cell of the paper.

    Attributes:
        entries: that it is from.
        scale: of them.
        model: where several stand for the cell.
        measured: of Table 1 the exponent of n in the time of a layer.
    """

    entries: Tuple[str, ...]
    scale: str
    model: str
    measured: Measurement


def found_of(cell: Cell, entries: Sequence[Entry]) -> List[Found]:
    """Of each entry that has something of a cell, in their order; an average of Table 2, at a scale that has all that it is of.

    An average of which a task has one seed has no lowest and highest.
    """
    if cell.experiment == "table-1":
        models = FAMILIES[cell.row] if cell.column == "per layer" else ()
        named = [(e, model, e.measured.get(f"{model}: exponent of the longer half"))
                 for e in entries if e.identifier.startswith("benchmark-scaling-") for model in models]  # fmt: skip
        return [Found((e.identifier,), e.scale, model, _one_more(m)) for e, model, m in named if m is not None]
    if cell.column == AVERAGE:
        return _averages([found_of(CELLS[of.identifier], entries) for of in _row(cell.row)[:-1]])
    if cell.experiment == "table-2":
        of_cell = [e for e in entries if (row_of(e), e.configuration.get("task")) == (cell.row, cell.column)]
        return [Found((e.identifier,), e.scale, "", m) for e in of_cell if (m := e.measured.get("valid accuracy"))]
    half, n = cell.row.split(", n = ")
    name = f"n={n} {cell.column.replace(' = ', '=')}: eager / linformer{', largest batch' * (half == 'memory')}"
    of_table = [e for e in entries if e.identifier.startswith("benchmark-inference-")]
    return [Found((e.identifier,), e.scale, "", m) for e in of_table if (m := e.measured.get(name))]


def _one_more(m: Measurement) -> Measurement:
    """The exponent of a layer's time, of that of a token's."""
    return replace(m, value=1 + m.value, spread=m.spread and [1 + at for at in m.spread])


def _averages(of_tasks: Sequence[Sequence[Found]]) -> List[Found]:
    averages = []
    for scale in dict.fromkeys(found.scale for of_task in of_tasks for found in of_task):
        found = [next((one for one in of_task if one.scale == scale), None) for of_task in of_tasks]
        if None not in found:
            value, low, high = (mean(values) for values in zip(*((one.measured.value, *interval(one.measured)) for one in found)))
            seeds = min(one.measured.repetitions for one in found)
            m = Measurement(value, "%", [low, high] if seeds > 1 else None, seeds)
            averages.append(Found(tuple(name for one in found for name in one.entries), scale, "", m))
    return averages


def _row(row: str) -> List[Cell]:
    """Of Table 2; the average is the last."""
    return [cell for cell in CELLS.values() if (cell.experiment, cell.row) == ("table-2", row)]


def row_of(entry: Entry) -> Optional[str]:
    """Of Table 2, that an entry of its experiment is beside."""
    if entry.configuration.get("experiment") != "table-2":
        return None
    return entry.paper["where"].split(";")[0].removeprefix("Table 2, ")


def table_1(found: Sequence[Entry]) -> List[Table]:
    """Complexities as printed, and the exponent of n in the time of a layer that was measured, for each entry."""
    entries = [e for e in found if e.identifier.startswith("benchmark-scaling-")]
    rows, names = [], {}
    for family, models in FAMILIES.items():
        per_layer, sequential = (CELLS[f"table-1-{family}-{column}"] for column in ("per-layer", "sequential"))
        names |= {(len(rows), 1): per_layer.identifier, (len(rows), 2): sequential.identifier}
        ours = {(*of.entries, of.model): of.measured for of in found_of(per_layer, entries)}
        for model in models:
            measured = [ours.get((e.identifier, model)) for e in entries] or [None]
            rows.append([family, per_layer.printed, sequential.printed, model, *(MISSING if m is None else f"n^{m.value:.2f}" for m in measured)])
    heads = [f"time of a layer, {e.identifier.removeprefix('benchmark-scaling-')}" for e in entries] or ["time of a layer, ours"]
    caption = ("Table 1: complexity as printed; ours is the exponent of n over the longer half of the lengths, at as many tokens for each n (which is why a "
               "recurrent model's time grows: of fewer and longer sentences it takes more steps one after the other)")  # fmt: skip
    return [Table(["family", "a layer (paper)", "sequential (paper)", "model", *heads], rows, caption, names=names)]


def table_2(found: Sequence[Entry]) -> List[Table]:
    """Every cell of the paper, and for each scale ours where a model of that row was finetuned; then all that were."""
    entries = [e for e in found if row_of(e) is not None]
    scales = list(dict.fromkeys(e.scale for e in entries)) or [""]
    rows, names = [], {}
    for row in paper.TABLE_2:
        line = [row]
        for cell in _row(row):
            names[len(rows), len(line)] = cell.identifier
            ours, digits = {of.scale: of.measured for of in found_of(cell, entries)}, 2 if cell.column == AVERAGE else 1
            line += [f"{cell.printed:.{digits}f}", *(_beside(cell.printed, ours.get(scale), digits) for scale in scales)]
        rows.append(line)
    columns = [cell.column for cell in _row(row)]
    heads = [cell for column in columns for cell in (f"{column} (paper)", *(f"{column}, {scale or 'ours'}" for scale in scales))]
    caption = ("Table 2: accuracy in percent. Ours are models of the same sharing, of the size of the scale; where their RoBERTa has another n, it stands for "
               "512, and n and k of the others are in proportion: median over seeds of finetuning (lowest to highest), and how far it is from the paper's")  # fmt: skip
    return [Table(["n, model, k", *heads], rows, caption, names=names), *of_models.finetuned(entries, "Finetuned here, with and without pretraining")]


def _beside(printed: float, m: Optional[Measurement], digits: int) -> str:
    """Ours with its range, and the difference."""
    if m is None:
        return MISSING
    low, high = interval(m)
    return f"{m.value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f}), {m.value - printed:+.{digits}f}"


def table_3(found: Sequence[Entry]) -> List[Table]:
    """Both halves as the paper prints them, with ours and ours over the paper's: a table for each entry."""
    entries = [e for e in found if e.identifier.startswith("benchmark-inference-")]
    tables = []
    for half, title in (("time", "(left): time"), ("memory", "(right): memory")):
        cells = [cell for cell in CELLS.values() if cell.experiment == "table-3" and cell.row.startswith(half)]
        for at, entry in enumerate(entries or [None]):
            rows = []
            for cell in cells:
                m = next((of.measured for of in found_of(cell, [entry] if entry else [])), None)
                n = int(cell.row.split(" = ")[1])
                if at and m is None:  # of the first entry alone what it lacks is told
                    continue
                rows.append([f"n = {n:,}, {cell.column}", f"{cell.printed:g}x", *([MISSING, "", ""] if m is None else _times(m, cell.printed))])
            where = "" if entry is None else f"; ours: {entry.identifier}, {of_table_3(entry, half)}"
            caption = f"Table 3 {title} saved, against a Transformer that materialises its weights{where}"
            names = {(row, 1): cell.identifier for row, cell in enumerate(cells)} if at == 0 else {}
            if rows:
                tables.append(Table(["", "paper", "ours", "lowest to highest", "ours over the paper's"], rows, caption, names=names))
    return tables


def _times(m: Measurement, printed: float) -> List[str]:
    return [f"{m.value:.3g}x", "" if m.spread is None else f"{m.spread[0]:.3g} to {m.spread[1]:.3g}", f"{m.value / printed:.2f}"]


def per_token(found: Sequence[Entry]) -> List[Table]:
    """Figure 2: the time of a token at a long n over that at the shortest."""
    rows = [[e.identifier, name, *of_models.cells(m, 3)] for e in found if e.identifier.startswith("benchmark-pertoken-")
            for name, m in e.measured.items() if re.fullmatch(r"n=\d+ / n=\d+", name)]  # fmt: skip
    heads = ["entry", "lengths", "ratio of times a token", "lowest to highest", "rounds"]
    return [Table(heads, rows, "Figure 2: the Linformer's time a token")] if rows else []


def of_experiment(experiment: str, found: Sequence[Entry]) -> List[Table]:
    """The tables of one section of the report."""
    fixed = {"table-1": table_1, "table-2": table_2, "table-3": table_3, "figure-2": per_token}
    if experiment in fixed:
        return fixed[experiment](found)
    return of_models.of_entries(found)
