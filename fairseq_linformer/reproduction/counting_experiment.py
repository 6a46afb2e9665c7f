"""Experiments that only count: they train nothing, and repeated counts are equal."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .claim import Claim
from .inputs import Inputs
from .records import Measurement, Paper, Record
from .report.tables import Table
from .untrained_experiment import UntrainedExperiment

DATA = "none: shapes, random tokens and random heads"


class CountingExperiment(UntrainedExperiment):
    """
    Args:
        count: scale to measurements.
        claim, paper: of the record.
        configuration: scale to the configuration of the record.
    """

    def __init__(
        self,
        name: str,
        title: str,
        claims: Sequence[Claim],
        scales: Sequence[str],
        count: Callable[[str], Iterable[Measurement]],
        claim: str,
        paper: Paper,
        configuration: Callable[[str], Mapping[str, Any]],
    ):
        self.name, self.title, self.claims, self.scales = name, title, tuple(claims), tuple(scales)
        self.count, self.claim, self.paper, self.configuration = count, claim, paper, configuration

    def cost(self, scale: str) -> str:
        return "trains nothing"

    def measure(self, scale: str, inputs: Inputs, command: str) -> list[Record]:
        started, measurements = time.monotonic(), list(self.count(scale))
        exact = {m.unit: 0.0 for m in measurements}
        configuration = self.configuration(scale)
        return [self.record(scale, command, started, self.claim, measurements, configuration, exact, DATA, self.paper)]

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
