"""The experiments on both theorems, which one run measures."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

from ..analysis import theorems
from ..files import new_folder, read_json, write_lines
from ..machine import current_commit
from .claim import Claim
from .counting_experiment import DATA
from .experiment import Experiment
from .inputs import Inputs
from .records import Measurement, Paper, Record, circumstances, significant
from .report.charts import Chart
from .report.tables import Table
from .shared_work import LOCKS, lock

FOLDER, NEIGHBOR, PROVENANCE = "theorems", "neighbor.json", "theorems.json"
EPSILON = 0.5
"""Of the tables and charts; the records have others too."""
SIZES = {"smoke": ([16, 32], 8, 4), "cpu": ([128, 512, 2048], 64, 60)}
"""Lengths, width of a head and draws of R, by scale."""
ROUNDING = 1e-4
"""Relative tolerance of what is computed with the same seed on another processor."""


class TheoremExperiment(Experiment):
    """A theorem on heads without a model. One run measures both theorems, and each has a record.

    RUNS/SCALE/theorems/    numbers of the heads, and the commit and machine that measured them

    Args:
        measurements: (numbers of one source of heads, as in ``theorems.json``, the source) to measurements.
        claim, where: the record's ``claim`` and ``paper.where``.
        part: key of the theorem in the numbers. Sources without it have no measurements in the record.
        build_charts: the charts of a record.
    """

    scales = tuple(SIZES)

    def __init__(
        self,
        name: str,
        title: str,
        claims: Sequence[Claim],
        measurements: Callable[[Mapping, str], Iterator[Measurement]],
        claim: str,
        where: str,
        part: str,
        build_charts: Callable[[Record], list[Chart]],
    ):
        self.name, self.title, self.claims, self.measurements = name, title, tuple(claims), measurements
        self.claim, self.where, self.part, self.build_charts = claim, where, part, build_charts

    def check(self, scale: str, inputs: Inputs) -> None:
        super().check(scale, inputs)
        inputs.reject(("minutes",), self.name, "it runs in one go")

    def cost(self, scale: str) -> str:
        return "trains nothing"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        sources, here = measure_heads(scale, inputs.folder / scale / FOLDER, command)
        sources = {source: numbers for source, numbers in sources.items() if self.part in numbers}
        measurements = [m for source, numbers in sources.items() for m in self.measurements(numbers, source)]
        runs = {source: self._facts(numbers) for source, numbers in sources.items()}
        return [
            Record(
                identifier=f"{self.name}-{scale}",
                experiment=self.name,
                made_by="reproduce",
                claim=self.claim,
                paper=Paper(where=self.where),
                measurements=measurements,
                configuration={"runs": runs},
                seconds=max(round(sum(facts["seconds"] for facts in runs.values()), 3), 0.001),
                tolerance={m.unit: ROUNDING for m in measurements},
                **here,
            )
        ]

    def _facts(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """What the heads are, and the seconds of the theorem."""
        facts = {key: value for key, value in numbers.items() if key not in ("theorem1", "theorem2", "rank_k")}
        return {**facts, "seconds": facts["seconds"][self.part]}

    def tables(self, records: Sequence[Record]) -> list[Table]:
        return []

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        return [chart for record in records for chart in self.build_charts(record)]


def measure_heads(scale: str, folder: Path, command: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The numbers of random heads and of neighbor heads, measured once, and the fields of a record that say where.

    Returns:
        By source: ``random``, all of ``theorems.json``; ``neighbor``, theorem 1 only.
    """
    lengths, width, draws = SIZES[scale]
    here = {"commit": current_commit(), **circumstances(DATA, command, scale)}
    shape = {"lengths": lengths, "width": width}
    with lock(folder.parent / LOCKS / FOLDER, wait=True):  # of the other theorem's experiment
        files = (folder / FOLDER / theorems.NUMBERS, folder / NEIGHBOR, folder / PROVENANCE)
        if not all(file.exists() for file in files):  # an earlier version could leave some
            rmtree(folder, ignore_errors=True)
            with new_folder(folder) as new:
                numbers = theorems.measure_theorem1(theorems.build_neighbor_heads(lengths, width, 1), draws, 1)
                _write(new / NEIGHBOR, {"heads": "neighbor", **shape, **numbers})
                heads = theorems.build_random_heads(lengths, width, 1)
                theorems.measure_theorems(heads, new / FOLDER, draws, EPSILON, 1, {"heads": "random", **shape})
                _write(new / PROVENANCE, {name: here[name] for name in ("commit", "hardware", "versions", "date")})
    sources = {"random": read_json(folder / FOLDER / theorems.NUMBERS), "neighbor": read_json(folder / NEIGHBOR)}
    for numbers in sources.values():
        if {name: numbers.get(name) for name in shape} != shape:
            raise ValueError(f"{folder} has heads of other sizes; use another --runs")
    return sources, {**here, **read_json(folder / PROVENANCE)}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    write_lines(path, [json.dumps(content, indent=1)])


def summary_measurements(metric: str, summary: Mapping[str, Any], unit: str, **fields: Any) -> Iterator[Measurement]:
    """Of ``analysis.samples.summarize``: the value, if there is one. If some heads or draws lack it, also the share of
    those that have it."""
    if summary["value"] is not None:
        value, least, most = (significant(summary[key]) for key in ("value", "least", "most"))
        interval = (least, most) if summary["count"] > 1 else None
        yield Measurement(
            metric=metric, value=value, unit=unit, interval=interval, repetitions=summary["count"], **fields
        )
    if summary["count"] < summary["of"]:
        yield share_measurement(metric, summary, **fields)


def share_measurement(metric: str, summary: Mapping[str, Any], **fields: Any) -> Measurement:
    """The share of heads and draws for which something exists."""
    share = significant(summary["count"] / summary["of"])
    return Measurement(
        metric=f"{metric}_share", value=share, unit=f"share of {summary['of']} heads and draws", **fields
    )
