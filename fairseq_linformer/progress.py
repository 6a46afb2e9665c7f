"""How far long work is: a bar with rate and end time on a terminal, plain lines elsewhere."""

import sys
import time


class Progress:
    """Counts up to ``total``; use it in a ``with`` block.

    Args:
        what: what is being done, in a word or two.
        total: of the units.
        unit: name of the unit; thousands of it are written with k, M and G, so bytes are ``B``.
        every: seconds between two plain lines.
    """

    def __init__(self, what: str, total: int, unit: str = "B", every: float = 30.0):
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
        elif self.done < self.total and time.monotonic() - self._said >= self.every:
            self._say()

    def __exit__(self, *error) -> None:
        if self._bar is not None:
            self._bar.close()
        elif error[0] is None:
            self._say()

    def _say(self) -> None:
        self._said = time.monotonic()
        seconds = self._said - self._begun
        rate = self.done / max(seconds, 1e-9)
        left = f", {(self.total - self.done) / rate:,.0f} s left" if 0 < self.done < self.total else f" in {seconds:,.0f} s"
        share = 100 * self.done / max(self.total, 1)
        print(f"{self.what}: {share:.0f} %, {_scaled(self.done, self.unit)}, {_scaled(rate, self.unit)}/s{left}", file=sys.stderr, flush=True)


def _scaled(count: float, unit: str) -> str:
    for power in ("", "k", "M", "G"):
        if count < 1000 or power == "G":
            break
        count /= 1000
    return f"{count:,.1f} {power}{unit}" if power else f"{count:,.0f} {unit}"
