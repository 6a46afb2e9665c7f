"""Floating-point operations, and their share of the device's peak.

    utilisation = operations of the model / (seconds * peak)

as in Chowdhery et al. 2022, "PaLM", appendix B: operations that the model needs, without recomputation.
``planning/formulas.py`` has them for a Linformer and a RoBERTa.
"""

from typing import Any, Callable, Dict, Optional

import torch
from torch.utils.flop_counter import FlopCounterMode

from ..planning.gpus import GPUS
from .timing import clock_for, seconds_of


def counted(run: Callable[[], object]) -> int:
    """Operations of the matrix products that ``run`` makes, forward and backward, as PyTorch counts them: two for a
    multiplication and its addition. A kernel that it does not know (fused attention on a CPU) counts as none."""
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def utilisation(operations: float, seconds: float, peak: float) -> float:
    """The share of the peak.

    Raises:
        ValueError: a time or a peak that is not above 0.
    """
    if seconds <= 0 or peak <= 0:
        raise ValueError(f"{seconds} seconds at a peak of {peak}; both must be above 0")
    return operations / (seconds * peak)


def data_sheet_peak(name: str, dtype: torch.dtype) -> Optional[float]:
    """Operations a second that the vendor states for a GPU of this name (``planning/gpus.py``), without TF32 in fp32;
    None for one that is not in the table, which has those on SXM boards: on PCIe cards the same chips are slower."""
    if "pcie" in name.lower() or "nvl" in name.lower():
        return None
    for gpu in GPUS.values():
        if gpu.name.split("-")[0] in name.lower():
            return 1e12 * (gpu.single if dtype is torch.float32 else gpu.half)
    return None


def measured_peak(
    device: str = "cpu", dtype: torch.dtype = torch.float32, size: Optional[int] = None, rounds: int = 3
) -> float:
    """Operations a second of a large matrix product, the best of ``rounds``; the data sheet of a CPU gives no such
    number. With one thread in seconds of the processor, as all other times.

    Args:
        size: of the matrices, (size, size); None for 1,024, and for 8,192 on a GPU, where less would measure the
            launch.
    """
    size = size or (1024 if device == "cpu" else 8192)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    torch.mm(a, b)
    return 2 * size**3 / min(seconds_of(lambda: torch.mm(a, b), clock_for(device), device) for _ in range(rounds))


def peak_of(device: str, dtype: torch.dtype, measured: float) -> Dict[str, Any]:
    """The peak of a utilisation, as a cell records it: ``peak_operations_per_second``, and ``peak_from``.

    Args:
        measured: of ``measured_peak``, for a CPU and for a GPU that is not in the table.
    """
    stated = data_sheet_peak(torch.cuda.get_device_name(), dtype) if device != "cpu" else None
    return {"peak_operations_per_second": stated or measured,
            "peak_from": "data sheet" if stated else "a matrix product"}  # fmt: skip
