"""Errors and warnings of other libraries and programs."""


def first_line(message) -> str:
    """The first line of an error or of a program's output; empty if there is none."""
    return (str(message).strip().splitlines() or [""])[0]


def silence_transformers() -> None:
    """Turn off the warnings and progress bars of transformers; callers check missing weights themselves."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
