"""How far long work is: a bar with rate and end time on a terminal, plain lines elsewhere."""

import sys
import time
from typing import Optional


class Progress:
    """Counts up to ``total``; use it in a ``with`` block.

    Args:
        what: what is being done, in a word or two.
        total: of the units; None if that is not known.
        unit: name of the unit; thousands of it are written with k, M and G, so bytes are ``B``.
        every: seconds between two plain lines.
    """

    def __init__(self, what: str, total: Optional[int], unit: str = "B", every: float = 30.0):
        self.what, self.total, self.unit, self.every = what, total, unit, every
        self.done = 0
        self._bar = None

    def __enter__(self) -> "Progress":
        self._begun = self._said = time.monotonic()
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(desc=self.what, total=self.total, unit=self.unit, unit_scale=True, smoothing=0.1)
        return self

    def add(self, count: int) -> None:
        """So many more are done."""
        self.done += count
        if self._bar is not None:
            self._bar.update(count)
        elif (self.total is None or self.done < self.total) and time.monotonic() - self._said >= self.every:
            self._say()

    def __exit__(self, *error) -> None:
        if self._bar is not None:
            self._bar.close()
        elif error[0] is None:
            self._say(ended=True)

    def _say(self, ended: bool = False) -> None:
        self._said = time.monotonic()
        seconds = self._said - self._begun
        rate = self.done / max(seconds, 1e-9)
        total = self.total or 0
        left = f", {(total - self.done) / rate:,.0f} s left" if 0 < self.done < total and not ended else f" in {seconds:,.0f} s"
        share = "" if self.total is None else f"{100 * self.done / max(total, 1):.0f} %, "
        print(f"{self.what}: {share}{_scaled(self.done, self.unit)}, {_scaled(rate, self.unit)}/s{left}", file=sys.stderr, flush=True)


def _scaled(count: float, unit: str) -> str:
    for power in ("", "k", "M", "G"):
        if count < 1000 or power == "G":
            break
        count /= 1000
    return f"{count:,.1f} {power}{unit}" if power else f"{count:,.0f} {unit}"
