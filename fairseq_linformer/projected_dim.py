"""Notation for k: one number, one per layer, or one per head and layer.

    256                     the same in all layers and heads
    256x4,128x8             256 in the first four layers, 128 in the other eight
    128/128/64/64x2,64x10   in the first two layers 128 in two heads and 64 in two, then 64
    [256, 256, 128]         one per layer, in YAML or Python
    [[128, 64], [64, 64]]   one per head and layer

Section 4 of the paper, "nonuniform projected dimension": "one can choose a smaller projected dimension k for higher
layers".
"""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

Dim = int | tuple[int, ...]
"""k of a layer, or of each head in it."""

_ITEM = re.compile(r"(\d+(?:/\d+)*)(?:x([1-9]\d*))?")


def parse_projected_dim(value: Any, layers: int, heads: int) -> list[Dim]:
    """Parse k of each layer; an integer if all heads of the layer have the same k.

    Args:
        value: integer, string or list, as above; a single entry applies to all layers.
        layers: number of layers.
        heads: number of heads per layer.

    Raises:
        ValueError: the notation is invalid, or does not have one entry per layer or head.
    """
    entries = _parse_entries(value, layers + 1)
    if len(entries) == 1:
        entries = entries * layers
    if len(entries) != layers:
        raise ValueError(
            f"projected_dim must be one number or one for each of {layers} layers, got {len(entries)} in {value!r}"
        )
    for entry in entries:
        if len(entry) not in (1, heads):
            raise ValueError(
                f"projected_dim must have one number or one for each of {heads} heads in a layer, got {len(entry)} in "
                f"{value!r}"
            )
    return [entry[0] if len(set(entry)) == 1 else tuple(entry) for entry in entries]


def _parse_entries(value: Any, limit: int) -> list[list[int]]:
    """The numbers of each entry, which is repeated at most ``limit`` times."""
    if isinstance(value, str):
        items = [match for item in value.split(",") if (match := _ITEM.fullmatch(item.strip()))]
        if len(items) == value.count(",") + 1:
            repeated = [item for item in items for _ in range(min(int(item[2] or 1), limit))]
            return [[int(k) for k in item[1].split("/")] for item in repeated]
    elif _is_count(value):
        return [[value]]
    elif isinstance(value, Sequence) and value:
        entries = [list(e) if isinstance(e, Sequence) and not isinstance(e, str) else [e] for e in value]
        if all(entry and all(map(_is_count, entry)) for entry in entries):
            return entries
    raise ValueError(
        f"projected_dim must be a number, a list of numbers or a string such as '256x4,128x8', got {value!r}"
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def format_projected_dim(dims: Sequence[Dim]) -> int | str:
    """The shortest notation for k of each layer; ``parse_projected_dim`` inverts it."""
    runs = [(k, len(list(run))) for k, run in groupby(dims)]
    if len(runs) == 1 and isinstance(runs[0][0], int):
        return runs[0][0]
    items = [(str(k) if isinstance(k, int) else "/".join(map(str, k)), count) for k, count in runs]
    return ",".join(item if count == 1 else f"{item}x{count}" for item, count in items)
