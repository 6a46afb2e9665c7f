"""Formatting of errors from other libraries and programs."""


def first_line(message) -> str:
    """The first line of an error or of a program's output; empty if there is none."""
    return (str(message).strip().splitlines() or [""])[0]
