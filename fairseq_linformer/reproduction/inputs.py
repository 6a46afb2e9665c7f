"""The inputs of a measurement, and its time budget."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RUNS = "runs/reproduce"
_KINDS = {
    "data": "a folder written by `fairseq-linformer prepare pretraining`",
    "tasks": "a folder written by `fairseq-linformer prepare TASK`",
    "encoder": "a model of transformers on the hub or in a folder",
    "source": "a text",
}
"""The inputs that an experiment may need, by option."""


@dataclass(frozen=True)
class Inputs:
    """Inputs of a measurement, and its time budget.

    Attributes:
        runs: folder of all runs; None for ``RUNS``.
        data: folder written by ``prepare pretraining``.
        tasks: folder with one folder per task, written by ``prepare TASK``.
        minutes: time budget; None for no limit.
        encoder: a model of ``transformers``, by its name on the hub or its folder.
        source: raw texts, as for ``prepare pretraining --source``.
    """

    runs: str | Path | None = None
    data: str | Path | None = None
    tasks: str | Path | None = None
    minutes: float | None = None
    encoder: str | None = None
    source: tuple[str, ...] | None = None

    @property
    def folder(self) -> Path:
        """Folder of all runs."""
        return Path(RUNS if self.runs is None else self.runs)

    def deadline(self) -> float | None:
        """The ``time.monotonic()`` at which a budget that begins now is spent; None for no limit."""
        return None if self.minutes is None else time.monotonic() + 60 * self.minutes

    def reject(self, options: Sequence[str], name: str, reason: str) -> None:
        """
        Raises:
            ValueError: one of the options is set.
        """
        for option in options:
            if (value := getattr(self, option)) is not None:
                raise ValueError(f"{name} takes no --{option}, got {value}: {reason}")


def is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def check_inputs(name: str, inputs: Inputs, reads: Sequence[str]) -> None:
    """
    Args:
        name: of the experiment.
        reads: options it needs.

    Raises:
        ValueError: one of them is not set, or another one is.
    """
    for option, kind in _KINDS.items():
        value = getattr(inputs, option)
        if (value is not None) == (option in reads):
            continue
        if value is None:
            raise ValueError(f"{name} needs --{option}, {kind}")
        at_scale = " at this scale" * (option in ("data", "tasks"))
        got = ", ".join(value) if option == "source" else value
        raise ValueError(f"{name} takes no --{option}{at_scale}, got {got}")
