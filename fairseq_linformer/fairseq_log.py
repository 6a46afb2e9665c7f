"""The numbers in fairseq's log, as ``--log-format json`` writes them."""

import json
import re
from typing import Dict, Iterable, Iterator, List, Optional, Tuple

_LINE = re.compile(r"\| (\w+) \| (\{.*\})\s*$")


def numbers(line: str) -> Optional[Tuple[str, Dict[str, float]]]:
    """The split of a line and its numbers; None for any other line, or one that a kill has cut off.

    The split is ``train_inner`` (since the last such line), ``train`` (of an epoch), ``valid`` or ``test``.

    >>> numbers('2026-01-01 00:00:00 | INFO | valid | {"epoch": 1, "valid_loss": "7.25"}')
    ('valid', {'epoch': 1.0, 'valid_loss': 7.25})
    """
    if not (found := _LINE.search(line)):
        return None
    try:
        return found[1], {name: float(value) for name, value in json.loads(found[2]).items() if value is not None}
    except (TypeError, ValueError):
        return None


def every(lines: Iterable[str], split: str) -> Iterator[Dict[str, float]]:
    """The numbers of all lines of a split, in order."""
    for line in lines:
        if (found := numbers(line)) and found[0] == split:
            yield found[1]


def curve(lines: Iterable[str], split: str, name: str) -> List[Tuple[int, float]]:
    """(update, value), updates rising. Of an update that was logged again after a restart, the later value.

    Args:
        split: ``train_inner`` or ``valid``.
        name: such as ``loss``, without the prefix that fairseq gives it in ``valid``.
    """
    prefix = "valid_" if split == "valid" else ""
    value, update = prefix + name, prefix + "num_updates"
    return sorted({int(stats[update]): stats[value] for stats in every(lines, split) if {value, update} <= set(stats)}.items())
