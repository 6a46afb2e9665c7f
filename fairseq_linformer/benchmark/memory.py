"""Bytes that a computation holds at most beside parameters, gradients and its inputs.

On a CPU PyTorch's memory tracker counts them from tensors, not from the process; with fake tensors (shapes without
memory) that is possible for sizes that no machine holds. On a GPU its allocator knows them.
"""

from contextlib import contextmanager, nullcontext
from typing import Callable, Iterable

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

GIB = 2**30
NO_MEMORY = "out of memory"


def peak_bytes(run: Callable[[], object], module: nn.Module, inputs: Iterable[Tensor] = (), device: str = "cpu") -> int:
    """The most bytes while ``run`` runs.

    Args:
        run: computes with ``module`` and ``inputs``. If it goes backward, gradients should exist before, as in all
            steps but the first, or they are counted until they are in place.
        device: ``cpu`` or ``cuda``.
    """
    if device != "cpu":
        run()  # what libraries allocate once
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    from torch.distributed._tools.mem_tracker import MemTracker

    inputs = list(inputs)
    tracker = MemTracker()
    tracker.track_external(module, *inputs)
    with tracker:
        run()
    peak = next(sizes for device, sizes in tracker.get_tracker_snapshot("peak").items() if device.type == "cpu")
    size_of = {kind.name: size for kind, size in peak.items() if kind != "Total"}
    # External tensors are either the module's or an input.
    return size_of["ACT"] + size_of["TEMP"] + size_of["OTH"] - sum(x.untyped_storage().nbytes() for x in inputs)


def bytes_of_forward(build: Callable[[], nn.Module], call: Callable[[nn.Module, Tensor], object], batch: int, n: int,
                     device="cpu", dtype=torch.float32) -> int:  # fmt: skip
    """The most bytes of a forward pass without gradients of (batch, n) tokens; on a CPU with fake tensors.

    Args:
        build: makes the model; with fake tensors that costs no memory.
        call: applies it to tokens.
    """
    with FakeTensorMode() if device == "cpu" else nullcontext(), torch.no_grad():
        with default_dtype(dtype):  # a fake module cannot be cast
            module = build().eval()
        if device != "cpu":
            module.to(device)
        tokens = torch.full((batch, n), 5, device=device)
        return peak_bytes(lambda: call(module, tokens), module, [tokens], device)


@contextmanager
def default_dtype(dtype: torch.dtype):
    """Modules are made in this type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def fits(run: Callable[[], object]) -> bool:
    """Whether a GPU has memory for ``run``, which is called once."""
    try:
        run()
    except torch.OutOfMemoryError:
        return False
    finally:
        torch.cuda.empty_cache()
    return True


def largest_batch(memory: float, fixed: float, sentences: int, at: int, at_twice: int) -> int:
    """How many sentences fit.

    Args:
        memory: bytes in all.
        fixed: bytes of parameters and buffers.
        at, at_twice: bytes beside them, with ``sentences`` and with twice as many; each further one takes as much as
            those between.

    Raises:
        ValueError: twice as many take no more.
    """
    each = (at_twice - at) / sentences
    if each <= 0:
        raise ValueError(f"{at} bytes with {sentences} sentences and {at_twice} with twice as many; it must be more")
    return max(0, int(sentences + (memory - fixed - at) // each))
