"""Theorem 2 of the paper, measured step by step through its proof (appendix B).

    n positions, d width of a head, k rows of R, whose entries are N(0, 1/k); A = Q K^T / sqrt(d); x is a row of A

The claim: for every row, ||softmax(x E^T) F V - softmax(x) V|| <= eps ||softmax(x)|| ||V||, with
k = min{Theta(9 d log(d) / eps^2), 5 Theta(log(n) / eps^2)}; in the proof E = delta R, F = exp(-delta) R, delta = 2^-n.
(The theorem does not say which norm of V; both are here. Section 4 says k = O(d / eps^2) in words, and appendix B uses
5 log(n d) / (eps^2 - eps^3) and 9 log(d) / (eps^2 - eps^3).)

The steps:

1. exp(x E^T) F is replaced by exp(x) R^T R, because ||exp(x E^T) - exp(x) R^T|| = o(||exp(x)||) ("needed" below). The
   proof instead shows ||exp(delta x R^T) - exp(delta x) R^T|| = o(||exp(x)||) for small delta ("printed"), which does
   not imply it.
2. ||exp(x) R^T R y - exp(x) y|| <= eps ||exp(x)|| ||y||: Johnson-Lindenstrauss.
3. From 2 d rows to all: [exp(A E^T) F V, exp(A) V] = Gamma times its rows for A_s, which must be of rank 2 d, and
   Gamma's rows must be no longer than of the order of d.

Gaps in the proof, besides the steps measured here:

(a) It ends at ||exp(A_i E^T) F V - exp(A_i) V|| and never reaches the softmax in the theorem. One side is
    divided by a sum of k exponentials, the other by one of n; where the proof's end held, the outputs would differ by
    the ratio of these sums ("sums" below, measured), whatever eps.
(b) Its last line is eps Theta(d) ||exp(A^s)|| ||V||: a factor of d, and the norm of 2 d other rows in place of
    ||exp(A_i)||. Absorbing the factor into eps requires k of order d^2 log(d), not d log(d). (The same line drops a
    factor of up to sqrt(2 d) between a sum of norms and the norm.)
(c) Its first display claims an error of eps ||exp(x) y||, the norm of the product, and derives eps ||exp(x)|| ||y||,
    the product of the norms, as in theorem 1.
(d) Its step (a) drops exp(-delta): exp(x E^T) F = exp(-delta) exp(x E^T) R. That is harmless for small delta.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .heads import Head
from .samples import median


def proof_delta(n: int) -> float:
    """2^-n; 0 in double precision from n = 1,075 on."""
    return 2.0**-n


def draw(k: int, n: int, generator: torch.Generator) -> Tensor:
    """R: (k, n), N(0, 1/k)."""
    return torch.randn(k, n, generator=generator, dtype=torch.float64) / math.sqrt(k)


def construction(head: Head, R: Tensor, delta: float, V: Tensor | None = None) -> Tensor:
    """The proof's approximation of P, softmax(A E^T) F with E = delta R and F = exp(-delta) R: (n, n), of rank at most
    k; with ``V``, its product with V, (n, d)."""
    F = math.exp(-delta) * (R if V is None else R @ V)
    return torch.softmax(head.A @ (delta * R).T, -1) @ F


def step2(head: Head, R: Tensor) -> Tensor:
    """softmax(A) R^T R V, (n, d), the output after step 2; it computes all n x n scores."""
    return (head.P @ R.T) @ (R @ head.V)


def row_errors(head: Head, X: Tensor) -> dict[str, Tensor]:
    """||X_i - P_i V|| of each row of an approximation X (n, d) of P V, (n,) each: over ||P_i|| ||V||_2 (``spectral``),
    over ||P_i|| ||V||_F (``frobenius``), which are the theorem's right side, and over ||P_i V|| (``true``), the norm of
    the approximated row."""
    error = (X - head.PV).norm(dim=1)
    sizes = {
        "spectral": head.row_norms * head.spectral_norm,
        "frobenius": head.row_norms * head.V.norm(),
        "true": head.PV.norm(dim=1),
    }
    return {norm: error / size for norm, size in sizes.items()}


def candidates(head: Head, R: Tensor) -> dict[str, Tensor]:
    """The outputs to compare, (n, d) each, by name: the proof's construction, also with delta = 1/n (which the proof
    names too) and 1, step 2 alone, and zero (F = 0)."""
    n = R.size(1)
    deltas = {"proof, delta = 2^-n": proof_delta(n), "proof, delta = 1/n": 1 / n, "proof, delta = 1": 1.0}
    found = {name: construction(head, R, delta, head.V) for name, delta in deltas.items()}
    found["step 2 alone"] = step2(head, R)
    found["F = 0"] = torch.zeros_like(head.V)
    return found


def candidate_errors(
    heads: Sequence[Head], k: int, epsilon: float, draws: int, generator: torch.Generator
) -> dict[str, dict[str, list[float]]]:
    """Per candidate, one value per head and draw: the medians of its row errors over rows, the share of rows ``within
    eps`` of each right side, and ``same rows``: the distance of its rows from their mean over their norm (0 if every
    query has the same output)."""
    found: dict[str, dict[str, list[float]]] = {}

    def add(name: str, what: str, value: float) -> None:
        found.setdefault(name, {}).setdefault(what, []).append(value)

    for head in heads:
        for _ in range(draws):
            for name, X in candidates(head, draw(k, head.V.size(0), generator)).items():
                for norm, values in row_errors(head, X).items():
                    add(name, norm, median(values))
                    add(name, f"{norm} within eps", float((values <= epsilon).double().mean()))
                add(name, "same rows", _spread(X))
        add("P V itself", "same rows", _spread(head.PV))
    return found


def _spread(X: Tensor) -> float:
    whole = X.norm()
    return float((X - X.mean(0)).norm() / whole) if whole > 0 else 0.0


def step1(head: Head, R: Tensor, delta: float) -> dict[str, float]:
    """The two differences of step 1 over ||exp(x)||, ``needed`` and ``printed``; ``whole``, ||exp(x E^T) F V - exp(x)
    V|| over ||exp(x)|| ||V||_F: the error of all steps together, before the softmax; and ``sums``, the sum of
    exp(x E^T) over that of exp(x), which must be 1 for the softmax to follow. Medians over rows. The proof needs that
    ``needed`` goes to 0 with delta.

    All are divided by exp(max x) above and below.
    """
    A = head.A
    top = A.amax(1, keepdim=True)
    scaled = torch.exp(A - top)  # exp(x) / exp(max x)
    size = scaled.norm(dim=1)
    scores = delta * A @ R.T
    projected = torch.exp(scores - top)  # exp(x E^T)
    needed = projected - scaled @ R.T
    printed = projected - (torch.exp(delta * A) @ R.T) * torch.exp(-top)
    whole = projected @ (math.exp(-delta) * R @ head.V) - scaled @ head.V
    return {
        "needed": median(needed.norm(dim=1) / size),
        "printed": median(printed.norm(dim=1) / size),
        "whole": median(whole.norm(dim=1) / (size * head.V.norm())),
        "sums": median(torch.exp(torch.logsumexp(scores, 1) - torch.logsumexp(A, 1))),
    }


LIMIT = 1e-8
"""If max |delta A R^T| is below this, exp(delta A R^T) equals 1 to at least half of double precision's digits."""


