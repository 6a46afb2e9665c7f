"""Experiments that train nothing and write only their records."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..machine import current_commit
from .experiment import Experiment
from .inputs import Inputs
from .records import Curve, Measurement, Paper, Record, circumstances

RANDOM_TOKENS = "none: random tokens"


class UntrainedExperiment(Experiment):
    """An experiment that trains nothing, so that there is nothing to resume."""

    def check(self, scale: str, inputs: Inputs) -> None:
        super().check(scale, inputs)
        inputs.reject(("runs", "minutes"), self.name, "it trains nothing, so there is nothing to resume")

    def record(
        self,
        scale: str,
        command: str,
        started: float,
        claim: str,
        measurements: Sequence[Measurement],
        configuration: Mapping[str, Any],
        tolerance: Mapping[str, float],
        data: str,
        paper: Paper | None = None,
        curves: Sequence[Curve] = (),
        identifier: str = "",
    ) -> Record:
        """The record of a measurement that ends now.

        Args:
            started: ``time.monotonic()`` before the measurement.
            claim, measurements, configuration, tolerance, data, curves: fields of the record.
            paper: None for a measurement that is not in the paper.
            identifier: empty for NAME-SCALE.
        """
        return Record(
            identifier=identifier or f"{self.name}-{scale}",
            experiment=self.name,
            made_by="reproduce",
            claim=claim,
            paper=paper or Paper(where="not in the paper"),
            measurements=list(measurements),
            curves=list(curves),
            commit=current_commit(),
            configuration=dict(configuration),
            seconds=round(max(time.monotonic() - started, 0.001), 3),
            tolerance=dict(tolerance),
            **circumstances(data, command, scale),
        )
