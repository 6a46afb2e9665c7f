"""Theorem 2 of the paper, followed step by step through its proof (appendix B), in numbers.

    n positions, d width of a head, k rows of R, whose entries are N(0, 1/k); A = Q K^T / sqrt(d); x is a row of A

The claim: for every row, ||softmax(x E^T) F V - softmax(x) V|| <= eps ||softmax(x)|| ||V||, with E = delta R, F = exp(-delta) R,
delta = 2^-n, and k of the order of d log(d) / eps^2, independent of n. (The theorem does not say which norm of V; both are here.)

The steps:

1. exp(x E^T) F is replaced by exp(x) R^T R, because ||exp(x E^T) - exp(x) R^T|| = o(||exp(x)||) ("needed" below). What is
   said for it is ||exp(delta x R^T) - exp(delta x) R^T|| = o(||exp(x)||) for small delta ("printed"), which is another thing.
2. ||exp(x) R^T R y - exp(x) y|| <= eps ||exp(x)|| ||y||: Johnson-Lindenstrauss.
3. From 2 d rows to all: [exp(A E^T) F V, exp(A) V] = Gamma times its rows for A_s, which must be of rank 2 d, and Gamma's rows
   must be no longer than of the order of d.
"""

import math
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence

import torch
from torch import Tensor

from .heads import Head


def proof_delta(n: int) -> float:
    """2^-n; 0 in double precision from n = 1,075 on."""
    return 2.0**-n


def draw(k: int, n: int, generator: torch.Generator) -> Tensor:
    """R: (k, n), N(0, 1/k)."""
    return torch.randn(k, n, generator=generator, dtype=torch.float64) / math.sqrt(k)


def construction(head: Head, R: Tensor, delta: float, V: Optional[Tensor] = None) -> Tensor:
    """softmax(A E^T) F with E = delta R and F = exp(-delta) R: (n, n), of rank k, what P is approximated by; times V (n, d) if
    that is given."""
    F = math.exp(-delta) * (R if V is None else R @ V)
    return torch.softmax(head.A @ (delta * R).T, -1) @ F


@dataclass
class RowErrors:
    """Of an approximation X of P V, by row: ||X_i - P_i V|| over

    Attributes:
        spectral: ||P_i|| ||V||_2, the theorem's right side with the spectral norm.
        frobenius: ||P_i|| ||V||_F, and with the Frobenius norm.
        true: ||P_i V||, what is approximated.
    """

    spectral: Tensor
    frobenius: Tensor
    true: Tensor


def row_errors(head: Head, X: Tensor) -> RowErrors:
    """Errors of ``X`` (n, d); each (n,)."""
    P, V = head.P, head.V
    error, rows = (X - P @ V).norm(dim=1), P.norm(dim=1)
    return RowErrors(error / (rows * torch.linalg.matrix_norm(V, 2)), error / (rows * V.norm()), error / (P @ V).norm(dim=1))


def candidates(head: Head, R: Tensor) -> Dict[str, Tensor]:
    """What is compared, (n, d) each: the proof's construction, the same with delta = 1/n (which the proof names too) and 1, step
    2 alone (softmax(A) R^T R V, which needs all n x n scores), and nothing at all (F = 0)."""
    n = R.size(1)
    deltas = {"proof, delta = 2^-n": proof_delta(n), "proof, delta = 1/n": 1 / n, "proof, delta = 1": 1.0}
    found = {name: construction(head, R, delta, head.V) for name, delta in deltas.items()}
    found["step 2 alone"] = (head.P @ R.T) @ (R @ head.V)
    found["F = 0"] = torch.zeros_like(head.V)
    return found


def errors(heads: Sequence[Head], k: int, epsilon: float, draws: int, generator: torch.Generator) -> Dict[str, Dict[str, float]]:
    """Of each candidate: the medians of its row errors over rows, draws and heads, the share of rows within eps of
    each right side, and ``same rows``: how far its rows are from their mean, relative to all (0: every query is answered alike).
    """
    collected: Dict[str, List[RowErrors]] = {}
    spread: Dict[str, List[float]] = {"P V itself": []}
    for head in heads:
        spread["P V itself"].append(_spread(head.P @ head.V))
        for _ in range(draws):
            for name, X in candidates(head, draw(k, head.V.size(0), generator)).items():
                collected.setdefault(name, []).append(row_errors(head, X))
                spread.setdefault(name, []).append(_spread(X))
    found: Dict[str, Dict[str, float]] = {}
    for name, rows in collected.items():
        found[name] = {"same rows": _mean(spread[name])}
        for norm in ("spectral", "frobenius", "true"):
            values = torch.cat([getattr(r, norm) for r in rows])
            found[name][norm] = float(values.median())
            found[name][f"{norm} within eps"] = float((values <= epsilon).double().mean())
    found["P V itself"] = {"same rows": _mean(spread["P V itself"])}
    return found


