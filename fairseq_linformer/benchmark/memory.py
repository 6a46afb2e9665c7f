"""Peak bytes of a computation, without parameters, gradients and inputs; and the largest batch of a memory.

On a CPU, PyTorch's memory tracker counts the bytes of tensors, not of the process; with fake tensors (shapes without
memory) this works for sizes beyond any machine. On a GPU, the allocator counts them.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from ..modules import encoder_layer

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def peak_bytes(run: Callable[[], object], module: nn.Module, inputs: Iterable[Tensor], device: str = "cpu") -> int:
    """The peak bytes of ``run``, which computes with ``module`` and ``inputs``.

    Raises:
        torch.OutOfMemoryError: the GPU runs out of memory.
    """
    if device != "cpu":
        run()  # libraries allocate workspaces once
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    inputs = list(inputs)
    tracker = MemTracker()
    tracker.track_external(module, *inputs)
    with tracker:
        run()
    peak = next(sizes for device, sizes in tracker.get_tracker_snapshot("peak").items() if device.type == "cpu")
    size_of = {getattr(kind, "name", kind): size for kind, size in peak.items()}
    # External tensors (OTH) are the module's or inputs.
    return size_of["ACT"] + size_of["TEMP"] + size_of["OTH"] - sum(x.untyped_storage().nbytes() for x in inputs)


def step_peak_bytes(module: nn.Module, inputs: Sequence[Tensor], device: str) -> int:
    """The peak bytes of a forward and backward pass, without the gradients, which are allocated before, as in all steps
    but the first. The module has no parameters afterwards.

    Raises:
        torch.OutOfMemoryError: the GPU runs out of memory.
    """
    for p in module.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p)
    peak = peak_bytes(lambda: module(*inputs).backward(), module, inputs, device)
    for p in module.parameters():  # PyTorch's memory tracker never frees them
        p.data, p.grad = p.new_empty(0), None
    return peak


def forward_peak_bytes(build: Callable[[], nn.Module], batch: int, n: int, dtype: torch.dtype) -> int:
    """The peak bytes of a ``LinformerEncoder``'s forward pass of (batch, n) tokens without gradients, counted with fake
    tensors; the feed-forward is computed in one piece, as on a GPU."""
    whole = mock.patch.object(encoder_layer, "CHUNK_ROWS", sys.maxsize)
    with FakeTensorMode(), torch.no_grad(), whole, default_dtype(dtype):  # a fake module cannot be cast
        module, tokens = build().eval(), torch.full((batch, n), 5)
        return peak_bytes(lambda: module(tokens, padded=False), module, [tokens])


def largest_batch(build: Callable[[], nn.Module], n: int, dtype: torch.dtype, memory: float) -> int:
    """The most sentences of n tokens that a forward pass fits into ``memory`` bytes, by linear extrapolation."""
    with torch.device("meta"):
        module = build()
    fixed = dtype.itemsize * sum(t.numel() for t in [*module.parameters(), *module.buffers()])
    first, second = (forward_peak_bytes(build, batch, n, dtype) for batch in (1, 2))
    return max(0, int(1 + (memory - fixed - first) // (second - first)))


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Build modules in this precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
