"""Every cell and every claim of the paper in one file to be read by a program: identifier, experiment, ours at each scale."""

import csv
import io
from typing import Iterator, List, Sequence

from ..benchmarks import EXPONENT
from ..ledger import Entry
from ..paper import CELLS
from ..verdict import UNMEASURED
from .of_paper import found_of
from .told import Section

COLUMNS = ("identifier", "where", "paper", "experiment", "scale", "n", "model", "ours", "unit", "lowest", "highest", "repetitions", "entries")
UNITS = {"table-1": EXPONENT, "table-3": "times"}
"""Of ours, where an entry has a bare number."""


def text(sections: Sequence[Section]) -> str:
    """Comma-separated. A line for each cell and each claim, and for each scale, entry and model that something was measured with.

    ``paper`` is what is printed, of a claim its sentence; ``ours`` of a claim its verdict, and ``n`` that of the models that it was
    judged of, where they have one in common. Of Table 1 ours is the exponent of n in the time of a layer, of Table 3 how many times
    faster, or larger the batch. What was not measured says so in ``ours``.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    by_experiment = {section.experiment: section.entries for section in sections}
    writer.writerows(_claims(sections))
    writer.writerows(_cells(by_experiment.get("table-1", []) + by_experiment.get("table-2", []) + by_experiment.get("table-3", [])))
    return file.getvalue()


def _claims(sections: Sequence[Section]) -> Iterator[List]:
    for judged in (judged for section in sections for judged in section.claims):
        claim = judged.claim
        for called, verdict in judged.verdicts:
            scale, _, n = called.partition(", n = ")
            yield [claim.identifier, claim.where, claim.says, claim.experiment, scale, n, "", verdict.outcome, "", "", "", "", " ".join(verdict.entries)]


def _cells(entries: Sequence[Entry]) -> Iterator[List]:
    for cell in CELLS.values():
        told = [cell.identifier, cell.where, cell.printed, cell.experiment]
        found = found_of(cell, entries)
        for of in found:
            m = of.measured
            spread = [f"{at:.4g}" for at in m.spread or ()] or ["", ""]
            yield [*told, of.scale, "", of.model, f"{m.value:.4g}", UNITS.get(cell.experiment, m.unit), *spread, m.repetitions, " ".join(of.entries)]
        if not found:
            yield [*told, "", "", "", UNMEASURED, "", "", "", "", ""]
