"""The measurement of a theorem on heads without a model."""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Any

from .result import Inputs, Result, Row, Rows, environment, significant

EPSILON = 0.5
"""Of theorem 2, and of the charts."""
SEED = 1
SIZES = {"smoke": ([16, 32], 8, 4), "cpu": ([128, 512, 2048], 64, 60)}
"""Lengths, width of a head and draws of R, by scale."""


def measure_heads(
    part: str, scale: str, inputs: Inputs, measure: Callable[[list[int], int, int], Iterator[Row]]
) -> Result:
    """The rows that ``measure`` yields for the lengths, width and draws of a scale."""
    lengths, width, draws = SIZES[scale]
    rows = Rows(measure(lengths, width, draws))
    configuration = {"lengths": lengths, "width": width, "draws": draws, "seed": SEED}
    return Result(part, scale, rows, environment(inputs, "none: heads of a seed"), configuration)


def mean_of(values: Sequence[float]) -> dict[str, Any]:
    """``value`` (the mean), ``low``, ``high`` and ``repetitions`` of a row, in six digits."""
    value, low, high = (significant(each) for each in (fmean(values), min(values), max(values)))
    return {"value": value, "low": low, "high": high, "repetitions": len(values)}
