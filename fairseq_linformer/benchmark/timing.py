"""Seconds of several runs that take turns.

On a machine that others use too, the same work takes twice as long a minute later. So what is compared runs in
turns, round by round, every second round in the opposite order; a ratio is taken within each round, and
reported as the median of all rounds with the lowest and the highest.
"""

import statistics
import time
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Sequence

import torch

CLOCKS = ("processor", "wall")


@dataclass(frozen=True)
class Spread:
    """The median of several repetitions, the lowest and the highest."""

    median: float
    lowest: float
    highest: float
    repetitions: int

    @property
    def equal(self) -> bool:
        """For a ratio: it differs from 1 by less than it varies."""
        return self.lowest <= 1 <= self.highest


def spread_of(values: Sequence[float]) -> Spread:
    """
    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("there is no repetition; at least one is needed")
    return Spread(statistics.median(values), min(values), max(values), len(values))


def ratio(above: Sequence[float], below: Sequence[float]) -> Spread:
    """``above`` / ``below``, round by round.

    Raises:
        ValueError: they are not of the same rounds.
    """
    if len(above) != len(below):
        raise ValueError(f"{len(above)} rounds against {len(below)}; a ratio is of the same rounds")
    return spread_of([a / b for a, b in zip(above, below)])


def clock_for(device: str) -> str:
    """``processor`` for one thread on a CPU: seconds in which this process computed, whatever others did meanwhile.
    ``wall``
    otherwise: several threads would add theirs up, and it does not see a GPU."""
    return "processor" if device == "cpu" and torch.get_num_threads() == 1 else "wall"


def seconds_of(run: Callable[[], object], clock: str = "wall", device: str = "cpu") -> float:
    """Of one run; a GPU is synchronized before and after it.

    Raises:
        ValueError: there is no such clock.
    """
    if clock not in CLOCKS:
        raise ValueError(f"clock is {clock!r}; it must be one of {', '.join(CLOCKS)}")
    now = time.process_time if clock == "processor" else time.perf_counter
    synchronize = torch.cuda.synchronize if device != "cpu" else lambda: None
    synchronize()
    begun = now()
    run()
    synchronize()
    return now() - begun


def in_turns(names: Sequence[str], rounds: int, warm_up: int = 0) -> Iterator[tuple]:
    """(round, name): every second round in the opposite order, rounds below 0 to warm up.

    Raises:
        ValueError: there is no round.
    """
    if rounds < 1 or warm_up < 0:
        raise ValueError(f"{rounds} rounds after {warm_up} to warm up; at least 1 and 0 are needed")
    for i in range(-warm_up, rounds):
        for name in list(names)[:: -1 if i % 2 else 1]:
            yield i, name


def interleaved(
    runs: Dict[str, Callable[[], object]], rounds: int, warm_up: int = 1, clock: str = "wall", device: str = "cpu"
) -> Dict[str, List[float]]:
    """Seconds of each run in each round.

    Args:
        runs: functions to run, by name.
        rounds: at least 1.
        warm_up: rounds before them that do not count.

    Raises:
        ValueError: as ``in_turns`` and ``seconds_of``.
    """
    seconds: Dict[str, List[float]] = {name: [] for name in runs}
    for i, name in in_turns(list(runs), rounds, warm_up):
        taken = seconds_of(runs[name], clock, device)
        if i >= 0:
            seconds[name].append(taken)
    return seconds
