"""A GPU of tensors without memory: kernels take no time, so what remains is the host's work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode


class CudaOnMeta(TorchFunctionMode):
    """Puts tensors for ``cuda`` on PyTorch's meta device."""

    def __torch_function__(self, func: Callable, types, args=(), kwargs=None):
        return func(*map(_on_meta, args), **{name: _on_meta(value) for name, value in (kwargs or {}).items()})


def _on_meta(value):
    is_device = isinstance(value, (str, torch.device))
    return torch.device("meta") if is_device and str(value).startswith("cuda") else value


@contextmanager
def simulate_gpu(name: str = "NVIDIA H100 80GB HBM3") -> Iterator[None]:
    """A context with a GPU that allocates one byte more at each question for its peak."""
    peaks = iter(range(1, 10**9))
    with (
        mock.patch.multiple(
            torch.cuda,
            is_available=lambda: True,
            get_device_name=lambda *_: name,
            synchronize=lambda *_: None,
            empty_cache=lambda: None,
            memory_allocated=lambda *_: 0,
            reset_peak_memory_stats=lambda *_: None,
            max_memory_allocated=lambda *_: next(peaks),
        ),
        CudaOnMeta(),
    ):
        yield
