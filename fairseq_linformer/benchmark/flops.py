"""Operations of a step, counted on PyTorch's meta device, whose tensors have shapes but no memory and no values."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.hooks import RemovableHandle


def count_flops(run: Callable[[], object]) -> int:
    """Operations of the matrix products in ``run``, as PyTorch counts them: two per multiplication and addition.

    Kernels that PyTorch does not know, such as fused attention on a CPU, count as zero. On the meta device attention is
    not fused, so its scores are computed once (``gpu_kernels``: twice).
    """
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


_HOOKS = (Tensor.register_hook, Tensor.register_post_accumulate_grad_hook)


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
        if func in _HOOKS and not args[0].requires_grad:  # MemTracker hooks frozen parameters, too
            return RemovableHandle(OrderedDict())
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
