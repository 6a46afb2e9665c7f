"""The fastest kernel of PyTorch's fused attention for a shape; PyTorch itself takes the first in a fixed order that can
run."""

from contextlib import AbstractContextManager, nullcontext
from typing import Dict, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from .timing import seconds_of

FUSED = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION)
ROUNDS = 5
_fastest: Dict[Tuple, Optional[SDPBackend]] = {}


def with_fastest(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], dropout: float) -> AbstractContextManager:
    """A context in which ``scaled_dot_product_attention`` of these takes its fastest kernel.

    On a GPU the first call for a shape tries all of them, in a forward pass; a CPU has only one.
    """
    if q.device.type == "cpu":
        return nullcontext()
    key = (q.dtype, q.shape, k.shape, mask is None, dropout > 0, q.requires_grad)
    if key not in _fastest:
        _fastest[key] = fastest(q, k, v, mask, dropout)
    return nullcontext() if _fastest[key] is None else sdpa_kernel(_fastest[key])


def fastest(
    q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], dropout: float, among: Sequence[SDPBackend] = FUSED
) -> Optional[SDPBackend]:
    """The fastest kernel that takes this shape, type and mask; None if none does."""
    seconds: Dict[SDPBackend, float] = {}

    def attend():
        F.scaled_dot_product_attention(q, k, v, mask, dropout)

    for backend in among:
        try:
            with sdpa_kernel(backend):
                attend()
                seconds[backend] = min(seconds_of(attend, device=q.device.type) for _ in range(ROUNDS))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # not for this shape, type or mask
            continue
    return min(seconds, key=seconds.__getitem__) if seconds else None


def forget() -> None:
    """Try the kernels again for every shape."""
    _fastest.clear()


def chosen() -> Dict[str, str]:
    """The kernel of each shape of queries and keys since ``forget``, in words."""
    return {f"{str(dtype).removeprefix('torch.')}, {tuple(q)} x {tuple(k)}": backend.name.lower()
            if backend else "none that is fused"
            for (dtype, q, k, *_), backend in _fastest.items()}  # fmt: skip
