"""Heads of attention for the theorems: random Q, K and V, or a head that attends to the next position.

n positions, d head dimension (the theorems' d)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass
class Head:
    """One head on one sentence, in double precision.

    Attributes:
        Q, K, V: (n, d), after W^Q, W^K and W^V, as in the proofs.
    """

    Q: Tensor
    K: Tensor
    V: Tensor

    @cached_property
    def A(self) -> Tensor:
        """(n, n): Q K^T / sqrt(d)."""
        return self.Q @ self.K.T / math.sqrt(self.Q.size(-1))

    @cached_property
    def P(self) -> Tensor:
        """(n, n): the context mapping matrix softmax(A), row by row."""
        return torch.softmax(self.A, -1)

    @cached_property
    def PV(self) -> Tensor:
        """(n, d): the output P V."""
        return self.P @ self.V


def random_head(n: int, d: int, generator: torch.Generator) -> Head:
    """Q, K and V with independent N(0, 1) entries."""
    Q, K, V = (torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(3))
    return Head(Q, K, V)


def neighbor_head(n: int, d: int, generator: torch.Generator) -> Head:
    """Each position attends to the next, as in some heads of trained models: P is nearly a permutation, of full rank.

    The key of a position is the query of the one before it; queries are N(0, 4), V is N(0, 1).
    """
    Q, V = (torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(2))
    return Head(2 * Q, 2 * Q.roll(1, 0), V)


def build_heads(
    build: Callable[[int, int, torch.Generator], Head], lengths: Sequence[int], d: int, seed: int
) -> list[Head]:
    """One head per n of ``lengths``, by ``random_head`` or ``neighbor_head``."""
    generator = torch.Generator().manual_seed(seed)
    return [build(n, d, generator) for n in lengths]


def powers_of_two(first: int, limit: int) -> list[int]:
    """Powers of two from ``first``, which must be one, up to ``limit``."""
    return [1 << i for i in range(first.bit_length() - 1, limit.bit_length())]
