"""How far an approximation of attention is from the best one of its rank.

    n positions, d width of a head, k the rank; S (n, n) approximates P, and S V approximates P V

Of all matrices of rank k, the first k singular values and vectors of P have the smallest ||S - P||_F (Eckart and Young
1936), and those of P V the smallest error of the output, which is 0 from k = d on: P V has d columns, so a rank of d is
always enough for one V. Everything here that can be written as softmax(Q (E K)^T) F is of rank k at most.
"""

import math
from typing import Dict, Iterator, List, Sequence, Tuple

import torch
from torch import Tensor

from ..modules.windows import window_average
from .heads import Head
from .theorem2 import construction, draw, proof_delta

BEST, BEST_OUTPUT, LEARNED = "best rank-k of P", "best rank-k of P V", "learned E and F"


def linformer_map(head: Head, E: Tensor, F: Tensor) -> Tensor:
    """(n, n): softmax(Q (E K)^T / sqrt(d)) F, equation (7) without V; E and F are (k, n)."""
    return torch.softmax(head.Q @ (E @ head.K).T / math.sqrt(head.Q.size(1)), -1) @ F


def approximations(head: Head, ks: Sequence[int], generator: torch.Generator) -> Iterator[Tuple[int, str, Tensor]]:
    """(k, name, (n, n) matrix of rank k): the best of P, mean pooling, a random projection as in the proof of theorem 1
    (P R^T R), the construction in the proof of theorem 2, and where the head has E and F of so many rows those.

    Raises:
        ValueError: a k is not between 1 and n.
    """
    n, P = head.Q.size(0), head.P
    for k in ks:
        if not 1 <= k <= n:
            raise ValueError(f"k is {k}; it must be between 1 and n, which is {n}")
    U, s, Vh = torch.linalg.svd(P)
    for k in ks:
        R, pool = draw(k, n, generator), window_average(k, n).double()
        yield k, BEST, (U[:, :k] * s[:k]) @ Vh[:k]
        yield k, "mean pooling", linformer_map(head, pool, pool)
        yield k, "theorem 1, P R^T R", P @ R.T @ R
        yield k, "theorem 2, delta = 2^-n", construction(head, R, proof_delta(n))
        if head.E is not None and len(head.E) == k:
            yield k, LEARNED, linformer_map(head, head.E, head.F)


def errors(
    heads: Sequence[Head], ks: Sequence[int], generator: torch.Generator
) -> Dict[int, Dict[str, Dict[str, List[float]]]]:
    """By k and name, of each head ||S - P||_F / ||P||_F (``map``) and ||S V - P V||_F / ||P V||_F (``output``). Of
    ``learned E and F`` of those heads that have k rows in them.

    ``best rank-k of P V`` is the best output of rank k; it is no map.
    """
    found: Dict[int, Dict[str, Dict[str, List[float]]]] = {k: {} for k in ks}

    def add(k: int, name: str, **values: float) -> None:
        for what, value in values.items():
            found[k].setdefault(name, {}).setdefault(what, []).append(value)

    for head in heads:
        P, PV = head.P, head.PV
        for k, name, S in approximations(head, ks, generator):
            add(k, name, map=float((S - P).norm() / P.norm()), output=float((S @ head.V - PV).norm() / PV.norm()))
        s = torch.linalg.svdvals(PV)
        for k in ks:
            add(k, BEST_OUTPUT, output=float(s[k:].norm() / s.norm()))
    return found
