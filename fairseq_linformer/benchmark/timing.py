"""Seconds of several runs in interleaved rounds.

On a shared machine the same work can take twice as long a minute later. So compared runs alternate, every second round
in reverse order. Ratios are computed within each round, and reported as the median, lowest and highest of all rounds.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

CLOCKS = ("processor", "wall")


@dataclass(frozen=True)
class Spread:
    """Median, lowest and highest value of several repetitions."""

    median: float
    lowest: float
    highest: float
    repetitions: int


def summarize(values: Sequence[float]) -> Spread:
    """The spread of ``values``. Raises ValueError if there are none."""
    if not values:
        raise ValueError("there must be at least one repetition, got 0")
    return Spread(statistics.median(values), min(values), max(values), len(values))


def ratio_spread(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """The ratio of two runs, round by round.

    Raises:
        ValueError: the numbers of rounds differ.
    """
    if len(numerators) != len(denominators):
        raise ValueError(
            f"both runs must have the same number of rounds, got {len(numerators)} and {len(denominators)}"
        )
    return summarize([a / b for a, b in zip(numerators, denominators)])


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
    """Seconds of one call; a GPU is synchronized before and after.

    Raises:
        ValueError: ``clock`` is unknown.
    """
    if clock not in CLOCKS:
        raise ValueError(f"unknown clock {clock!r}; choose from {', '.join(CLOCKS)}")
    now = time.process_time if clock == "processor" else time.perf_counter
    synchronize = torch.cuda.synchronize if device != "cpu" else lambda: None
    synchronize()
    start = now()
    run()
    synchronize()
    return now() - start


def alternate(names: Sequence[str], rounds: int, warm_up: int = 0) -> Iterator[tuple[int, str]]:
    """(round, name), every second round in reverse order; warm-up rounds have negative numbers.

    Raises:
        ValueError: ``rounds`` is below 1, or ``warm_up`` below 0.
    """
    if rounds < 1 or warm_up < 0:
        raise ValueError(f"rounds must be at least 1 and warm_up at least 0, got {rounds} and {warm_up}")
    for i in range(-warm_up, rounds):
        for name in list(names)[:: -1 if i % 2 else 1]:
            yield i, name


def time_interleaved(
    runs: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 1, clock: str = "wall", device: str = "cpu"
) -> dict[str, list[float]]:
    """Seconds of each run in each of ``rounds``, after ``warm_up`` rounds that are not recorded.

    A run that exceeds the memory of the GPU in any round is not repeated and not in the result.

    Raises:
        ValueError: as for ``alternate`` and ``time_call``.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for i, name in alternate(list(runs), rounds, warm_up):
        if name not in seconds:
            continue
        try:
            elapsed = time_call(runs[name], clock, device)
        except torch.OutOfMemoryError:
            del seconds[name]
            torch.cuda.empty_cache()
            continue
        if i >= 0:
            seconds[name].append(elapsed)
    return seconds
