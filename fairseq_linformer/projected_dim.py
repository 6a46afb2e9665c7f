"""k, as it is written: one number, or one for each layer, or one for each head of each layer.

    256                     the same in all layers and heads
    256x4,128x8             256 in the first four layers, 128 in the other eight
    128/128/64/64x2,64x10   in the first two layers 128 for two heads and 64 for two, then 64
    [256, 256, 128]         a list for the layers, in YAML or Python
    [[128, 64], [64, 64]]   lists for the heads of the layers

Section 4 of the paper, "nonuniform projected dimension": "one can choose a smaller projected dimension k for higher
layers".
"""

import re
from itertools import groupby
from typing import Any, List, Sequence, Tuple, Union

Dim = Union[int, Tuple[int, ...]]
"""k of a layer, or of each of its heads."""

_ITEM = re.compile(r"(\d+(?:/\d+)*)(?:x(\d+))?")


def parse(value: Any, layers: int, heads: int) -> List[Dim]:
    """k of each layer; an integer where its heads are alike.

    Args:
        value: an integer, a string or a list, as above. One entry alone is for all layers.

    Raises:
        ValueError: it is written otherwise, or has not one entry for each layer or head.
    """
    entries = _entries(value, layers)
    if len(entries) == 1:
        entries = entries * layers
    if len(entries) != layers:
        raise ValueError(
            f"projected_dim is {value!r}, which is for {len(entries)} layers; it must be one number or {layers}"
        )
    for entry in entries:
        if len(entry) not in (1, heads):
            raise ValueError(
                f"projected_dim is {value!r}, which has {len(entry)} heads in a layer; it must be one number or {heads}"
            )
    return [entry[0] if len(set(entry)) == 1 else tuple(entry) for entry in entries]


def _entries(value: Any, most: int) -> List[List[int]]:
    """The numbers of each entry, repetitions written out, of which there may be ``most``."""
    if isinstance(value, str):
        items = [_ITEM.fullmatch(item.strip()) for item in value.split(",")]
        if all(items):
            counts = [int(item[2] or 1) for item in items]
            if min(counts) < 1 or sum(counts) > most:
                raise ValueError(
                    f"projected_dim is {value!r}, which is for {sum(counts)} layers; it must be one number or {most}"
                )
            return [[int(k) for k in item[1].split("/")] for item, count in zip(items, counts) for _ in range(count)]
    elif _is_count(value):
        return [[value]]
    elif isinstance(value, Sequence) and value:
        entries = [list(e) if isinstance(e, Sequence) and not isinstance(e, str) else [e] for e in value]
        if all(entry and all(map(_is_count, entry)) for entry in entries):
            return entries
    raise ValueError(
        f"projected_dim is {value!r}; it must be a number, a list of numbers or a form such as 256x4,128x8"
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def short_form(dims: Sequence[Dim]) -> Union[int, str]:
    """The shortest way to write k of each layer; ``parse`` gives the same back."""
    runs = [(k, len(list(run))) for k, run in groupby(dims)]
    if len(runs) == 1 and isinstance(runs[0][0], int):
        return runs[0][0]
    items = [(str(k) if isinstance(k, int) else "/".join(map(str, k)), count) for k, count in runs]
    return ",".join(item if count == 1 else f"{item}x{count}" for item, count in items)
