"""Rows: the numbers of a measurement, each with what was measured, and comparisons of models by them."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

FAIRSEQ_MODELS = ("ours", "roberta", "authors")
TRAINABLE = (*FAIRSEQ_MODELS, "linformer", "transformer-eager", "transformer-sdpa")
"""Models that have losses; the others only have features."""
MODELS = (*TRAINABLE, "recurrent", "bigbird", "longformer", "reformer", "modernbert")
"""The compared models, which ``models.py`` builds."""
LINFORMERS = ("ours", "authors", "linformer")
"""Models that have a k."""
OURS = ("ours", "linformer")
"""Models of this project, which are compared with the others."""
HEAD_DIM = 64
NO_MEMORY = "out of memory"


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
    """A model at a size: ``n`` tokens per sentence, and for a Linformer k and its local window; and ``positions`` of a
    model that is finetuned on shorter inputs, otherwise n."""

    model: str
    n: int
    k: int | None = None
    local_window: int = 0
    positions: int | None = None

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of its rows: the fields that are set, without the positions, which all cases of a phase have."""
        return {name: value for name, value in self._asdict().items() if value and name != "positions"}


def significant(value: float) -> float:
    """Round to six significant digits."""
    return float(f"{float(value):.6g}")


def repeated(values: Sequence[float], average: Callable[[Sequence[float]], float] = median) -> dict[str, Any]:
    """``value`` (the median, or another average), ``low``, ``high`` and ``repetitions`` of a row, in six digits;
    nothing without values."""
    rounded = [significant(value) for value in values]
    found = {"value": significant(average(rounded))} if rounded else {}
    return found | {"low": min(rounded), "high": max(rounded), "repetitions": len(rounded)} if rounded[1:] else found


def ratio(numerators: Sequence[float], denominators: Sequence[float], unit: str = "ratio of times") -> dict[str, Any]:
    """``repeated`` ratios, round by round, with their unit."""
    return {"unit": unit, **repeated([a / b for a, b in zip(numerators, denominators, strict=True)])}


def compare_times(times: Mapping[Case, Sequence[float]]) -> Iterator[Row]:
    """Rows of the speedup over other models."""
    for case, other in pairs_with_others(times):
        faster = ratio(times[other], times[case])
        yield Row(metric="time_ratio", **case.keys, baseline=other.model, **faster)


def byte_rows(peaks: Mapping[Case, int]) -> Iterator[Row]:
    """Rows of bytes, and this project's over the others'."""
    for case, size in peaks.items():
        yield Row(metric="bytes", value=size, unit="bytes", **case.keys)
    for case, other in pairs_with_others(peaks):
        share = significant(peaks[case] / peaks[other])
        yield Row(metric="bytes_share", value=share, unit="ratio of bytes", **case.keys, baseline=other.model)


def pairs_with_others(cases: Iterable[Case]) -> list[tuple[Case, Case]]:
    """This project's models, each with every other model at the same n and, if it has one, k."""
    return [
        (ours, other)
        for ours, other in itertools.permutations(cases, 2)
        if ours.model in OURS and other.model not in OURS and ours.n == other.n and other.k in (None, ours.k)
    ]


def lost_rows(cases: Sequence[Case], times: Mapping[Case, Any], lost: Mapping[Case, str]) -> Iterator[Row]:
    """Rows of cases that have no times, with the reason."""
    for case in cases:
        if case not in times:
            yield Row(metric="failed", **case.keys, reason=lost.get(case, NO_MEMORY))
