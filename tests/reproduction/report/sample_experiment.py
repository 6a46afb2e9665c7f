"""An experiment with one claim, to build reports of few lines."""

from collections.abc import Sequence
from typing import Any

from fairseq_linformer.reproduction.claim import Claim
from fairseq_linformer.reproduction.experiment import Experiment
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.paper import CellResult, PaperCell
from fairseq_linformer.reproduction.records import Measurement, Record
from fairseq_linformer.reproduction.report.charts import Chart, Series
from fairseq_linformer.reproduction.report.tables import Table, spread_cells
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, Check, Verdict, combine, not_measured

from ..sample_records import record

RULE = "Holds if every time is at most `2` s."


def timed(seconds: dict[str, float], scale: str = "cpu", n: int | None = 64, **changes: Any) -> Record:
    """A record of the experiment below: a time for each model, its interval 0.5 s to both sides."""
    measurements = [
        Measurement(metric="seconds", model=m, n=n, value=s, unit="s", interval=(s - 0.5, s + 0.5), repetitions=3)
        for m, s in seconds.items()
    ]
    fields = {"identifier": f"figure-9-{scale}", "experiment": "figure-9", "scale": scale, "configuration": {"n": n}}
    return record(measurements=measurements, **fields | changes)


def evaluate(records: Sequence[Record], scale: str) -> Verdict:
    found = [r for r in records if (r.experiment, r.scale, r.made_by) == ("figure-9", scale, "reproduce")]
    if not found:
        return not_measured("figure-9")
    checks = [
        Check(HOLDS if m.value <= 2 else FAILS, f"{m.model}: {m.value:g} s") for r in found for m in r.measurements
    ]
    return combine(checks, found, ["a remark"])


class Sample(Experiment):
    """Times, as a table, as a chart, and in one cell of Table 9."""

    name, title, scales, reads = "figure-9", "Figure 9", ("smoke", "cpu"), ("data",)
    claims = (Claim("figure-9", "Figure 9, section 8", "It is **fast**.", RULE, evaluate),)
    picture = "curves-figure-3a-cpu"  # in the README

    def cost(self, scale: str) -> str:
        return "nothing"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        return []

    def tables(self, records: Sequence[Record]) -> list[Table]:
        head = ["model", "seconds", "lowest to highest", "runs"]
        return [Table(head, [[m.model, *spread_cells(m, 2)] for m in r.measurements], r.identifier) for r in records]

    def charts(self, records: Sequence[Record]) -> list[Chart]:
        lines = [Series(m.model, [[(1, m.low), (2, m.value)]]) for r in records[:1] for m in r.measurements]
        return [Chart(self.picture, "Figure 9: <times>", "n", "s", lines, note="A note.")] if lines else []

    def earlier_charts(self, records: Sequence[Record]) -> list[Chart]:
        return [Chart("earlier-chart", "Earlier", "n", "s", [Series("old", [[(1, 3.0)]])])]

    def paper_cells(self, records: Sequence[Record]) -> list:
        cell = PaperCell("table-9", "time, n = 64", "k = 16", 1.5)
        return [(cell, [CellResult((r.identifier,), r.scale, m.model, m) for r in records for m in r.measurements])]
