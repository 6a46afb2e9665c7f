"""Errors and warnings of other libraries and programs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


def first_line(message) -> str:
    """The first line of an error or of a program's output, with the next one if it ends in a colon; empty if there is
    none."""
    first, *rest = str(message).strip().splitlines() or [""]
    return f"{first} {rest[0].strip()}" if first.endswith(":") and rest else first


def root_cause(error: BaseException) -> BaseException:
    """The first error of a chain."""
    while cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = cause
    return error


@contextmanager
def only_errors(*names: str) -> Iterator[None]:
    """Let these loggers log errors only, in the block."""
    loggers = [*map(logging.getLogger, names)]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)
