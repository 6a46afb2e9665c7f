"""How far approximations of attention are from the best one of rank k.

    n positions, d head dimension, k the rank; S (n, n) approximates P, and S V approximates P V

The truncated singular value decomposition of P minimizes ||S - P||_F over matrices of rank k (Eckart and Young 1936),
and that of P V minimizes the error of the output. The latter is 0 for k >= d: P V has d columns, so rank d always
suffices for one V. Every softmax(Q (E K)^T) F has rank at most k.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..modules.windows import Windows
from .heads import Head
from .theorem2 import construction, draw, proof_delta

BEST, BEST_OUTPUT, LEARNED = "best rank-k of P", "best rank-k of P V", "learned E and F"


def linformer_map(head: Head, E: Tensor, F: Tensor, bias: Tensor | None = None) -> Tensor:
    """(n, n): softmax(Q (E K)^T / sqrt(d) + bias) F, equation (7) without V; E and F are (k, n), the bias is (k,)."""
    scores = head.Q @ (E @ head.K).T / math.sqrt(head.Q.size(1))
    return torch.softmax(scores if bias is None else scores + bias, -1) @ F


def approximations(head: Head, ks: Sequence[int], generator: torch.Generator) -> Iterator[tuple[int, str, Tensor]]:
    """(k, name, S) for each k: the best S of rank k, mean pooling, the random projection of theorem 1's proof
    (P R^T R), the construction of theorem 2's proof, and the head's own E and F if they have k rows.

    Raises:
        ValueError: a k is not between 1 and n.
    """
    n, P = head.Q.size(0), head.P
    for k in ks:
        if not 1 <= k <= n:
            raise ValueError(f"k must be between 1 and n ({n}), got {k}")
    U, s, Vh = head.svd
    for k in ks:
        R, pool = draw(k, n, generator), Windows(k, n).average().double()
        yield k, BEST, (U[:, :k] * s[:k]) @ Vh[:k]
        yield k, "mean pooling", linformer_map(head, pool, pool)
        yield k, "theorem 1, P R^T R", P @ R.T @ R
        yield k, "theorem 2, delta = 2^-n", construction(head, R, proof_delta(n))
        if head.E is not None and head.F is not None and len(head.E) == k:
            yield k, LEARNED, linformer_map(head, head.E, head.F, head.bias)


def approximation_errors(
    heads: Sequence[Head], ks: Sequence[int], generator: torch.Generator
) -> dict[int, dict[str, dict[str, list[float]]]]:
    """Relative errors by k, approximation and kind, one per head: ``map`` is ||S - P||_F / ||P||_F, ``output`` is
    ||S V - P V||_F / ||P V||_F.

    ``learned E and F`` has only heads whose E and F have k rows. ``best rank-k of P V`` has only ``output``.
    """
    errors: dict[int, dict[str, dict[str, list[float]]]] = {k: {} for k in ks}

    def add(k: int, name: str, **values: float) -> None:
        for kind, value in values.items():
            errors[k].setdefault(name, {}).setdefault(kind, []).append(value)

    for head in heads:
        P, PV = head.P, head.PV
        for k, name, S in approximations(head, ks, generator):
            add(k, name, map=float((S - P).norm() / P.norm()), output=float((S @ head.V - PV).norm() / PV.norm()))
        s = torch.linalg.svdvals(PV)
        for k in ks:
            add(k, BEST_OUTPUT, output=float(s[k:].norm() / s.norm()))
    return errors
