"""Progress of long work, on stderr."""

import sys

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 30.0
"""Without a terminal."""
DELAY = 1.0
"""Seconds before a bar appears: work that fails at once shows only its error."""


def progress_bar(name: str, total: int | None, unit: str, initial: int = 0) -> tqdm:
    """A bar for a ``with`` block, which counts with ``update``.

    Args:
        name: of the work, such as ``evaluating``.
        total: number of units; None if unknown.
        initial: number of units that an earlier run has done.
    """
    interval = 1.0 if sys.stderr.isatty() else SECONDS_BETWEEN_LINES
    return tqdm(
        desc=name,
        total=total,
        unit=f" {unit}",
        initial=initial,
        mininterval=interval,
        maxinterval=interval,
        delay=DELAY,
    )
