"""Whether the proof's E and F leave each row of attention within eps ||P_i|| ||V||, at the theorem's own k.

softmax(Q (E K)^T) F V with E = delta R, F = exp(-delta) R of the proof against softmax(Q K^T) V, on random heads; eps =
0.5. The theorem does not say which norm of V it means, so there are two claims. Holds if of the head of each n at least
0.9 of the rows are within eps at the k of Theta = 1; does not hold if fewer are in one; in both cases not enough
evidence if F = 0, no attention at all, has at least 0.9 of the rows there too: such a bound separates nothing, and
whether the proof's E and F meet it depends on Theta, a constant that the theorem leaves open. The table has every k. (F
= 0 did not count when this was measured; then ||V||_2 did not hold.) delta is 2^-n, one of the paper's three values:
with it every query gets the same output, the mean of the rows of F V.

k is Theta times 9 d log(d) / eps^2 or 5 log(n) / eps^2, whichever is smaller. The first is 9,582 with d = 64, so at
every n measured k is the second, that of n: whether k can be independent of n was not tested.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import fmean

import torch

from ...analysis import theorem2
from ...analysis.heads import build_heads, powers_of_two, random_head
from ..page import Table
from ..result import Inputs, Parts, Result, Row, Rows, join, repeated
from ..verdict import UNDECIDED, Check, Verdict, decide
from .theorem_1 import EPSILON, SEED, SIZES, measure_heads

TITLE, WHERE = "Theorem 2", "Theorem 2, appendix B"
SAYS = "linear attention: E and F of a k that does not depend on n"
PARTS: Parts = {scale: {"heads": ()} for scale in SIZES}
PROOF, NOTHING = "proof, delta = 2^-n", "F = 0"
"""Approximations of P V, as ``analysis.theorem2.shares_within`` names them."""
MIN_K = 16
MIN_SHARE = 0.9
NORMS = {"spectral": "2", "frobenius": "F"}


def run(inputs: Inputs) -> Result:
    return measure_heads(inputs, measure)


def measure(lengths: list[int], width: int, draws: int) -> Iterator[Row]:
    """The share of rows within eps with the proof's E and F, and with F = 0, at each k; over a tenth of the draws, at
    least 3."""
    generator = torch.Generator().manual_seed(SEED + 1)  # R is independent of the heads
    for n, head in zip(lengths, build_heads(random_head, lengths, width, SEED)):
        stated = math.ceil(min(theorem2.stated_k(n, width, EPSILON)))
        for k in sorted({*powers_of_two(MIN_K, n), min(n, stated)}):
            shares = theorem2.shares_within(head, k, EPSILON, max(3, draws // 10), generator)
            for approximation, norm in itertools.product((PROOF, NOTHING), NORMS):
                found = {**repeated(shares[approximation][norm], fmean), "unit": "share of rows, mean over draws"}
                at = {"approximation": approximation, "source": "random", "n": n, "head_dim": width, "k": k}
                yield Row(metric=f"{norm}_within_eps", **found, **at)


def k_of(row: Row) -> int:
    """The theorem's own k, with Theta = 1."""
    return math.ceil(min(theorem2.stated_k(row.n, row.head_dim, EPSILON)))


def norm_checks(rows: Rows, norm: str) -> list[Check]:
    """At the theorem's own k, the share of rows within eps with the E and F of the proof; F = 0 must not reach it."""
    checks = []
    shares_of = (rows.select(f"{norm}_within_eps", approximation=each) for each in (PROOF, NOTHING))
    for row, nothing in zip(*shares_of, strict=True):
        if row.k != k_of(row):
            continue
        shares = f"{row.value:.2f} of rows; needs ≥ {MIN_SHARE}; F = 0: {nothing.value:.2f}"
        text = f"{row.source}, n = {row.n}, k = {row.k}: {shares}"
        if nothing.value >= MIN_SHARE:
            checks.append(Check(UNDECIDED, f"{text}, so the bound separates nothing"))
        else:
            checks.append(decide(row.value >= MIN_SHARE, text))
    return checks


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows = join(results)
    return [
        Verdict(
            f"||V||_{letter}",
            f"With Theta = 1 the proof's E and F leave each row of attention within eps ||P_i|| ||V||_{letter}.",
            norm_checks(rows, norm),
        )
        for norm, letter in NORMS.items()
    ]


def tables(results: Sequence[Result]) -> list[Table]:
    """Every k, also those that another Theta would give."""
    rows = join(results)
    columns = [rows.select(f"{norm}_within_eps", approximation=each) for norm in NORMS for each in (PROOF, NOTHING)]
    cells = [
        [f"{found[0].n:,}", f"{found[0].k:,}", f"{found[0].k / k_of(found[0]):.2f}", *(f"{r.value:.2f}" for r in found)]
        for found in zip(*columns, strict=True)
    ]
    title = (
        f"Share of the rows i of attention with an error of at most eps ||P_i|| ||V||, eps = {EPSILON}, on random "
        "Q, K and V; mean over draws of R, the random k x n matrix of the proof's E and F"
    )
    heads = [f"||V||_{letter}, {name}" for letter in NORMS.values() for name in ("proof", NOTHING)]
    return [Table(title, ["n", "k", "Theta", *heads], cells)]
