"""Table 2: accuracy on SST-2, IMDB, QNLI and QQP after finetuning, by n, k and sharing.

    fairseq-linformer reproduce table-2 --scale cpu --data TEXT --tasks TASKS

Pretrains a RoBERTa, converts it to the Linformers, and finetunes all of them; one of each kind without pretraining too.
The plan and the training are in ``finetuning_experiment.py``, what a finetuning measures in ``finetuning_records.py``,
the claims in ``table_2_claims.py``.
"""

from collections.abc import Iterable, Sequence
from statistics import mean

from .. import paper
from ..accuracies import near_chance
from ..finetuning_experiment import FinetuningExperiment
from ..paper import AVERAGE, CellResult
from ..paper_table_2 import PaperTable2
from ..records import Measurement, Record
from ..report.tables import MISSING, Table, spread_cells
from ..table_2_claims import CLAIMS


class Table2(FinetuningExperiment):
    def tables(self, records: Sequence[Record]) -> list[Table]:
        """Every cell of the paper, with ours of each scale next to it; then all that was finetuned."""
        scales: list[str] = list(dict.fromkeys(r.scale for r in records)) or [""]
        skipped = {scale: _skipped_tasks(records, scale) for scale in scales}
        rows: list[list] = []
        names: dict[tuple[int, int], str] = {}
        for row in paper.TABLE_2:
            line = [row]
            for cell in _row(row):
                names[len(rows), len(line)] = cell.identifier
                digits = 2 if cell.column == AVERAGE else 1
                ours = {each.scale: each.measured for each in _results(cell, records)}
                line.append(f"{cell.printed:.{digits}f}")
                for scale in scales:
                    without = skipped[scale] if cell.column == AVERAGE else []
                    line.append(_compared(cell, ours.get(scale), digits, without))
            rows.append(line)
        columns = [cell.column for cell in _row(row)]
        heads = [
            head
            for column in columns
            for head in (f"{column} (paper)", *(f"{column}, {scale or 'ours'}" for scale in scales))
        ]
        caption = (
            "Table 2: accuracy in percent, median over finetuning seeds (lowest to highest), and the difference from "
            "the paper's. Our models have the sharing of their row; if our RoBERTa's n is not 512, their n and k are "
            "scaled in proportion. Averages skip tasks near chance, also in the difference from the paper's"
        )
        return [
            Table(["n, model, k", *heads], rows, caption, names=names),
            *_finetuned(records, "Finetuned here, with and without pretraining"),
        ]

    def earlier_tables(self, records: Sequence[Record]) -> list[Table]:
        return _finetuned(records, "Finetuned before, at other sizes and with other recipes")

    def paper_cells(self, records: Sequence[Record]) -> Iterable:
        for cell in paper.CELLS.values():
            if cell.table == "table-2":
                yield cell, _results(cell, records)


def _row(row: str) -> list[paper.PaperCell]:
    """The average is the last."""
    return [cell for cell in paper.CELLS.values() if (cell.table, cell.row) == ("table-2", row)]


def _skipped_tasks(records: Iterable[Record], scale: str) -> list[str]:
    """Tasks that are near chance at a scale."""
    return list(near_chance([r for r in records if r.scale == scale], _tasks()))


def _tasks() -> list[str]:
    return list(next(iter(paper.TABLE_2.values())))


def _results(cell: paper.PaperCell, records: Sequence[Record]) -> list[CellResult]:
    """A result per record of a cell; of an average, one per scale that has all tasks, without those near chance
    (without an interval where one has a single seed)."""
    if cell.column != AVERAGE:
        cell_records = [r for r in records if (row_of(r), r.configuration.get("task")) == (cell.row, cell.column)]
        return [
            CellResult((r.identifier,), r.scale, "", m)
            for r in cell_records
            if (m := r.find("accuracy", split="valid"))
        ]
    by_task = {other.column: _results(other, records) for other in _row(cell.row)[:-1]}
    averages = []
    for scale in dict.fromkeys(each.scale for task in by_task.values() for each in task):
        skipped = _skipped_tasks(records, scale)
        wanted = [results for task, results in by_task.items() if task not in skipped]
        first = [next((each for each in results if each.scale == scale), None) for results in wanted]
        found = [each for each in first if each is not None]
        if found and len(found) == len(wanted):
            value, low, high = (
                mean(values) for values in zip(*((e.measured.value, e.measured.low, e.measured.high) for e in found))
            )
            seeds = min(each.measured.repetitions for each in found)
            m = Measurement(
                metric="accuracy", value=value, unit="%", interval=(low, high) if seeds > 1 else None, repetitions=seeds
            )
            names = tuple(name for each in found for name in each.records)
            averages.append(CellResult(names, scale, f"without {', '.join(skipped)}" if skipped else "", m))
    return averages


def row_of(record: Record) -> str:
    """The row of the paper's table that a record corresponds to."""
    return record.paper.where.split(";")[0].removeprefix("Table 2, ")


def _compared(cell: paper.PaperCell, m: Measurement | None, digits: int, without: Sequence[str]) -> str:
    """Ours with its interval, and the difference from the paper's; of an average, over the same tasks."""
    if m is None:
        return MISSING
    printed = float(cell.printed)
    if without:
        printed = mean(accuracy for task, accuracy in paper.TABLE_2[cell.row].items() if task not in without)
    skipped = f", without {', '.join(without)}" if without else ""
    return f"{m.value:.{digits}f} ({m.low:.{digits}f} to {m.high:.{digits}f}), {m.value - printed:+.{digits}f}{skipped}"


def _finetuned(records: Sequence[Record], caption: str) -> list[Table]:
    """A row for each task and model."""
    rows = []
    for r in records:
        f1, model = r.find("f1", split="valid"), r.claim.split(": ", 1)[-1].split("; scores")[0]
        rows.append(
            [
                r.configuration["task"],
                model,
                *spread_cells(r.find("accuracy", split="valid"), 2),
                f"{f1.value:.3f}" if f1 else "",
                spread_cells(r.find("majority", split="valid"), 2)[0],
            ]
        )
    heads = ["task", "model", "accuracy, %", "lowest to highest", "seeds", "F1", "most frequent class, %"]
    return [Table(heads, rows, caption)] if rows else []


EXPERIMENTS = (Table2("table-2", "Table 2", CLAIMS, PaperTable2),)
