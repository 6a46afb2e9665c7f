"""Arguments of ``fairseq-linformer benchmark``."""

import shlex
from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import Any

HEAD_DIM = 64


def parse_ints(text: str) -> tuple[int, ...]:
    """Parse ``512,1024``.

    Raises:
        ArgumentTypeError: not integers separated by commas, one below 1, or one repeated.
    """
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"expected integers separated by commas, such as 512,1024, got {text!r}") from None
    if min(values) < 1:
        raise ArgumentTypeError(f"every integer must be at least 1, got {text!r}")
    return _reject_repeats(values, text)


def parse_positive_int(text: str) -> int:
    if len(values := parse_ints(text)) > 1:
        raise ArgumentTypeError(f"expected one integer, got {text!r}")
    return values[0]


def parse_ints_or_none(text: str) -> tuple[int, ...]:
    return () if text == "none" else parse_ints(text)


def parse_names(text: str) -> tuple[str, ...]:
    """Parse ``ours,roberta``.

    Raises:
        ArgumentTypeError: a name is empty or repeated, which would double its rounds.
    """
    values = tuple(text.split(","))
    if "" in values:
        raise ArgumentTypeError(f"expected names separated by commas, such as ours,roberta, got {text!r}")
    return _reject_repeats(values, text)


def _reject_repeats(values: tuple, text: str) -> tuple:
    if repeated := [x for i, x in enumerate(values) if x in values[:i]]:
        raise ArgumentTypeError(f"{text!r} has {repeated[0]} twice")
    return values


def num_heads_for(embed_dim: int) -> int:
    """The number of heads of width 64.

    Raises:
        ValueError: ``embed_dim`` is not a multiple of 64.
    """
    if embed_dim < HEAD_DIM or embed_dim % HEAD_DIM:
        raise ValueError(f"encoder_embed_dim must be a multiple of {HEAD_DIM}, got {embed_dim}")
    return embed_dim // HEAD_DIM


def format_options(options: dict[str, Any], exclude: Sequence[str] = ()) -> list[str]:
    """Options as words of a command line, so that a measurement can record its command.

    Args:
        options: values by name, with underscores. None, False and an empty list count as unset; a tuple becomes
            comma-separated (``none`` if empty), a list a shell-quoted string.
        exclude: names to skip.
    """
    words: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if name in exclude or value is None or value is False or value == []:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, list):
            words.append(f"{flag}={shlex.join(value)}")  # the value begins with a hyphen
        else:
            words += [flag, (",".join(map(str, value)) or "none") if isinstance(value, tuple) else str(value)]
    return words
