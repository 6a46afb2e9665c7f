"""Floating-point operations, and the share of a device's peak that they reach.

    utilization = operations of the model / (seconds * peak)

as in Chowdhery et al. 2022, "PaLM", appendix B: only operations that the model needs, without recomputation.
``benchmark/formulas.py`` counts them for a Linformer and a RoBERTa.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from .gpus import GPUS, Gpu
from .timing import choose_clock, time_call


def count_flops(run: Callable[[], object]) -> int:
    """Operations of the matrix products in ``run``, as PyTorch counts them: two per multiplication and addition.

    Kernels that PyTorch does not know, such as fused attention on a CPU, count as zero.
    """
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def utilization(operations: float, seconds: float, peak: float) -> float:
    """The share of ``peak`` (operations per second) that ``operations`` in ``seconds`` reach.

    Raises:
        ValueError: ``seconds`` or ``peak`` is not positive.
    """
    if seconds <= 0 or peak <= 0:
        raise ValueError(f"seconds and peak must be above 0, got {seconds} and {peak}")
    return operations / (seconds * peak)


def find_data_sheet(name: str) -> Gpu | None:
    """A GPU's data sheet values (``gpus.py``), except memory and bandwidth, which differ between versions of a chip.

    None if the GPU is not in the table.

    The table has SXM boards; PCIe cards with the same chips are slower.
    """
    if "pcie" in name.lower() or "nvl" in name.lower():
        return None
    return next((gpu for gpu in GPUS.values() if gpu.name.split("-")[0] in name.lower()), None)


def data_sheet_peak(name: str, dtype: torch.dtype) -> float | None:
    """Peak operations per second from a GPU's data sheet, without TF32 in fp32; None if it is not in the table."""
    gpu = find_data_sheet(name)
    return None if gpu is None else 1e12 * (gpu.single_tflops if dtype is torch.float32 else gpu.half_tflops)


def measure_peak(device: str = "cpu", dtype: torch.dtype = torch.float32, size: int | None = None) -> float:
    """Operations per second of a large matrix product, the best of three. CPU data sheets do not state the peak.

    Args:
        size: rows and columns of the matrices; by default 1,024, on a GPU 8,192, since smaller ones measure the launch.
    """
    size = size or (1024 if device == "cpu" else 8192)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    torch.mm(a, b)
    return 2 * size**3 / min(time_call(lambda: torch.mm(a, b), choose_clock(device), device) for _ in range(3))


def peak_fields(device: str, dtype: torch.dtype, measured: float) -> dict[str, Any]:
    """The peak that a cell records: from the data sheet if known, else ``measured`` by ``measure_peak``."""
    stated = data_sheet_peak(torch.cuda.get_device_name(), dtype) if device != "cpu" else None
    return {
        "peak_operations_per_second": stated or measured,
        "peak_from": "data sheet" if stated else "a matrix product",
    }
