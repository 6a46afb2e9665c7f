"""Experiments measured as benchmark cells (the JSON files of ``benchmark.cells``), and their records."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..benchmark import grouping
from ..benchmark.cells import Provenance, is_out_of_memory, measure_cells, read_cells
from ..benchmark.timing import Spread
from ..launching.run_folder import lock_folder
from ..machine import current_commit
from .claim import Claim
from .experiment import Experiment, Unfinished
from .inputs import Inputs
from .records import Measurement, Paper, Record, significant
from .registry import experiments

TOLERANCE = {
    "ratio of times": 0.25,
    "ratio of times per token": 0.25,
    "ratio of batches": 0.0,
    "ratio of bytes": 0.0,
    "exponent of n": 0.2,
}
"""Tolerance by unit: a relative difference, for exponents an absolute one. Counts are exact; times have none."""
_CELL_KEYS = ("peak_operations_per_second", "kernels")

Cell = dict[str, Any]


@dataclass(frozen=True)
class CellKind:
    """How the cells of one kind become a record.

    Attributes:
        name: the first word of the cells' names.
        claim, where: the record's ``claim`` and ``paper.where``.
        measurements: of one cell.
        summary: of all cells of a record; the measurements that need more than one cell.
        paper: the paper's numbers for them.
    """

    name: str
    claim: str
    where: str
    measurements: Callable[[Cell], Iterable[Measurement]]
    summary: Callable[[Sequence[Cell]], Iterable[Measurement]] = lambda cells: ()
    paper: Any = None

    def records(self, folder: Path, experiment: str) -> Iterator[Record]:
        """One record per ``benchmark.grouping.record_id`` in a folder of cells, if any of its cells has a number.

        Raises:
            ValueError: a file is damaged, or cells of one record are of different machines or options.
        """
        groups: dict[str, list[Cell]] = {}
        for cell in read_cells(folder, self.name):
            groups.setdefault(grouping.record_id(cell), []).append(cell)
        for identifier, cells in groups.items():
            if any(self.read(cell) for cell in cells):
                yield self._record(
                    identifier, experiment, sorted(cells, key=lambda cell: cell["configuration"].get("n", 0))
                )

    def read(self, cell: Cell) -> list[Measurement]:
        """The measurements of a cell; none if it ran out of memory.

        Raises:
            ValueError: a cell lacks a number of its kind.
        """
        try:
            return [] if is_out_of_memory(cell) else list(self.measurements(cell))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"{cell['name']}.json is damaged: {type(error).__name__}: {error}") from None

    def _record(self, identifier: str, experiment: str, cells: list[Cell]) -> Record:
        for cell in cells:
            grouping.check_same_record(cell, cells[0])
        if all("peak_operations_per_second" in cell for cell in cells):
            # The highest measured peak: on a busy machine a matrix product only gets slower.
            peak = max(cell["peak_operations_per_second"] for cell in cells)
            cells = [{**cell, "peak_operations_per_second": peak} for cell in cells]
        first = cells[0]
        common = {name: value for name, value in first["configuration"].items() if name not in grouping.CELL_OPTIONS}
        if "models" in common:  # a cell may have some of them only
            common["models"] = list(dict.fromkeys(name for cell in cells for name in cell["configuration"]["models"]))
        failures = {cell["name"]: cell_failures(cell) for cell in cells if cell_failures(cell)}
        return Record(
            identifier=identifier,
            experiment=experiment,
            made_by="benchmark",
            claim=self.claim,
            paper=Paper(value=self.paper, where=self.where),
            measurements=[
                *(m for cell in cells for m in self.read(cell)),
                *self.summary([cell for cell in cells if not is_out_of_memory(cell)]),
            ],
            scale="cpu" if first["configuration"]["device"] == "cpu" else "gpu",
            hardware=first["hardware"],
            versions=first["versions"],
            commit="; ".join(sorted({cell["commit"] for cell in cells})),
            configuration={
                **common,
                **{key: first[key] for key in ("threads", "clock", "peak_from") if key in first},
                "cells": {cell["name"]: _varying(cell) for cell in cells},
                "failed": failures,
            },
            data=common.get("data", "random tokens"),
            command="; ".join(dict.fromkeys(cell["command"] for cell in cells)),
            seconds=max(0.1, round(sum(cell["seconds"] for cell in cells), 1)),
            date=max(cell["date"] for cell in cells),
        )


def cell_failures(cell: Cell) -> dict[str, str]:
    """The reason of each model that could not be measured, by its name."""
    return cell["measured"].get("failed", {})


def _varying(cell: Cell) -> dict[str, Any]:
    """Options and facts that differ between the cells of a record: sizes, the peak behind the utilization, kernels of
    fused attention, and the models whose bytes were counted because they do not fit the GPU."""
    sizes = {name: value for name, value in cell["configuration"].items() if name in grouping.CELL_OPTIONS}
    own = {**{name: cell.get(name) for name in _CELL_KEYS}, "counted": cell["measured"].get("counted")}
    return {**sizes, **{name: value for name, value in own.items() if value}}


def spread(values: Spread, unit: str, factor: float = 1.0) -> dict[str, Any]:
    """Value, interval, repetitions and unit of a measurement, five digits each."""
    value, low, high = (significant(factor * x, 5) for x in (values.median, values.lowest, values.highest))
    return {
        "value": value,
        "unit": unit,
        "interval": (low, high) if values.repetitions > 1 else None,
        "repetitions": values.repetitions,
    }


def single_value(value: float, unit: str) -> dict[str, Any]:
    return {"value": significant(value, 5), "unit": unit}


class CellExperiment(Experiment):
    """An experiment whose measurements are benchmark cells.

    Args:
        kinds: of its cells.
        cells_at: a function that builds the cells, by scale.
    """

    def __init__(
        self,
        name: str,
        title: str,
        claims: Sequence[Claim],
        kinds: Sequence[CellKind],
        cells_at: Mapping[str, Callable[[], list]],
    ):
        self.name, self.title, self.claims, self.kinds, self.cells_at = (
            name,
            title,
            tuple(claims),
            tuple(kinds),
            cells_at,
        )
        self.scales = tuple(cells_at)

    def cost(self, scale: str) -> str:
        return "trains nothing"

    def _folder(self, scale: str, inputs: Inputs) -> Path:
        return inputs.folder / scale / self.name / "cells"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        folder = self._folder(scale, inputs)
        cells = self.cells_at[scale]()
        folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder):
            left = measure_cells(cells, folder, Provenance(current_commit(), command), inputs.minutes)
        if left:
            raise Unfinished(
                f"{self.name}: the time budget is spent; {len(left)} of {len(cells)} measurements are left; "
                f"rerun the command to resume"
            )
        found = [record for kind in self.kinds for record in kind.records(folder, self.name)]
        return [
            record.copy_with(
                identifier=f"{record.identifier}-{scale}",
                made_by="reproduce",
                scale=scale,
                command=command,
                tolerance=TOLERANCE,
            )
            for record in found
        ]


def kinds() -> dict[str, tuple[CellKind, str]]:
    """All kinds of cells, with the name of their experiment."""
    return {kind.name: (kind, each.name) for each in experiments() for kind in getattr(each, "kinds", ())}


def records_in(folder: Path) -> list[Record]:
    """The records of all cells in a folder.

    Raises:
        ValueError: as ``CellKind.records``.
    """
    return [record for kind, experiment in kinds().values() for record in kind.records(Path(folder), experiment)]


def failures_in(folder: Path) -> list[str]:
    """The reason of each model that could not be measured, for all cells of a folder."""
    cells = (cell for kind in kinds() for cell in read_cells(folder, kind))
    return [f"{cell['name']}: {name}: {why}" for cell in cells for name, why in cell_failures(cell).items()]


def setting(record: Record) -> str:
    """The number of layers, and the threads of the CPU or the name of the GPU."""
    c = record.configuration
    if record.scale != "gpu" and "threads" in c:
        where = [f"{c['threads']} thread{'s' * (c['threads'] > 1)}"]
    else:
        where = record.hardware.get("accelerators", [])[:1]
    return ", ".join([f"{c['layers']} layer{'s' * (c['layers'] > 1)}", *where])
