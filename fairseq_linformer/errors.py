"""Errors of other libraries, in one line."""


def first_line(message) -> str:
    """Of an error or of a program's output; empty if that is."""
    return (str(message).strip().splitlines() or [""])[0]
