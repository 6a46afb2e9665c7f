"""Many values of one quantity, over heads and draws, and their summary."""

import math
import statistics
from typing import Any, Dict, Sequence

from torch import Tensor


def median(values: Tensor) -> float:
    """The mean of the two in the middle where there is an even number (PyTorch's is the lower one)."""
    ordered = values.flatten().sort().values
    count = len(ordered)
    return float((ordered[(count - 1) // 2] + ordered[count // 2]) / 2)


def summary(values: Sequence[float], middle: str = "median") -> Dict[str, Any]:
    """``value`` (median or mean), ``least``, ``most`` and ``count`` of the finite values, and ``of``, how many there
    were in all.

    A value that is not finite does not exist (a Gamma, a k) or is beyond double precision; where none is finite, value,
    least and most are None.

    Args:
        middle: ``median`` or ``mean``.
    """
    finite = [float(value) for value in values if math.isfinite(value)]
    found: Dict[str, Any] = {"value": None, "least": None, "most": None, "count": len(finite), "of": len(values)}
    if finite:
        least, most = min(finite), max(finite)
        value = statistics.median(finite) if middle == "median" else statistics.fmean(finite)
        # a mean of equal numbers may round out of them
        found.update(value=min(max(value, least), most), least=least, most=most)
    return found
