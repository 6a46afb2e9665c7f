"""fairseq's ``--amp`` on a CPU: forward passes in bf16 where PyTorch's autocast allows, parameters in single precision.

fairseq's ``--amp`` uses CUDA's autocast and a gradient scaler. On a CPU that autocast has no effect, so training would
run in single precision, and the scaler would hide non-finite gradients. bf16 has the range of single precision and
needs no scaler. It is faster only on CPUs with bf16 instructions (AVX512-BF16, AMX).

Attention stays in single precision: the CPU kernel of ``scaled_dot_product_attention`` multiplies no faster in bf16,
and its backward pass is up to 15 times slower (torch 2.13, batch 32, 12 heads of 32, n = 16; equal at n = 512).
"""

import logging
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks.fairseq_task import FairseqTask

logger = logging.getLogger(__name__)


def patch_amp() -> None:
    """Train in bf16 with ``--cpu --amp``, and abort on non-finite gradients, as without ``--amp``."""
    train_step, clip_grad_norm = FairseqTask.train_step, AMPOptimizer.clip_grad_norm

    @wraps(train_step)
    def train_step_on_cpu(
        self: Any, sample: Any, model: Any, criterion: Any, optimizer: Any, *args: Any, **options: Any
    ) -> Any:
        if isinstance(optimizer, AMPOptimizer) and not next(model.parameters()).is_cuda:
            criterion = _autocast(criterion)
            if optimizer.scaler.is_enabled():  # on a machine with a GPU
                optimizer._grad_scaler = torch.amp.GradScaler("cpu", enabled=False)
        return train_step(self, sample, model, criterion, optimizer, *args, **options)

    @wraps(clip_grad_norm)
    def clip_grad_norm_on_cpu(self: Any, max_norm: float, aggregate_norm_fn: Any = None) -> torch.Tensor:
        if self.scaler.is_enabled():
            norm: torch.Tensor = clip_grad_norm(self, max_norm, aggregate_norm_fn)
            return norm
        norm = self.fp32_optimizer.clip_grad_norm(max_norm, aggregate_norm_fn)
        if not torch.isfinite(norm).all():
            raise FloatingPointError("gradients are Nan/Inf")  # fairseq's words
        return norm

    FairseqTask.train_step = train_step_on_cpu
    AMPOptimizer.clip_grad_norm = clip_grad_norm_on_cpu


def _autocast(criterion: Callable[..., Any]) -> Callable[..., Any]:
    """The criterion in bf16, its backward pass outside of autocast, as PyTorch recommends."""
    _warn_if_slow()
    _exempt_attention()

    def run(model: Any, sample: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return criterion(model, sample)

    return run


def has_bf16_instructions() -> bool:
    """Whether the CPU multiplies in bf16; PyTorch's ``mkldnn`` also accepts CPUs on which it is emulated."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


@cache
def _exempt_attention() -> None:
    """Run ``scaled_dot_product_attention`` in single precision on a CPU under autocast.

    Patched for the process rather than for the forward pass, because activation checkpointing repeats it later.
    """
    attention = F.scaled_dot_product_attention

    @wraps(attention)
    def attention_without_autocast(*args: Any, **options: Any) -> torch.Tensor:
        if args[0].device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
            return attention(*args, **options)
        with torch.autocast("cpu", enabled=False):
            return attention(*map(_float, args), **{name: _float(value) for name, value in options.items()})

    F.scaled_dot_product_attention = attention_without_autocast


def _float(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


@cache
def _warn_if_slow() -> None:
    if not has_bf16_instructions():
        logger.warning("this CPU has no bf16 instructions: --amp is many times slower than single precision")
