"""Rows: the numbers of a measurement, each with what was measured."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

FAIRSEQ_MODELS = ("ours", "roberta", "authors")
TRAINABLE = (
    *FAIRSEQ_MODELS,
    *("linformer", "transformer-eager", "transformer-sdpa", "lucidrains", "linformer-pytorch"),
)
"""Models that have losses; the others only have features."""
MODELS = (*TRAINABLE, "recurrent", "bigbird", "longformer", "reformer", "modernbert")
"""The compared models, which ``models.py`` builds."""
LINFORMERS = ("ours", "authors", "linformer", "lucidrains", "linformer-pytorch")
"""Models that have a k."""
OURS = ("ours", "linformer")
"""Models of this project, which are compared with the others."""
HEAD_DIM = 64


class Row(dict):
    """A number or a curve: ``metric``, ``value`` and ``unit``, or ``points``; and where it was taken, such as ``n``.

    Keys are also attributes; a key that the row does not have is None. ``low`` and ``high`` are the extremes of
    ``repetitions``, or a 95 % confidence interval; a single measurement has neither, and both are its value.
    """

    def __getattr__(self, name: str) -> Any:
        if name in ("low", "high"):
            return self.get(name, self["value"])
        return self.get(name)


class Case(NamedTuple):
    """A model at a size: ``n`` tokens per sentence, and for a Linformer k and its local window."""

    model: str
    n: int
    k: int | None = None
    local_window: int = 0

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of its rows: the fields that are set."""
        return {name: value for name, value in self._asdict().items() if value}


def significant(value: float) -> float:
    """Round to six significant digits."""
    return float(f"{float(value):.6g}")


def repeated(values: Sequence[float], average: Callable[[Sequence[float]], float] = median) -> dict[str, Any]:
    """``value`` (the median, or another average), ``low``, ``high`` and ``repetitions`` of a row, in six digits."""
    rounded = [significant(value) for value in values]
    found = {"value": significant(average(rounded))}
    return found | {"low": min(rounded), "high": max(rounded), "repetitions": len(rounded)} if rounded[1:] else found


def ratio(numerators: Sequence[float], denominators: Sequence[float], unit: str = "ratio of times") -> dict[str, Any]:
    """``repeated`` ratios, round by round, with their unit."""
    return {"unit": unit, **repeated([a / b for a, b in zip(numerators, denominators, strict=True)])}
