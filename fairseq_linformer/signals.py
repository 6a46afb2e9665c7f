"""Signals that end a command."""

import signal


def hangup() -> tuple[signal.Signals, ...]:
    """SIGHUP, which a closed terminal sends, unless it is ignored, as under nohup."""
    return () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
