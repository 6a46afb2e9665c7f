"""Signals that end a command."""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType


def hangup_signals() -> tuple[signal.Signals, ...]:
    """SIGHUP, which a closed terminal sends, unless it is ignored, as under nohup."""
    return () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)


@contextmanager
def handle(numbers: Iterable[int], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle these signals inside the block, which must run in the main thread."""
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in previous.items():
            signal.signal(number, earlier)