def gamma_columns(head: Head, R: Tensor, delta: float) -> tuple[Tensor, bool]:
    """[exp(A E^T) F V, exp(A) V] (n, 2 d) up to a factor of each block, or times an invertible matrix: that changes
    neither its rank nor Gamma, which is the matrix times the inverse of 2 d of its rows.

    For tiny delta exp(delta A R^T) rounds to 1, and the first block to rank 1. That is rounding: for all delta but
    isolated ones the rank is that of a general delta (minors are analytic in delta). There the first block is replaced
    by its limit: with u, g u = 1, and N (d, d - 1), g N = 0, of g = 1^T R V, its columns times u are 1 + O(delta), and
    those times N over delta are (A R^T R V) N + O(delta).

    Returns:
        The matrix, each block of length 1, and whether it is the limit's.
    """
    scores = delta * (head.A @ R.T)
    RV = R @ head.V
    limit = float(scores.abs().max()) < LIMIT
    if limit:
        g = RV.sum(0, keepdim=True)  # (1, d)
        N = torch.linalg.svd(g).Vh[1:].T  # (d, d - 1)
        first = [torch.ones(head.A.size(0), 1, dtype=RV.dtype), head.A @ (R.T @ (RV @ N))]
    else:
        first = [torch.exp(scores - scores.max()) @ RV]
    blocks = [block / block.norm() for block in (*first, torch.exp(head.A - head.A.max()) @ head.V)]
    return torch.cat(blocks, 1), limit


