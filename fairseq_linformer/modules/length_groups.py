"""Groups of sentences of similar length, which save padding on a CPU.

B sentences, n positions

Features of a sentence do not depend on its padding, so a padded batch can run in groups, each as long as its longest
sentence. The cost of a group is linear in its positions, since attention is, plus a constant. A GPU runs a batch whole:
there another group costs more than the padding it saves, and lengths would have to be copied to the host.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .windows import ceil_div

GROUP_POSITIONS = 64
"""Cost of one more group, in positions: its calls, and adding its gradients to those of the weights."""
ENTRY_COST = 8
"""Each group computes E and F again: an entry costs ENTRY_COST / d^2 positions of width d."""
MAX_LENGTHS = 64
"""Distinct lengths per batch at most: with n > MAX_LENGTHS, lengths are rounded up to multiples of
ceil(n / MAX_LENGTHS). The search is quadratic in them."""


class Group(NamedTuple):
    """Sentences that run together."""

    rows: Tensor
    """Their indices in the batch, a vector of integers."""
    length: int
    """Positions of each: at least the longest sentence."""


def count_group_positions(entries: int, width: int) -> int:
    """The cost of one more group in positions, with so many entries of E and F in a layer of width d."""
    return GROUP_POSITIONS + ENTRY_COST * entries // width**2


def group_by_length(padding_mask: Tensor, group_positions: int) -> list[Group]:
    """Split a batch into the cheapest groups, shortest first.

    Args:
        padding_mask: (B, n), True at padding; padding before the last token counts toward the length. A sentence
            without tokens has length 1.
        group_positions: the cost of one more group.
    """
    n = padding_mask.size(1)
    step = ceil_div(n, MAX_LENGTHS)
    ends = torch.where(padding_mask, 0, torch.arange(1, n + 1, device=padding_mask.device)).amax(1).clamp(min=1)
    rounded = ((ends + step - 1) // step * step).clamp(max=n)
    lengths, counts = rounded.unique(return_counts=True)
    groups = cheapest_groups(lengths.tolist(), counts.tolist(), group_positions)
    rows = rounded.argsort(stable=True).split([count for _, count in groups])
    return [Group(part, length) for part, (length, _) in zip(rows, groups)]


def cheapest_groups(lengths: Sequence[int], counts: Sequence[int], group_positions: int) -> list[tuple[int, int]]:
    """The (length, number of sentences) of each group, shortest first, with the smallest sum of positions and
    ``group_positions`` per group.

    Args:
        lengths: in ascending order.
        counts: sentences of each length.
    """
    costs, firsts = [0], [0]  # of the first i lengths: the smallest cost, and the first length of their last group
    for end in range(1, len(lengths) + 1):
        options, rows = [], 0
        for first in range(end - 1, -1, -1):
            rows += counts[first]
            options.append((costs[first] + rows * lengths[end - 1] + group_positions, first))
        cost, first = min(options)
        costs.append(cost)
        firsts.append(first)
    groups, end = [], len(lengths)
    while end:
        groups.append((lengths[end - 1], sum(counts[firsts[end] : end])))
        end = firsts[end]
    return groups[::-1]
