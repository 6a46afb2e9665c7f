"""Experiments that only count: they train nothing, and write only their record."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..machine import current_commit
from .records import Measurement, Paper, Record, circumstances
from .registry import Claim, Experiment, Inputs
from .report.tables import Table

DATA = "none: shapes, random tokens and random heads"


class CountingExperiment(Experiment):
    """
    Args:
        count: computes the record from (scale, command).
    """

    has_run_folders = False

    def __init__(
        self, name: str, title: str, claims: Sequence[Claim], scales: Sequence[str], count: Callable[[str, str], Record]
    ):
        self.name, self.title, self.claims, self.scales, self.count = name, title, tuple(claims), tuple(scales), count

    def check(self, scale: str, inputs: Inputs) -> None:
        super().check(scale, inputs)
        inputs.reject(("runs", "minutes"), self.name, "it only counts, so there is nothing to resume")

    def cost(self, scale: str) -> str:
        return "trains nothing"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        return [self.count(scale, command)]

    def measure_again(self, record: Record, inputs: Inputs) -> tuple[str, list[Record]]:
        self.check(record.scale, inputs)
        return "measured again", self.measure(record.scale, Inputs(), record.command)

    @staticmethod
    def record(
        name: str,
        scale: str,
        command: str,
        start: float,
        measurements: Sequence[Measurement],
        paper: Mapping[str, Any],
        claim: str,
        configuration: Mapping[str, Any],
    ) -> Record:
        """The record of a count, whose numbers must be equal when it is repeated.

        Args:
            measurements, paper, claim, configuration: fields of the record.
            start: ``time.monotonic()`` before counting.
        """
        return Record(
            identifier=f"{name}-{scale}",
            experiment=name,
            made_by="reproduce",
            claim=claim,
            paper=Paper(**paper),
            measurements=list(measurements),
            commit=current_commit(),
            configuration=dict(configuration),
            seconds=round(max(time.monotonic() - start, 0.001), 3),
            tolerance={m.unit: 0.0 for m in measurements},
            **circumstances(DATA, command, scale),
        )

    def tables(self, records: Sequence[Record]) -> list[Table]:
        """Every number with its unit."""
        tables = []
        for record in records:
            rows: list[Sequence[str]] = [[label(m), f"{m.value:,.10g}", m.unit] for m in record.measurements]
            tables.append(Table(["quantity", "value", "unit"], rows, f"{record.identifier}: {record.claim}"))
        return tables


def label(m: Measurement) -> str:
    """Model and metric: ``headwise: matrices``, ``n=512: linformer``."""
    where = [f"n={m.n}"] * (m.n is not None) + [text for text in (m.model, m.sharing) if text]
    return ", ".join(where) + f": {m.metric.replace('_', ' ')}"
