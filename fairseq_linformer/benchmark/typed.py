"""What is typed for a benchmark, read and refused alike by ``fairseq-linformer benchmark`` and by the bare script."""

import argparse
from typing import Sequence, Tuple

HEAD = 64
"""Width of a head."""


def numbers(text: str) -> Tuple[int, ...]:
    """``512,1024``.

    Raises:
        argparse.ArgumentTypeError: that is none of it, or a number is below 1, or there twice.
    """
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not numbers separated by commas, such as 512,1024") from None
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} has a number below 1")
    return once(found, text)


def positive(text: str) -> int:
    """One of them."""
    if len(found := numbers(text)) > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not one number")
    return found[0]


def numbers_or_none(text: str) -> Tuple[int, ...]:
    return () if text == "none" else numbers(text)


def names(text: str) -> Tuple[str, ...]:
    """``ours,roberta``; a model that is there twice would have twice the rounds of the others.

    Raises:
        argparse.ArgumentTypeError: a name is empty, or there twice.
    """
    found = tuple(text.split(","))
    if "" in found:
        raise argparse.ArgumentTypeError(f"{text!r} is not names separated by commas, such as ours,roberta")
    return once(found, text)


def once(found: Sequence, text: str) -> Tuple:
    if twice := [x for i, x in enumerate(found) if x in found[:i]]:
        raise argparse.ArgumentTypeError(f"{text!r} has {twice[0]} twice")
    return tuple(found)


def heads_of(width: int) -> int:
    """How many of 64 a width has.

    Raises:
        ValueError: it is no multiple of that.
    """
    if width < HEAD or width % HEAD:
        raise ValueError(f"width is {width}; it must be a multiple of {HEAD}")
    return width // HEAD
