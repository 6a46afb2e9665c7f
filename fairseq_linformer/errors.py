"""Errors of others, in a sentence of ours."""


def first_line(said) -> str:
    """Of an error or of what a program says; empty if it says nothing."""
    return (str(said).strip().splitlines() or [""])[0]
