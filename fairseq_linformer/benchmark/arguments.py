"""Arguments of the benchmark commands: types for argparse, and options written as a command again.

``fairseq-linformer benchmark`` and ``python -m fairseq_linformer.benchmark`` share them.
"""

import shlex
from argparse import ArgumentTypeError
from typing import Any, Dict, List, Sequence, Tuple

HEAD = 64
"""Width of a head."""


def numbers(text: str) -> Tuple[int, ...]:
    """``512,1024``.

    Raises:
        ArgumentTypeError: it is something else, or a number is below 1 or appears twice.
    """
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not numbers separated by commas, such as 512,1024") from None
    if min(found) < 1:
        raise ArgumentTypeError(f"{text!r} has a number below 1")
    return _without_repeats(found, text)


def positive(text: str) -> int:
    """One number of ``numbers``."""
    if len(found := numbers(text)) > 1:
        raise ArgumentTypeError(f"{text!r} is not one number")
    return found[0]


def numbers_or_none(text: str) -> Tuple[int, ...]:
    return () if text == "none" else numbers(text)


def names(text: str) -> Tuple[str, ...]:
    """``ours,roberta``.

    Raises:
        ArgumentTypeError: a name is empty or appears twice, which would double its rounds.
    """
    found = tuple(text.split(","))
    if "" in found:
        raise ArgumentTypeError(f"{text!r} is not names separated by commas, such as ours,roberta")
    return _without_repeats(found, text)


def _without_repeats(found: Tuple, text: str) -> Tuple:
    if twice := [x for i, x in enumerate(found) if x in found[:i]]:
        raise ArgumentTypeError(f"{text!r} has {twice[0]} twice")
    return found


def heads_of(width: int) -> int:
    """How many heads of 64 a width has.

    Raises:
        ValueError: it is no multiple of 64.
    """
    if width < HEAD or width % HEAD:
        raise ValueError(f"width is {width}; it must be a multiple of {HEAD}")
    return width // HEAD


def words_of(options: Dict[str, Any], but: Sequence[str] = ()) -> List[str]:
    """Options as a command has them, so that a measurement can record its whole command.

    Args:
        options: name, with underscores, to value. None, False and an empty list were not given; a tuple is written with
            commas, ``none`` if it is empty; a list as words of a shell.
        but: names to leave out.
    """
    words: List[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if name in but or value is None or value is False or value == []:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, list):
            words.append(f"{flag}={shlex.join(value)}")  # the value begins with a hyphen
        else:
            words += [flag, (",".join(map(str, value)) or "none") if isinstance(value, tuple) else str(value)]
    return words
