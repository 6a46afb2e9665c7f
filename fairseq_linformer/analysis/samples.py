"""Summary statistics over heads and draws."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from torch import Tensor


def median(values: Tensor) -> float:
    """The median; for an even count the mean of the middle two, whereas PyTorch returns the lower one."""
    increasing = values.flatten().sort().values
    count = len(increasing)
    return float((increasing[(count - 1) // 2] + increasing[count // 2]) / 2)


def summarize(values: Sequence[float], middle: str = "median") -> dict[str, Any]:
    """Summarize the finite values.

    A non-finite value stands for one that does not exist (a Gamma, a k) or overflows double precision.

    Returns:
        ``value`` (the median, or the mean with ``middle="mean"``), ``least``, ``most`` (all None if no value is
        finite), ``count`` of finite values and ``of``, the count of all values.
    """
    finite = [float(value) for value in values if math.isfinite(value)]
    summary: dict[str, Any] = {"value": None, "least": None, "most": None, "count": len(finite), "of": len(values)}
    if finite:
        least, most = min(finite), max(finite)
        value = statistics.median(finite) if middle == "median" else statistics.fmean(finite)
        # rounding may move the mean of equal numbers outside their range
        summary.update(value=min(max(value, least), most), least=least, most=most)
    return summary
