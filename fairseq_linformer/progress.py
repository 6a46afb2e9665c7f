"""Progress of long work: a bar with rate and end time on a terminal, plain lines elsewhere."""

import sys
import time
from typing import Optional


class Progress:
    """Counts up to ``total``; use it in a ``with`` block.

    Args:
        what: the work, in a word or two.
        total: of the units; None if it is not known.
        unit: name of the unit; thousands are written with k, M and G, so bytes are ``B``.
        every: seconds between two plain lines.
    """

    def __init__(self, what: str, total: Optional[int], unit: str = "B", every: float = 30.0):
        self.what, self.total, self.unit, self.every = what, total, unit, every
        self.done = 0
        self._bar = None

    def __enter__(self) -> "Progress":
        self._begun = self._reported = time.monotonic()
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(desc=self.what, total=self.total, unit=self.unit, unit_scale=True, smoothing=0.1)
        return self

    def add(self, count: int) -> None:
        """Count ``count`` more as done."""
        self.done += count
        if self._bar is not None:
            self._bar.update(count)
        elif (self.total is None or self.done < self.total) and time.monotonic() - self._reported >= self.every:
            self._report()

    def __exit__(self, *error) -> None:
        if self._bar is not None:
            self._bar.close()
        elif error[0] is None:
            self._report(ended=True)

    def _report(self, ended: bool = False) -> None:
        self._reported = time.monotonic()
        seconds = self._reported - self._begun
        rate = self.done / max(seconds, 1e-9)
        total, elapsed = self.total or 0, f" in {seconds:,.0f} s"
        if 0 < self.done < total and not ended:
            elapsed = f", {(total - self.done) / rate:,.0f} s left"
        share = "" if self.total is None else f"{100 * self.done / max(total, 1):.0f} %, "
        counts = f"{_scaled(self.done, self.unit)}, {_scaled(rate, self.unit)}/s"
        print(f"{self.what}: {share}{counts}{elapsed}", file=sys.stderr, flush=True)


def _scaled(count: float, unit: str) -> str:
    for power in ("", "k", "M", "G"):
        if count < 1000 or power == "G":
            break
        count /= 1000
    return f"{count:,.1f} {power}{unit}" if power else f"{count:,.0f} {unit}"
