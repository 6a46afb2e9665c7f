"""Units of work that several processes on one machine share: start the same command once per core."""

import fcntl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .inputs import is_past

LOCKS = "locks"
POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Unit:
    """A piece of work that a rerun resumes.

    Attributes:
        name: unique among the units of a folder; a valid file name.
        is_done: whether its result exists.
        run: start or resume it, until the ``time.monotonic()`` of the argument, if any.
        is_ready: whether the results that it reads exist.
    """

    name: str
    is_done: Callable[[], bool]
    run: Callable[[float | None], object]
    is_ready: Callable[[], bool] = lambda: True


def work_through(units: Sequence[Unit], folder: Path, until: float | None, wait: bool = False) -> list[str]:
    """Run the units that are not done, in order, except those that another process is running.

    If units need the result of such a unit, wait for it. At least one unit is started, even if ``until`` has passed.

    Args:
        folder: of the locks.
        wait: for every unit that another process is running.

    Returns:
        The names of the units that are still not done.
    """
    has_run, made_progress = False, True
    while made_progress or ((wait or _has_dependents(units)) and _wait_for_result(units, folder, until)):
        made_progress = False  # what was not ready may be now
        for unit in units:
            if unit.is_done() or not unit.is_ready() or (has_run and is_past(until)):
                continue
            with lock(folder / LOCKS / unit.name) as is_mine:
                if is_mine and not unit.is_done():
                    left = sum(not each.is_done() for each in units)
                    print(f"{unit.name}: {left} of {len(units)} runs are left", file=sys.stderr)
                    unit.run(until)
                    has_run = True
                    made_progress = made_progress or unit.is_done()
    return [unit.name for unit in units if not unit.is_done()]


def _has_dependents(units: Sequence[Unit]) -> bool:
    """Whether a unit waits for the result of another."""
    return not all(unit.is_done() or unit.is_ready() for unit in units)


def _wait_for_result(units: Sequence[Unit], folder: Path, until: float | None) -> bool:
    """Wait until another process ends a unit.

    Returns:
        Whether there was such a unit, and it ended before ``until``.
    """
    while (running := [unit for unit in units if not unit.is_done() and unit.is_ready()]) and not is_past(until):
        for unit in running:
            with lock(folder / LOCKS / unit.name) as has_ended:
                if has_ended:
                    return True
        time.sleep(POLL_SECONDS)
    return False


def describe_unfinished(unfinished: Sequence[str], units: Sequence[Unit]) -> str:
    """A sentence on the units that ``work_through`` returned."""
    return (
        f"{len(unfinished)} of {len(units)} runs are left, {unfinished[0]} first; other processes may be running some; "
        "rerun the command to resume"
    )


@contextmanager
def lock(path: Path, wait: bool = False) -> Iterator[bool]:
    """Lock a file while in the block, unless another process has locked it; yields whether it is locked here.

    The lock is released when the block or the process ends; the file stays.

    Args:
        wait: for the other process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