def _mean(values: List[float]) -> float:
    return sum(values) / len(values)


def _spread(X: Tensor) -> float:
    whole = X.norm()
    return float((X - X.mean(0)).norm() / whole) if whole > 0 else 0.0


def step1(head: Head, R: Tensor, delta: float) -> Dict[str, float]:
    """The two differences of step 1 over ||exp(x)||, ``needed`` and ``printed``, and ``whole``, ||exp(x E^T) F V - exp(x) V||
    over ||exp(x)|| ||V||_F: what the steps together are about, before there is a softmax. Medians over rows. The proof needs
    that the first goes to 0 with delta.

    All are divided by exp(max x) above and below.
    """
    A = head.A
    top = A.amax(1, keepdim=True)
    scaled = torch.exp(A - top)  # exp(x) / exp(max x)
    size = scaled.norm(dim=1)
    projected = torch.exp(delta * A @ R.T)  # exp(x E^T)
    needed = projected * torch.exp(-top) - scaled @ R.T
    printed = (projected - torch.exp(delta * A) @ R.T) * torch.exp(-top)
    whole = (projected * torch.exp(-top)) @ (math.exp(-delta) * R @ head.V) - scaled @ head.V
    return {
        "needed": float((needed.norm(dim=1) / size).median()),
        "printed": float((printed.norm(dim=1) / size).median()),
        "whole": float((whole.norm(dim=1) / (size * head.V.norm())).median()),
    }


def step3(head: Head, R: Tensor, delta: float, generator: torch.Generator) -> Dict[str, float]:
    """Does Gamma exist, and how long are its rows?

    Returns:
        ``rank`` (numerical) of [exp(A E^T) F V, exp(A) V], ``wanted`` 2 d, and the length of Gamma's longest row where the 2 d
        rows are chosen as well as a pivoted QR does, ``longest``, and at random, ``longest_random``; infinite where the rank
        is too small.
    """
    from scipy.linalg import qr

    A, d = head.A, head.V.size(1)
    # Each block by its own size: that changes neither the rank nor Gamma.
    blocks = [torch.exp(delta * A @ R.T) @ R @ head.V, torch.exp(A - A.max()) @ head.V]
    M = torch.cat([block / block.norm() for block in blocks], 1)  # (n, 2 d)
    rank = int(torch.linalg.matrix_rank(M))
    found = {"rank": float(rank), "wanted": 2.0 * d, "longest": math.inf, "longest_random": math.inf}
    if rank == 2 * d:
        pivots = torch.from_numpy(qr(M.T.numpy(), mode="r", pivoting=True)[1][: 2 * d].copy()).long()
        chance = torch.randperm(M.size(0), generator=generator)[: 2 * d]
        for name, rows in (("longest", pivots), ("longest_random", chance)):
            found[name] = float(torch.linalg.solve(M[rows].T, M.T).norm(dim=0).max())
    return found


def needed_k(head: Head, ks: Sequence[int], epsilon: float, draws: int, generator: torch.Generator, share: float = 0.9) -> Dict[str, float]:
    """The smallest of ``ks`` with which step 2 alone holds for all n rows at once in ``share`` of the draws; infinite if none
    does. ``spectral`` and ``frobenius`` as in ``RowErrors``."""
    found = {"spectral": math.inf, "frobenius": math.inf}
    for k in ks:
        holds = {name: 0 for name in found}
        for _ in range(draws):
            R = draw(k, head.V.size(0), generator)
            worst = row_errors(head, (head.P @ R.T) @ (R @ head.V))
            for name in holds:
                holds[name] += int(getattr(worst, name).max() <= epsilon)
        for name, count in holds.items():
            if count >= share * draws and found[name] == math.inf:
                found[name] = float(k)
        if math.inf not in found.values():
            break
    return found


def stated_k(d: int, epsilon: float) -> float:
    """9 d log(d) / eps^2: the theorem's, with 1 for its Theta."""
    return 9 * d * math.log(d) / epsilon**2
