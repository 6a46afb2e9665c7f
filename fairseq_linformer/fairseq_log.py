"""Parser for the numbers that fairseq logs with ``--log-format json``."""

import json
import re
from collections.abc import Iterable, Iterator

_LINE = re.compile(r"\| (\w+) \| (\{.*\})\s*$")


def parse_line(line: str) -> tuple[str, dict[str, float]] | None:
    """Parse a line: its split and its numbers; None if it has none, or is truncated.

    The split is ``train_inner`` (updates since the previous such line), ``train`` (an epoch), ``valid`` or ``test``.

    >>> parse_line('2026-01-01 00:00:00 | INFO | valid | {"epoch": 1, "valid_loss": "7.25"}')
    ('valid', {'epoch': 1.0, 'valid_loss': 7.25})
    """
    if not (found := _LINE.search(line)):
        return None
    try:
        return found[1], {name: float(value) for name, value in json.loads(found[2]).items() if value is not None}
    except (TypeError, ValueError):
        return None


def read_split(lines: Iterable[str], split: str) -> Iterator[dict[str, float]]:
    """Yield the numbers of each line of a split, in order."""
    for line in lines:
        if (found := parse_line(line)) and found[0] == split:
            yield found[1]
