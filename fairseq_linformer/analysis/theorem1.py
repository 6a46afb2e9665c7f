"""Theorem 1 of the paper and the Johnson-Lindenstrauss lemma in its proof, measured.

    n positions, d columns of V W^V, k rows of R, whose entries are N(0, 1/k)

The proof (appendix A): for a row u of P and a column w of V W^V, Lemma 1 gives

    Pr(||u R^T R w - u w|| <= eps ||u w||) > 1 - 2 exp(-(eps^2 - eps^3) k / 4)                          (printed)

and a union bound over the n rows Pr(||P R^T R w - P w|| <= eps ||P w||) > 1 - 2 n exp(-(eps^2 - eps^3) k / 4), with
k = 5 log(n) / (eps^2 - eps^3). Johnson-Lindenstrauss bounds the error of an inner product by the norms,

    |u R^T R w - u w| <= eps ||u|| ||w||                                                                (norms)

which is weaker: ||u|| ||w|| can be many times |u w|. For Gaussian R the expected error is known exactly,

    E ||P R^T R w - P w||^2 = (||P||_F^2 ||w||^2 + ||P w||^2) / k,

so k must be about (c + 1) / eps^2 with c = ||P||_F^2 ||w||^2 / ||P w||^2, independently of log(n).

The theorem itself says that for any w there is a P~ of rank Theta(log(n)) with P~ w near P w. Read literally, a rank of
1 is enough, P w w^T / ||w||^2; and d for all columns of V' = V W^V together, P V' V'^+. It constrains P only if P~ does
not depend on V W^V, as in the proof. Of all matrices of rank k, P_k, the first k singular values and vectors of P, then
has the smallest mean ||P~ w - P w||^2 over w of N(0, I) (Eckart and Young 1936); ``best_rank_shares`` measures how
often P_k is near enough.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .heads import Head


def exponent(epsilon: float) -> float:
    """eps^2 - eps^3, which is positive for eps between 0 and 1."""
    return epsilon**2 - epsilon**3


def theorem_bound(n: int, k: int, epsilon: float) -> float:
    """The proof's lower bound on the probability, 1 - 2 n exp(-(eps^2 - eps^3) k / 4), at least 0."""
    return max(0.0, 1 - 2 * n * math.exp(-exponent(epsilon) * k / 4))


def stated_k(n: int, epsilon: float) -> float:
    """The theorem's k, 5 log(n) / (eps^2 - eps^3)."""
    return 5 * math.log(n) / exponent(epsilon)


def probabilities(
    head: Head, ks: Sequence[int], epsilons: Sequence[float], draws: int, generator: torch.Generator
) -> Tensor:
    """Measure how often ||P R^T R w - P w|| <= eps ||P w||. A draw of R for the largest k contains those for smaller k.

    Args:
        ks: increasing.
        draws: samples of R.

    Returns:
        (draws, ks, epsilons): the share of columns w of V.
    """
    P, W = head.P, head.V  # (n, n), (n, d)
    lengths = head.PV.norm(dim=0)  # (d,)
    shares = torch.zeros(draws, len(ks), len(epsilons), dtype=P.dtype)
    for draw in range(draws):
        ZtZW, num_rows = torch.zeros_like(W), 0  # Z^T Z W for the rows of Z so far
        for i, k in enumerate(ks):
            Z = torch.randn(k - num_rows, P.size(1), generator=generator, dtype=P.dtype)
            ZtZW += Z.T @ (Z @ W)
            num_rows = k
            errors = (P @ (ZtZW / k) - head.PV).norm(dim=0)  # R = Z / sqrt(k)
            for j, epsilon in enumerate(epsilons):
                shares[draw, i, j] = (errors <= epsilon * lengths).double().mean()
    return shares


def best_rank_shares(head: Head, epsilons: Sequence[float]) -> dict[float, tuple[int, float]]:
    """How often the best approximation of P is near enough at the theorem's k.

    Returns:
        By eps, k = ``stated_k`` rounded up, and the share of columns w of V with ||P_k w - P w|| <= eps ||P w||. An eps
        at which k is at least n is skipped: P itself is of that rank.
    """
    _, s, Vh = torch.linalg.svd(head.P)  # singular values, the largest first
    n, lengths = len(s), head.PV.norm(dim=0)
    found = {}
    for epsilon in epsilons:
        if (k := math.ceil(stated_k(n, epsilon))) < n:
            errors = (s[k:, None] * (Vh[k:] @ head.V)).norm(dim=0)  # (d,); U does not change lengths
            found[epsilon] = (k, float((errors <= epsilon * lengths).double().mean()))
    return found
