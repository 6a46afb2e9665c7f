"""Shorter blocks for distillation, so that a student also learns short inputs.

B blocks, n tokens each

BERT's pretraining shortens single sequences with the probability ``short_seq_prob``. Here whole batches are split,
which needs no padding if n is a multiple of the length.
"""

import random

import torch
import torch.nn.functional as F
from torch import Tensor

from ..modules.windows import ceil_div

SHORTEST = 16
"""Smallest length of a block."""


def list_short_lengths(n: int) -> list[int]:
    """n halved again and again, rounded up, while it is at least 2 * ``SHORTEST``."""
    lengths = []
    while n >= 2 * SHORTEST:
        n = ceil_div(n, 2)
        lengths.append(n)
    return lengths


def draw_length(masked: Tensor, short_seq_prob: float) -> int:
    """The length of the blocks of a batch: n, or with probability ``short_seq_prob`` one of ``list_short_lengths``.

    It depends on the masks of the batch alone. Masks change in every epoch, so each epoch draws again; resumed training
    draws the same.

    Args:
        masked: (B, n), True where a token is masked.
    """
    n = masked.size(1)
    generator = random.Random(repr(masked.flatten().nonzero().flatten().tolist()))
    lengths = list_short_lengths(n)
    return generator.choice(lengths) if lengths and generator.random() < short_seq_prob else n


def split_blocks(tokens: Tensor, length: int, bos: int, eos: int, pad: int) -> Tensor:
    """Split each block into shorter ones. ``bos`` and ``eos`` replace the first and last token of each.

    Args:
        tokens: (B, n), padded on the right.
        length: tokens per shorter block.

    Returns:
        (at most B ceil(n / length), length), without blocks of padding alone.
    """
    blocks = F.pad(tokens, (0, -tokens.size(1) % length), value=pad).view(-1, length)
    blocks = blocks[blocks[:, 0] != pad]
    blocks[:, 0] = bos
    last = blocks.ne(pad).sum(1, keepdim=True) - 1
    return torch.where(last > 0, blocks.scatter(1, last, eos), blocks)
