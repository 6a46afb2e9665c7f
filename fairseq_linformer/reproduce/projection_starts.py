"""Other starts of E and F within equation (7), tried to come closer to RoBERTa at k = n / 2.

Each gives the (k, n) matrices of E and F for a layer and a head. With sharing other than
``none`` the head is always 0.
"""

from typing import Callable, Dict, Tuple

import torch
from torch import Tensor

from ..models.shapes import ENCODER, count_layers, projections
from ..modules.windows import window_average, window_edges, window_triangle


def picked(k: int, n: int, place: int) -> Tensor:
    """One position of each window, its place modulo the window's length."""
    edges = window_edges(k, n)
    lengths = edges[1:] - edges[:-1]
    return torch.eye(n)[edges[:-1] + place % lengths]


def mixed(k: int, n: int, place: int, share: float) -> Tensor:
    """The average, with a ``share`` of the weight moved to one position of the window."""
    return (1 - share) * window_average(k, n) + share * picked(k, n, place)


Start = Callable[[int, int, int, int], Tuple[Tensor, Tensor]]
"""(k, n, layer, head) to E, F."""


def _late(k: int, n: int, i: int) -> int:
    """Half a window, in every second layer or head."""
    return n // k // 2 if i % 2 else 0


def _both(matrix: Tensor) -> Tuple[Tensor, Tensor]:
    return matrix, matrix


STARTS: Dict[str, Tuple[str, Start]] = {
    "average": ("headwise", lambda k, n, layer, head: _both(window_average(k, n))),
    "average for each head": ("none", lambda k, n, layer, head: _both(window_average(k, n))),
    "overlapping windows": ("headwise", lambda k, n, layer, head: _both(window_triangle(k, n))),
    "overlapping windows, reach 1.5": ("headwise", lambda k, n, layer, head: _both(window_triangle(k, n, reach=1.5))),
    "overlapping windows for keys": (
        "headwise", lambda k, n, layer, head: (window_triangle(k, n), window_average(k, n))),
    "overlapping windows for keys, reach 1.5": (
        "headwise", lambda k, n, layer, head: (window_triangle(k, n, reach=1.5), window_average(k, n))),
    "overlapping windows for keys, values offset": (
        "headwise", lambda k, n, layer, head: (window_triangle(k, n), window_average(k, n, _late(k, n, 1)))),
    "overlapping windows for keys, all offset by layer": (
        "headwise", lambda k, n, layer, head: (
            window_triangle(k, n, _late(k, n, layer)), window_average(k, n, _late(k, n, layer)))),
    "average, keys times 0.7": ("headwise", lambda k, n, layer, head: (0.7 * window_average(k, n), window_average(k, n))),
    "overlapping windows for keys, times 0.7, all offset by layer": (
        "headwise", lambda k, n, layer, head: (
            0.7 * window_triangle(k, n, _late(k, n, layer)), window_average(k, n, _late(k, n, layer)))),
    "average, keys times 1.4": ("headwise", lambda k, n, layer, head: (1.4 * window_average(k, n), window_average(k, n))),
    "overlapping windows for keys, times 1.4": (
        "headwise", lambda k, n, layer, head: (1.4 * window_triangle(k, n), window_average(k, n))),
    "overlapping windows for values": (
        "headwise", lambda k, n, layer, head: (window_average(k, n), window_triangle(k, n))),
    "offset by layer": ("headwise", lambda k, n, layer, head: _both(window_average(k, n, _late(k, n, layer)))),
    "offset by head": ("none", lambda k, n, layer, head: _both(window_average(k, n, _late(k, n, head)))),
    "offset by layer and head": ("none", lambda k, n, layer, head: _both(window_average(k, n, _late(k, n, layer + head)))),
    "offset for values": ("headwise", lambda k, n, layer, head: (window_average(k, n), window_average(k, n, _late(k, n, 1)))),
    "overlapping windows, offset by layer": (
        "headwise", lambda k, n, layer, head: _both(window_triangle(k, n, _late(k, n, layer)))),
    "one position a head": ("none", lambda k, n, layer, head: _both(picked(k, n, head))),
    "average for keys, one position for values": (
        "none", lambda k, n, layer, head: (window_average(k, n), picked(k, n, head))),
    "one position for keys, average for values": (
        "none", lambda k, n, layer, head: (picked(k, n, head), window_average(k, n))),
    "half average, half one position": ("none", lambda k, n, layer, head: _both(mixed(k, n, head, 0.5))),
    "average in half the heads, one position in the others": (
        "none", lambda k, n, layer, head: _both(window_average(k, n) if head % 2 else picked(k, n, head // 2))),
}  # fmt: skip
"""The sharing that a start needs, and the start."""

FINALISTS = (
    "average",
    "overlapping windows",
    "overlapping windows for keys",
    "offset by layer",
    "overlapping windows for keys, all offset by layer",
    "average, keys times 0.7",
    "overlapping windows for keys, times 0.7, all offset by layer",
)
"""Those that the first seed found worth two more, and what they are compared with."""


def write(state: Dict[str, Tensor], name: str, k: int, n: int) -> None:
    """Put a start into a converted state dict, in the place of its E and F. Windows are masked as if
    none began later, which matters to inputs shorter than n only."""
    sharing, start = STARTS[name]
    for layer in range(count_layers(state)):
        for which in "EF":
            prefix = f"{ENCODER}layers.{layer}.self_attn.{which}."
            entries = projections(state)[prefix]
            heads = range(len(entries["weight"])) if sharing == "none" else range(1)
            matrices = [start(k, n, layer, head)["EF".index(which)] for head in heads]
            state[prefix + "weight"] = torch.stack(matrices).reshape(entries["weight"].shape)
            state[prefix + "start"] = state[prefix + "weight"].clone()
