"""Seconds of several runs in interleaved rounds.

On a shared machine the same work can take twice as long a minute later. So compared runs alternate, every second round
in reverse order. Ratios are computed within each round, and reported as the median, lowest and highest of all rounds.
"""

import resource
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

Name = TypeVar("Name", bound=Hashable)


def choose_clock(device: str) -> str:
    """``processor`` for one CPU thread: the processor time of this process, independent of other processes.

    Otherwise ``wall``, since the processor clock sums over threads and does not include a GPU.
    """
    return "processor" if device == "cpu" and torch.get_num_threads() == 1 else "wall"


@contextmanager
def num_threads(threads: int) -> Iterator[None]:
    """Let PyTorch use this number of threads in the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def time_call(run: Callable[[], object], clock: str = "wall", device: str = "cpu") -> float:
    """Seconds of one call; a GPU is synchronized before and after."""
    now = time.process_time if clock == "processor" else time.perf_counter
    synchronize = torch.cuda.synchronize if device != "cpu" else lambda: None
    synchronize()
    start = now()
    run()
    synchronize()
    return now() - start


def alternate(names: Sequence[Name], rounds: int, warm_up: int = 0) -> Iterator[tuple[int, Name]]:
    """(round, name), every second round in reverse order; warm-up rounds have negative numbers."""
    for i in range(-warm_up, rounds):
        for name in names[:: -1 if i % 2 else 1]:
            yield i, name


def time_interleaved(
    runs: Mapping[Name, Callable[[], object]], rounds: int, warm_up: int = 1, clock: str = "wall", device: str = "cpu"
) -> dict[Name, list[float]]:
    """Seconds of each run in each of ``rounds``, after ``warm_up`` rounds that are not recorded.

    A run that exceeds the memory in any round is not repeated and not in the result.
    """
    seconds: dict[Name, list[float]] = {name: [] for name in runs}
    for i, name in alternate(list(runs), rounds, warm_up):
        if name not in seconds:
            continue
        try:
            elapsed = time_call(runs[name], clock, device)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            del seconds[name]
            torch.cuda.empty_cache()
            continue
        if i >= 0:
            seconds[name].append(elapsed)
    return seconds


def is_out_of_memory(error: Exception) -> bool:
    """Whether PyTorch could not allocate memory, on a GPU or on a CPU."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "DefaultCPUAllocator" in str(error)


def process_bytes(field: str, pid: int | str = "self") -> int | None:
    """Bytes of a field of /proc/PID/status, such as ``VmHWM``, the peak, which psutil lacks; None if the process has
    ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), None)


def free_memory() -> int:
    """Bytes of available memory on Linux, ignoring a container's limit."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


@contextmanager
def limit_memory(device: str = "cpu") -> Iterator[None]:
    """On a CPU, let a tensor beyond the free memory raise an error, as on a GPU, before Linux kills the process."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    if device == "cpu" and before[0] == resource.RLIM_INFINITY and (used := process_bytes("VmSize")):
        resource.setrlimit(resource.RLIMIT_AS, (used + free_memory(), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
