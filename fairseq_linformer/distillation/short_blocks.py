"""Blocks of several lengths, so that a student that is distilled on long blocks also learns short inputs.

B blocks, n tokens each

BERT's pretraining makes sequences shorter than n with the probability ``short_seq_prob``. Here whole batches are cut,
which keeps their number of tokens and needs no padding.
"""

import random
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

SHORTEST = 16
"""Smallest length of a block."""


def short_lengths(n: int) -> list[int]:
    """n / 2, n / 4, ..., as long as they are at least ``SHORTEST``."""
    lengths = []
    while (n := n // 2) >= SHORTEST:
        lengths.append(n)
    return lengths


def check_can_be_cut(n: int, short_seq_prob: float) -> None:
    """Raise ValueError unless blocks of n tokens have ``short_lengths``."""
    if not short_lengths(n):
        raise ValueError(
            f"short_seq_prob must be 0 with blocks of {n} tokens, since only {2 * SHORTEST} can be cut, "
            f"got {short_seq_prob}"
        )


def draw_length(ids: Sequence[int], n: int, short_seq_prob: float) -> int:
    """The length of the blocks of a batch: n, or with probability ``short_seq_prob`` one of ``short_lengths``.

    It depends on the batch alone, so resumed training draws the same.

    Args:
        ids: indices of the batch in its dataset.
    """
    generator = random.Random(repr(list(ids)))
    return n if generator.random() >= short_seq_prob else generator.choice(short_lengths(n))


def cut_blocks(tokens: Tensor, length: int, bos: int, eos: int, pad: int) -> Tensor:
    """Cut each block into shorter ones that begin with ``bos`` and end with ``eos``, which replace a token each.

    Args:
        tokens: (B, n), padded on the right.
        length: of the shorter blocks.

    Returns:
        (at most B ceil(n / length), length), without blocks of padding alone.
    """
    blocks = F.pad(tokens, (0, -tokens.size(1) % length), value=pad).view(-1, length)
    blocks = blocks[blocks[:, 0] != pad].clone()
    blocks[:, 0] = bos
    last = blocks.ne(pad).sum(1, keepdim=True) - 1
    return torch.where(last > 0, blocks.scatter(1, last, eos), blocks)
