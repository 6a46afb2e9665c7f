"""Progress of training, read from fairseq's log as it is written.

    sst-2-base: update 1,200/21,050 (6 %), loss 0.412, 15,300 tokens/s, ETA 0:24:10

On a terminal one line is refreshed every second. Elsewhere a line is printed every 30 seconds, even if fairseq logs
nothing.
"""

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread

from ..fairseq_log import parse_line

SECONDS_BETWEEN_LINES = 30.0
_SCORES = ("loss", "accuracy", "spearman")


class TrainingProgress:
    """Reports to stderr. In a ``with`` block a thread calls ``report`` every second, and the end prints a summary.

    Args:
        name: name of the run.
        total: total number of updates.
        clock: returns seconds.
    """

    def __init__(self, name: str, total: int, clock: Callable[[], float] = time.monotonic):
        self.name, self.total, self._clock = name, total, clock
        self.loss: float | None = None
        self.tokens_per_second: float | None = None
        self._start = self._last_line = clock()
        self._first: tuple[int, float] | None = None  # update and time of the first log line of this attempt
        self._latest = (0, 0.0)
        self._rate = 0.0  # updates per second
        self._is_terminal = sys.stderr.isatty()
        self._ended = Event()
        self._thread = Thread(target=self._report_until_end, daemon=True)

    def __enter__(self) -> "TrainingProgress":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        if error[0] is None and self._first is not None:
            self.announce(self.summary())

    def _report_until_end(self) -> None:
        while not self._ended.wait(1.0):
            self.report()

    def read(self, line: str) -> None:
        """Record the numbers in a line of fairseq's log; announce validation scores."""
        if not (parsed := parse_line(line)):
            return
        split, stats = parsed
        values = {key.removeprefix(f"{split}_"): value for key, value in stats.items()}
        if split in ("train_inner", "train"):
            if "num_updates" in values:
                self.record(int(values["num_updates"]), values.get("loss"), values.get("wps"), values.get("ups", 0.0))
        elif "epoch" in values:
            scores = ", ".join(f"{key} {value:g}" for key, value in values.items() if key.endswith(_SCORES))
            self.announce(f"{self.name}: epoch {values['epoch']:.0f}, {split}: {scores}")

    def record(
        self, update: int, loss: float | None, tokens_per_second: float | None, updates_per_second: float = 0.0
    ) -> None:
        """Record the numbers of an update; ``updates_per_second`` is used until two updates give a rate."""
        now = self._clock()
        self.loss, self.tokens_per_second = loss, tokens_per_second
        self._latest = (update, now)
        self._first = self._first or self._latest
        updates, seconds = update - self._first[0], now - self._first[1]
        self._rate = updates / seconds if updates > 0 and seconds > 0 else updates_per_second

    def summary(self) -> str:
        """The current state in one line."""
        now = self._clock()
        if self._first is None:
            return f"{self.name}: no update logged yet, {_format_seconds(now - self._start)} after the start"
        update, logged_at = self._latest
        parts = [f"update {update:,}/{self.total:,} ({100 * update / max(self.total, 1):.0f} %)"]
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4g}")
        if self.tokens_per_second is not None:
            parts.append(f"{self.tokens_per_second:,.0f} tokens/s")
        if self._rate > 0 and update < self.total:
            remaining = (self.total - update) / self._rate - (now - logged_at)
            parts.append(f"ETA {_format_seconds(max(remaining, 0.0))}")
        return f"{self.name}: {', '.join(parts)}"

    def report(self) -> None:
        """Refresh the line on a terminal; elsewhere print a line every ``SECONDS_BETWEEN_LINES``."""
        if self._is_terminal:
            _write(f"\r{self.summary()}\033[K")
        elif self._clock() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = self._clock()
            _write(f"{self.summary()}\n")

    def announce(self, text: str) -> None:
        """Print a line that is not refreshed."""
        _write(f"\r{text}\033[K\n" if self._is_terminal else f"{text}\n")


def _format_seconds(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _write(text: str) -> None:
    sys.stderr.write(text)  # a single call: two threads write
    sys.stderr.flush()
