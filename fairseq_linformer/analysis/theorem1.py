"""Theorem 1 of the paper and the Johnson-Lindenstrauss lemma under it, in numbers.

    n positions, d columns of V W^V, k rows of R, whose entries are N(0, 1/k)

The proof (appendix A): for a row u of P and a column w of V W^V, Lemma 1 gives

    Pr(||u R^T R w - u w|| <= eps ||u w||) > 1 - 2 exp(-(eps^2 - eps^3) k / 4)                          (printed)

and a union bound over the n rows Pr(||P R^T R w - P w|| <= eps ||P w||) > 1 - 2 n exp(-(eps^2 - eps^3) k / 4), with
k = 5 log(n) / (eps^2 - eps^3). What Johnson-Lindenstrauss says of an inner product has the lengths on the right side,

    |u R^T R w - u w| <= eps ||u|| ||w||                                                                (of lengths)

and that is less: ||u|| ||w|| can be many times |u w|. (The lemma's other half, Pr(||R w|| <= (1 + eps) ||w||) > 1 -
exp(-(eps^2 - eps^3) k / 4), is measured too.) For R of Gaussians the error is known exactly,

    E ||P R^T R w - P w||^2 = (||P||_F^2 ||w||^2 + ||P w||^2) / k,

so that k must be about (c + 1) / eps^2 with c = ||P||_F^2 ||w||^2 / ||P w||^2, whatever log(n) is.
"""

import math
from typing import Dict, Sequence

import torch
from torch import Tensor

from .samples import median


def exponent(epsilon: float) -> float:
    """eps^2 - eps^3.

    Raises:
        ValueError: eps is not above 0 and below 1; elsewhere the difference is not positive.
    """
    if not 0 < epsilon < 1:
        raise ValueError(f"eps is {epsilon:g}; it must be above 0 and below 1")
    return epsilon**2 - epsilon**3


def lemma_bound(k: int, epsilon: float) -> float:
    """1 - 2 exp(-(eps^2 - eps^3) k / 4): the probability that the lemma gives for one pair, 0 where it says nothing."""
    return theorem_bound(1, k, epsilon)


def theorem_bound(n: int, k: int, epsilon: float) -> float:
    """1 - 2 n exp(-(eps^2 - eps^3) k / 4): the proof's, 0 where it says nothing."""
    return max(0.0, 1 - 2 * n * math.exp(-exponent(epsilon) * k / 4))


def norm_bound(k: int, epsilon: float) -> float:
    """1 - exp(-(eps^2 - eps^3) k / 4): the probability that the lemma gives for ||R w|| <= (1 + eps) ||w||."""
    return 1 - math.exp(-exponent(epsilon) * k / 4)


def stated_k(n: int, epsilon: float) -> float:
    """5 log(n) / (eps^2 - eps^3): the theorem's k."""
    return 5 * math.log(n) / exponent(epsilon)


MEASURED = ("theorem", "lengths", "pair", "pair_lengths", "norms")
"""Inequalities whose probability is measured; see ``probabilities``."""


def probabilities(
    P: Tensor, W: Tensor, ks: Sequence[int], epsilons: Sequence[float], draws: int, generator: torch.Generator
) -> Dict[str, Tensor]:
    """Measure the probabilities. A draw of R for the largest k has those for smaller k in its first rows.

    Args:
        P: (n, n).
        W: (n, d), the columns w; u are the rows of P.
        ks: rising.
        draws: samples of R.

    Returns:
        (draws, ks, epsilons) each, the share of columns w (for pairs: of columns w and rows u) for which it holds:
            ``theorem``: ||P R^T R w - P w|| <= eps ||P w||;
            ``lengths``: ||P R^T R w - P w|| <= eps ||P||_F ||w||;
            ``pair``: |u R^T R w - u w| <= eps |u w|, the lemma as printed;
            ``pair_lengths``: |u R^T R w - u w| <= eps ||u|| ||w||;
            ``norms``: ||R w|| <= (1 + eps) ||w||, the lemma's other half;
        ``squared_error``: (draws, ks) mean of ||P R^T R w - P w||^2 / ||P w||^2, and ``expected_error``: (ks,) its mean
            over R by the
        formula above; ``stretch``: () median over w of ||P||_F ||w|| / ||P w||, the root of c above.

    Raises:
        ValueError: ks are not rising numbers from 1 on, an eps is not between 0 and 1, or there are no draws.
    """
    if not ks or list(ks) != sorted(set(ks)) or ks[0] < 1:
        raise ValueError(f"k is {list(ks)}; it must be rising numbers from 1 on")
    if draws < 1:
        raise ValueError(f"draws is {draws}; it must be at least 1")
    for epsilon in epsilons:
        exponent(epsilon)
    eps = torch.tensor(epsilons, dtype=P.dtype)
    PW = P @ W  # (n, d)
    whole, column_lengths = PW.norm(dim=0), W.norm(dim=0)  # (d,)
    lengths, row_lengths = P.norm() * column_lengths, P.norm(dim=1, keepdim=True) * column_lengths  # (d,), (n, d)
    counts = torch.zeros(len(MEASURED), draws, len(ks), len(epsilons), dtype=P.dtype)
    squared = torch.zeros(draws, len(ks), dtype=P.dtype)
    for draw in range(draws):
        # Of the rows of Z so far: Z^T Z W, and the squares of Z W.
        sums, norms, begin = torch.zeros_like(W), torch.zeros_like(whole), 0
        for i, k in enumerate(ks):
            Z = torch.randn(k - begin, P.size(1), generator=generator, dtype=P.dtype)
            ZW = Z @ W
            sums += Z.T @ ZW
            norms += ZW.square().sum(0)
            begin = k
            error = (P @ (sums / k) - PW).abs()  # R = Z / sqrt(k)
            sizes = error.norm(dim=0)
            sides = ((sizes, whole), (sizes, lengths), (error, PW.abs()), (error, row_lengths))
            for j, (size, limit) in enumerate(sides):
                counts[j, draw, i] = _share(size.unsqueeze(-1) <= eps * limit.unsqueeze(-1))
            counts[4, draw, i] = _share((norms / k).sqrt().unsqueeze(-1) <= (1 + eps) * column_lengths.unsqueeze(-1))
            squared[draw, i] = (sizes / whole).square().mean()
    ratio = lengths / whole
    expected = torch.tensor([float((ratio.square() + 1).mean()) / k for k in ks], dtype=P.dtype)
    found = dict(zip(MEASURED, counts))
    return {**found, "squared_error": squared, "expected_error": expected,
            "stretch": torch.tensor(median(ratio), dtype=P.dtype)}  # fmt: skip


def _share(holds: Tensor) -> Tensor:
    """(..., epsilons) to the shares (epsilons,)."""
    return holds.double().flatten(0, -2).mean(0)