def gamma(M: Tensor, rows: Tensor) -> Tensor:
    """Gamma (n, 2 d): M times the inverse of its 2 d ``rows``."""
    return torch.linalg.solve(M[rows].T, M.T).T


def step3(head: Head, R: Tensor, delta: float, generator: torch.Generator) -> dict[str, float]:
    """Whether Gamma exists, and the norm of its longest row.

    Returns:
        ``rank`` (numerical) of the matrix of ``gamma_columns``, ``wanted``: 2 d, ``limit``: 1 if the matrix is the
        limit's, and the norm of Gamma's longest row: ``longest``, with the 2 d rows selected by a pivoted QR, and
        ``longest_random``, at random; infinite if the rank is below 2 d.
    """
    from scipy.linalg import qr

    d = head.V.size(1)
    M, limit = gamma_columns(head, R, delta)
    rank = int(torch.linalg.matrix_rank(M))
    found = {
        "rank": float(rank),
        "wanted": 2.0 * d,
        "limit": float(limit),
        "longest": math.inf,
        "longest_random": math.inf,
    }
    if rank == 2 * d:
        pivots = torch.from_numpy(qr(M.T.numpy(), mode="r", pivoting=True)[1][: 2 * d].copy()).long()
        chance = torch.randperm(M.size(0), generator=generator)[: 2 * d]
        for name, rows in (("longest", pivots), ("longest_random", chance)):
            found[name] = float(gamma(M, rows).norm(dim=1).max())
    return found


def needed_k(head: Head, ks: Sequence[int], epsilon: float, draws: int, generator: torch.Generator) -> dict[str, float]:
    """The smallest of ``ks`` with which step 2 alone holds for all n rows at once in 90 % of the draws; infinite
    if none does. ``spectral`` and ``frobenius`` as in ``row_errors``."""
    found = {"spectral": math.inf, "frobenius": math.inf}
    for k in ks:
        holds = dict.fromkeys(found, 0)
        for _ in range(draws):
            worst = row_errors(head, step2(head, draw(k, head.V.size(0), generator)))
            for name in holds:
                holds[name] += int(worst[name].max() <= epsilon)
        for name, count in holds.items():
            if count >= 0.9 * draws and found[name] == math.inf:
                found[name] = float(k)
        if math.inf not in found.values():
            break
    return found


@dataclass(frozen=True)
class StatedK:
    """The theorem's k, with 1 for both Theta.

    Attributes:
        of_d: 9 d log(d) / eps^2, the branch that is independent of n.
        of_n: 5 log(n) / eps^2.
    """

    of_d: float
    of_n: float

    @property
    def k(self) -> float:
        """The smaller one: that of n unless n > exp(9 d log(d) / 5), which is e^30 for d = 8 and e^479 for d = 64."""
        return min(self.of_d, self.of_n)


def stated_k(n: int, d: int, epsilon: float) -> StatedK:
    """Both branches of k = min{Theta(9 d log(d) / eps^2), 5 Theta(log(n) / eps^2)}."""
    return StatedK(9 * d * math.log(d) / epsilon**2, 5 * math.log(n) / epsilon**2)
