"""Theorem 2 of the paper, and the E and F of its proof (appendix B), measured.

    n positions, d width of a head, k rows of R, whose entries are N(0, 1/k); A = Q K^T / sqrt(d); x is a row of A

The claim: for every row, ||softmax(x E^T) F V - softmax(x) V|| <= eps ||softmax(x)|| ||V||, with
k = min{Theta(9 d log(d) / eps^2), 5 Theta(log(n) / eps^2)}; in the proof E = delta R, F = exp(-delta) R, delta = 2^-n.
(The theorem does not say which norm of V; both are here. Section 4 says k = O(d / eps^2) in words, and appendix B uses
5 log(n d) / (eps^2 - eps^3) and 9 log(d) / (eps^2 - eps^3).)

F = 0, no attention at all, has the error ||P_i V||, so it meets the claim with eps = 1, and on random heads with 0.5:
there the claim separates nothing, whether or not the proof's E and F meet it at some constant of Theta.

The steps of the proof:

1. exp(x E^T) F is replaced by exp(x) R^T R, because ||exp(x E^T) - exp(x) R^T|| = o(||exp(x)||). The proof instead
   shows ||exp(delta x R^T) - exp(delta x) R^T|| = o(||exp(x)||) for small delta, which does not imply it.
2. ||exp(x) R^T R y - exp(x) y|| <= eps ||exp(x)|| ||y||: Johnson-Lindenstrauss.
3. From 2 d rows to all: [exp(A E^T) F V, exp(A) V] = Gamma times its rows for A_s, which must be of rank 2 d, and
   Gamma's rows must be no longer than of the order of d.

Gaps in the proof, besides step 1:

(a) It ends at ||exp(A_i E^T) F V - exp(A_i) V|| and never reaches the softmax in the theorem. One side is
    divided by a sum of k exponentials, the other by one of n; where the proof's end held, the outputs would differ by
    the ratio of these sums, whatever eps.
(b) Its last line is eps Theta(d) ||exp(A^s)|| ||V||: a factor of d, and the norm of 2 d other rows in place of
    ||exp(A_i)||. Absorbing the factor into eps requires k of order d^2 log(d), not d log(d). (The same line drops a
    factor of up to sqrt(2 d) between a sum of norms and the norm.)
(c) Its first display claims an error of eps ||exp(x) y||, the norm of the product, and derives eps ||exp(x)|| ||y||,
    the product of the norms, as in theorem 1.
(d) Its step (a) drops exp(-delta): exp(x E^T) F = exp(-delta) exp(x E^T) R. That is harmless for small delta.
"""

import math

import torch
from torch import Tensor

from .heads import Head


def draw(k: int, n: int, generator: torch.Generator) -> Tensor:
    """R: (k, n), N(0, 1/k)."""
    return torch.randn(k, n, generator=generator, dtype=torch.float64) / math.sqrt(k)


def construction(head: Head, R: Tensor) -> Tensor:
    """The proof's approximation of P V, (n, d): softmax(A E^T) F V, E = delta R, F = exp(-delta) R and delta = 2^-n.

    delta is 0 in double precision from n = 1,075 on.
    """
    delta = 2.0 ** -R.size(1)
    return torch.softmax(head.A @ (delta * R).T, -1) @ (math.exp(-delta) * R @ head.V)


def row_errors(head: Head, X: Tensor) -> dict[str, Tensor]:
    """||X_i - P_i V|| of each row of an approximation X (n, d) of P V, (n,) each, over the theorem's right side:
    ||P_i|| ||V||_2 (``spectral``) and ||P_i|| ||V||_F (``frobenius``)."""
    error = (X - head.PV).norm(dim=1)
    sizes = {"spectral": torch.linalg.matrix_norm(head.V, 2), "frobenius": head.V.norm()}
    return {norm: error / (head.P.norm(dim=1) * size) for norm, size in sizes.items()}


def shares_within(
    head: Head, k: int, epsilon: float, draws: int, generator: torch.Generator
) -> dict[str, dict[str, list[float]]]:
    """The share of rows within eps in each draw of R, by output, the proof's construction or zero (F = 0), and by norm
    of V."""
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(draws):
        R = draw(k, head.V.size(0), generator)
        for name, X in {"proof, delta = 2^-n": construction(head, R), "F = 0": torch.zeros_like(head.V)}.items():
            for norm, errors in row_errors(head, X).items():
                share = float((errors <= epsilon).double().mean())
                found.setdefault(name, {}).setdefault(norm, []).append(share)
    return found


def stated_k(n: int, d: int, epsilon: float) -> tuple[float, float]:
    """Both branches of k = min{Theta(9 d log(d) / eps^2), 5 Theta(log(n) / eps^2)} with 1 for Theta.

    The smaller one is that of n unless n > exp(9 d log(d) / 5), which is e^30 for d = 8 and e^479 for d = 64.
    """
    return 9 * d * math.log(d) / epsilon**2, 5 * math.log(n) / epsilon**2
