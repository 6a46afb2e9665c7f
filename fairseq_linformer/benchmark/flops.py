"""Floating-point operations, and the share of a device's peak that they reach.

    utilization = operations of the model / (seconds * peak)

as in Chowdhery et al. 2022, "PaLM", appendix B: only operations that the model needs, without recomputation. They are
counted on PyTorch's meta device, whose tensors have shapes but no memory and no values.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from .gpus import GPUS, Gpu
from .timing import choose_clock, time_call


def count_flops(run: Callable[[], object]) -> int:
    """Operations of the matrix products in ``run``, as PyTorch counts them: two per multiplication and addition.

    Kernels that PyTorch does not know, such as fused attention on a CPU, count as zero. On the meta device attention is
    not fused, so its scores are computed once (``gpu_kernels``: twice).
    """
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


class AssumedValues(TorchFunctionMode):
    """Answers what a model asks about values, which meta tensors do not have: no token is padding, and of each sentence
    ``num_masked`` tokens are masked."""

    def __init__(self, num_masked: int):
        super().__init__()
        self.num_masked = num_masked

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func is Tensor.__bool__:  # whether there is padding
            return False
        if func is Tensor.__int__:  # how many tokens of a sentence are masked
            return self.num_masked
        if func is Tensor.nonzero:
            return self._masked(args[0])
        if func is Tensor.cpu:  # where fairseq draws the weights
            return args[0]
        if func is Tensor.__getitem__:
            first, *others = args[1] if isinstance(args[1], tuple) else (args[1],)
            if isinstance(first, Tensor) and first.dtype is torch.bool:
                return args[0][(*self._masked(first).unbind(1), *others)]
        return func(*args, **kwargs or {})

    def _masked(self, mask: Tensor) -> Tensor:
        """The indices of the masked tokens: (B m, 2) of a mask (B, n), or (B m, 1) of one (B m,)."""
        count = mask.size(0) * (self.num_masked if mask.dim() == 2 else 1)
        return torch.zeros(count, mask.dim(), dtype=torch.long, device=mask.device)


@contextmanager
def gpu_kernels(num_masked: int) -> Iterator[None]:
    """A context whose default device is the meta device, with the kernels of a GPU. PyTorch selects attention, dropout
    and softmax by device, before its counters see them, and decomposes those of the meta device.

    Args:
        num_masked: see ``AssumedValues``.
    """
    with (
        torch.device("meta"),
        mock.patch.multiple(F, scaled_dot_product_attention=_attend, dropout=_drop, log_softmax=_log_softmax),
        mock.patch("torch.cuda.current_device", lambda: None),  # for FP16Optimizer: the index of the meta device
        AssumedValues(num_masked),
    ):
        yield


def _attend(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, *_: Any
) -> Tensor:
    """Flash attention; with a mask, which it does not support, memory-efficient attention."""
    if attn_mask is None:
        return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, False)[0]
    mask = attn_mask.expand(*q.shape[:3], k.size(2))
    return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, mask, True, dropout_p)[0]


def _drop(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return torch.native_dropout(x, p, True)[0] if training and p > 0 else x


def _log_softmax(x: Tensor, dim: int, *_: Any, dtype: torch.dtype) -> Tensor:
    """A GPU has a kernel from fp16 to single precision; other inputs are converted first."""
    return torch.ops.aten._log_softmax(x, dim, True) if x.dtype is torch.float16 else torch.log_softmax(x, dim, dtype)


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
