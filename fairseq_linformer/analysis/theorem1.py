"""Theorem 1 of the paper and the Johnson-Lindenstrauss lemma in its proof, measured.

    n positions, d columns of V W^V, k rows of R, whose entries are N(0, 1/k)

The proof (appendix A): for a row u of P and a column w of V W^V, Lemma 1 gives

    Pr(||u R^T R w - u w|| <= eps ||u w||) > 1 - 2 exp(-(eps^2 - eps^3) k / 4)                          (printed)

and a union bound over the n rows Pr(||P R^T R w - P w|| <= eps ||P w||) > 1 - 2 n exp(-(eps^2 - eps^3) k / 4), with
k = 5 log(n) / (eps^2 - eps^3). Johnson-Lindenstrauss bounds the error of an inner product by the norms,

    |u R^T R w - u w| <= eps ||u|| ||w||                                                                (norms)

which is weaker: ||u|| ||w|| can be many times |u w|. (The lemma's other half, Pr(||R w|| <= (1 + eps) ||w||) > 1 -
exp(-(eps^2 - eps^3) k / 4), is measured too.) For Gaussian R the expected error is known exactly,

    E ||P R^T R w - P w||^2 = (||P||_F^2 ||w||^2 + ||P w||^2) / k,

so k must be about (c + 1) / eps^2 with c = ||P||_F^2 ||w||^2 / ||P w||^2, independently of log(n).

The theorem itself says that for any w there is a P~ of rank Theta(log(n)) with P~ w near P w. Read literally, a rank of
1 is enough: P w w^T / ||w||^2; and one of d for all columns of V W^V together. It constrains P only if P~ is chosen
before w. Of all matrices of rank k, P_k, the first k singular values and vectors of P, then has the smallest mean
||P~ w - P w||^2 over w of N(0, I) (Eckart and Young 1936); ``best_rank_shares`` measures how often P_k is near enough.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .heads import Head
from .samples import median


def exponent(epsilon: float) -> float:
    """eps^2 - eps^3.

    Raises:
        ValueError: eps is not above 0 and below 1, where the difference is positive.
    """
    if not 0 < epsilon < 1:
        raise ValueError(f"eps must be above 0 and below 1, got {epsilon:g}")
    return epsilon**2 - epsilon**3


def theorem_bound(n: int, k: int, epsilon: float) -> float:
    """The proof's lower bound on the probability, 1 - 2 n exp(-(eps^2 - eps^3) k / 4), at least 0."""
    return max(0.0, 1 - 2 * n * math.exp(-exponent(epsilon) * k / 4))


def stated_k(n: int, epsilon: float) -> float:
    """The theorem's k, 5 log(n) / (eps^2 - eps^3)."""
    return 5 * math.log(n) / exponent(epsilon)


MEASURED = ("theorem", "lengths", "pair", "pair_lengths", "norms")
"""The inequalities whose probability ``probabilities`` measures."""


def probabilities(
    P: Tensor, W: Tensor, ks: Sequence[int], epsilons: Sequence[float], draws: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """Measure how often each inequality holds. A draw of R for the largest k contains those for smaller k.

    Args:
        P: (n, n).
        W: (n, d), whose columns are w; u are the rows of P.
        ks: increasing.
        draws: samples of R.

    Returns:
        (draws, ks, epsilons) each, the share of columns w (for pairs: of columns w and rows u) that satisfy

        - ``theorem``: ||P R^T R w - P w|| <= eps ||P w||;
        - ``lengths``: ||P R^T R w - P w|| <= eps ||P||_F ||w||;
        - ``pair``: |u R^T R w - u w| <= eps |u w|, the lemma as printed;
        - ``pair_lengths``: |u R^T R w - u w| <= eps ||u|| ||w||;
        - ``norms``: ||R w|| <= (1 + eps) ||w||, the lemma's other half.

        ``squared_error``: (draws, ks), the mean over w of ||P R^T R w - P w||^2 / ||P w||^2; ``expected_error``: (ks,),
        its expectation by the formula above; ``stretch``: (), the median over w of ||P||_F ||w|| / ||P w|| = sqrt(c).

    Raises:
        ValueError: ks are not increasing integers of at least 1, an eps is not between 0 and 1, or draws is below 1.
    """
    if not ks or list(ks) != sorted(set(ks)) or ks[0] < 1:
        raise ValueError(f"k must be increasing integers of at least 1, got {list(ks)}")
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    for epsilon in epsilons:
        exponent(epsilon)
    eps = torch.tensor(epsilons, dtype=P.dtype)
    PW = P @ W  # (n, d)
    PW_norms, W_norms = PW.norm(dim=0), W.norm(dim=0)  # (d,)
    norm_products = P.norm() * W_norms  # (d,)
    pair_norm_products = P.norm(dim=1, keepdim=True) * W_norms  # (n, d)
    counts = torch.zeros(len(MEASURED), draws, len(ks), len(epsilons), dtype=P.dtype)
    squared = torch.zeros(draws, len(ks), dtype=P.dtype)
    for draw in range(draws):
        # Z^T Z W and the squared norms of the columns of Z W, for the rows of Z so far
        ZtZW, squared_norms, num_rows = torch.zeros_like(W), torch.zeros_like(W_norms), 0
        for i, k in enumerate(ks):
            Z = torch.randn(k - num_rows, P.size(1), generator=generator, dtype=P.dtype)
            ZW = Z @ W
            ZtZW += Z.T @ ZW
            squared_norms += ZW.square().sum(0)
            num_rows = k
            pair_errors = (P @ (ZtZW / k) - PW).abs()  # R = Z / sqrt(k)
            errors = pair_errors.norm(dim=0)
            inequalities = (
                (errors, PW_norms),
                (errors, norm_products),
                (pair_errors, PW.abs()),
                (pair_errors, pair_norm_products),
            )
            for j, (error, size) in enumerate(inequalities):
                counts[j, draw, i] = _share(error.unsqueeze(-1) <= eps * size.unsqueeze(-1))
            RW_norms = (squared_norms / k).sqrt()
            counts[4, draw, i] = _share(RW_norms.unsqueeze(-1) <= (1 + eps) * W_norms.unsqueeze(-1))
            squared[draw, i] = (errors / PW_norms).square().mean()
    ratio = norm_products / PW_norms
    expected = torch.tensor([float((ratio.square() + 1).mean()) / k for k in ks], dtype=P.dtype)
    return {
        **dict(zip(MEASURED, counts)),
        "squared_error": squared,
        "expected_error": expected,
        "stretch": torch.tensor(median(ratio), dtype=P.dtype),
    }


def _share(holds: Tensor) -> Tensor:
    """(..., epsilons) to the share of True (epsilons,)."""
    return holds.double().flatten(0, -2).mean(0)


def best_rank_shares(head: Head, epsilons: Sequence[float]) -> dict[float, tuple[int, float]]:
    """How often the best approximation of P is near enough at the theorem's k.

    Returns:
        By eps, k = ``stated_k`` rounded up, and the share of columns w of V with ||P_k w - P w|| <= eps ||P w||. An eps
        at which k is at least n is skipped: P itself is of that rank.
    """
    _, s, Vh = head.svd
    n, lengths = len(s), head.PV.norm(dim=0)
    found = {}
    for epsilon in epsilons:
        if (k := math.ceil(stated_k(n, epsilon))) < n:
            errors = (s[k:, None] * (Vh[k:] @ head.V)).norm(dim=0)  # (d,); U does not change lengths
            found[epsilon] = (k, float((errors <= epsilon * lengths).double().mean()))
    return found
