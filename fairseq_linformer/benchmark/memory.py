"""Peak bytes of a computation, without parameters, gradients and inputs.

On a CPU, PyTorch's memory tracker counts the bytes of tensors, not of the process; with fake tensors (shapes without
memory) this works for sizes beyond any machine. On a GPU, the allocator counts them.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from ..modules import encoder_layer

NO_MEMORY = "out of memory"


def peak_bytes(run: Callable[[], object], module: nn.Module, inputs: Iterable[Tensor] = ()) -> int:
    """The peak bytes of ``run`` on a CPU.

    Args:
        run: computes with ``module`` and ``inputs``. Before a backward pass allocate the gradients, as in all steps but
            the first; otherwise they are counted too.
    """
    from torch.distributed._tools.mem_tracker import MemTracker

    inputs = list(inputs)
    tracker = MemTracker()
    tracker.track_external(module, *inputs)
    with tracker:
        run()
    peak = next(sizes for device, sizes in tracker.get_tracker_snapshot("peak").items() if device.type == "cpu")
    size_of = {getattr(kind, "name", kind): size for kind, size in peak.items()}
    # External tensors (OTH) are the module's or inputs.
    return size_of["ACT"] + size_of["TEMP"] + size_of["OTH"] - sum(x.untyped_storage().nbytes() for x in inputs)


def forward_peak_bytes(
    build: Callable[[], nn.Module],
    call: Callable[[nn.Module, Tensor], object],
    batch: int,
    n: int,
    dtype=torch.float32,
    chunked: bool = True,
) -> int:
    """The peak bytes of a forward pass of (batch, n) tokens without gradients, counted with fake tensors.

    Args:
        build: builds the model.
        call: applies it to tokens.
        chunked: compute the feed-forward in chunks, as inference on a CPU does; or whole, as a GPU does.
    """
    with FakeTensorMode(), torch.no_grad(), nullcontext() if chunked else whole_feed_forward():
        with default_dtype(dtype):  # a fake module cannot be cast
            module = build().eval()
        tokens = torch.full((batch, n), 5)
        return peak_bytes(lambda: call(module, tokens), module, [tokens])


@contextmanager
def whole_feed_forward() -> Iterator[None]:
    """Compute the feed-forward in one piece also in CPU inference."""
    before = encoder_layer.CHUNK_ROWS
    encoder_layer.CHUNK_ROWS = sys.maxsize
    try:
        yield
    finally:
        encoder_layer.CHUNK_ROWS = before


@contextmanager
def default_dtype(dtype: torch.dtype):
    """Build modules in this precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def peak_bytes_on_gpu(run: Callable[[], object]) -> int:
    """The peak bytes of ``run`` as the allocator of the GPU counts them.

    Raises:
        torch.OutOfMemoryError: the GPU runs out of memory.
    """
    try:
        run()  # libraries allocate workspaces once
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    finally:
        torch.cuda.empty_cache()


def step_peak_bytes(module: nn.Module, inputs: Sequence[Tensor], device: str) -> int:
    """The peak bytes of a forward and backward pass, without the gradients, which are allocated before.

    Raises:
        torch.OutOfMemoryError: the GPU runs out of memory.
    """
    for p in module.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p)
    run = lambda: module(*inputs).backward()  # noqa: E731
    return peak_bytes(run, module, inputs) if device == "cpu" else peak_bytes_on_gpu(run)


def fixed_bytes(build: Callable[[], nn.Module], dtype: torch.dtype) -> int:
    """Bytes of the parameters and buffers of a model."""
    with torch.device("meta"):
        module = build()
    return dtype.itemsize * sum(t.numel() for t in [*module.parameters(), *module.buffers()])


def extrapolate_batch_size(memory: float, fixed: float, sentences: int, single: int, double: int) -> int:
    """The largest number of sentences that fits, by linear extrapolation.

    Args:
        memory: bytes of the device.
        fixed: bytes of parameters and buffers.
        single, double: peak bytes without them, of ``sentences`` and of twice as many.

    Raises:
        ValueError: ``double`` is not more than ``single``.
    """
    each = (double - single) / sentences
    if each <= 0:
        raise ValueError(f"twice as many sentences must take more than {single} bytes, got {double}")
    return max(0, int(sentences + (memory - fixed - single) // each))
