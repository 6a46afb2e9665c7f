"""Selects the fastest fused attention kernel for a shape, whereas PyTorch uses the first supported in a fixed order."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from .timing import time_call

FUSED = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION)
ROUNDS = 5
_fastest: dict[tuple, SDPBackend | None] = {}


def use_fastest_kernel(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float) -> AbstractContextManager:
    """A context in which ``scaled_dot_product_attention`` of these tensors uses the fastest kernel.

    On a GPU, the first call for a shape times the forward pass of all kernels. A CPU has only one kernel.
    """
    if q.device.type == "cpu":
        return nullcontext()
    key = (q.dtype, q.shape, k.shape, mask is None, dropout > 0, q.requires_grad)
    if key not in _fastest:
        _fastest[key] = find_fastest_kernel(q, k, v, mask, dropout)
    backend = _fastest[key]
    return nullcontext() if backend is None else sdpa_kernel(backend)


def find_fastest_kernel(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, among: Sequence[SDPBackend] = FUSED
) -> SDPBackend | None:
    """The fastest kernel that supports this shape, type and mask; None if none does."""
    seconds: dict[SDPBackend, float] = {}

    def attend():
        F.scaled_dot_product_attention(q, k, v, mask, dropout)

    for backend in among:
        try:
            with sdpa_kernel(backend):
                attend()
                seconds[backend] = min(time_call(attend, device=q.device.type) for _ in range(ROUNDS))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # unsupported shape, type or mask
            continue
    return min(seconds, key=seconds.__getitem__) if seconds else None


def clear_kernels() -> None:
    """Forget the selected kernels."""
    _fastest.clear()


def selected_kernels() -> dict[str, str]:
    """The selected kernel by shape of queries and keys, since ``clear_kernels``."""
    names = {key: backend.name.lower() if backend else "no fused kernel" for key, backend in _fastest.items()}
    return {
        f"{str(dtype).removeprefix('torch.')}, {tuple(q)} x {tuple(k)}": name
        for (dtype, q, k, *_), name in names.items()
    }
