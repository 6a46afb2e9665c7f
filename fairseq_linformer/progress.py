"""Progress of long work, on stderr."""

import sys

from tqdm import tqdm

DELAY = 1.0
"""Seconds before a bar appears: work that fails at once shows only its error."""


def progress_bar(name: str, total: int | None, unit: str, initial: int = 0) -> tqdm:
    """A bar for a ``with`` block, which counts with ``update``, beginning at ``initial``; without a terminal it prints
    a line every 30 seconds."""
    interval = 1.0 if sys.stderr.isatty() else 30.0
    return tqdm(
        desc=name,
        total=total,
        unit=f" {unit}",
        initial=initial,
        mininterval=interval,
        maxinterval=interval,
        delay=DELAY,
    )
