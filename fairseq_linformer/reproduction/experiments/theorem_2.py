"""Theorem 2: how close linear attention is to attention with the E and F of the proof, at the theorem's own k.

Usage:

    fairseq-linformer reproduce theorem-2 --scale cpu
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...analysis import theorem2
from ..claim import Claim
from ..records import Measurement, Record
from ..report.charts import Chart, Series
from ..rules import rule
from ..statistics import FAILS, HOLDS, UNDECIDED, Check
from ..theorem_experiment import EPSILON, TheoremExperiment, share_measurement, summary_measurements

PROOF, NOTHING = "proof, delta = 2^-n", "F = 0"
"""Approximations of P V, as ``analysis.theorem2.candidates`` names them."""
MIN_SHARE = 0.9
"""Share of the rows that must meet the bound of the theorem."""


def measurements(numbers: Mapping[str, Any], source: str) -> Iterator[Measurement]:
    found = numbers["theorem2"]
    for row in found["errors"]:
        at = {"source": source, "n": row["n"], "head_dim": row["d"], "k": row["k"]}
        for approximation, cells in row["candidates"].items():
            for what, summary in cells.items():
                unit = (
                    "share of rows, mean over heads and draws"
                    if "within" in what
                    else "ratio, median over heads and draws"
                )
                yield from summary_measurements(
                    what.replace(" ", "_"), summary, unit, approximation=approximation, **at
                )
    for step in ("step1", "step3"):
        for row in found[step]:
            at = {"source": source, "n": row["n"], "head_dim": row["d"], "k": row["k"], "delta": row["delta"]}
            for what, summary in row.items():
                if isinstance(summary, Mapping):
                    yield from summary_measurements(
                        what, summary, "as theorem2.py has it; median over heads and draws", **at
                    )
                    if what.startswith("longest") and summary["count"] == summary["of"]:
                        yield share_measurement(what, summary, **at)
    for row in found["needed_k"]:
        for norm in ("frobenius", "spectral"):
            at = {"source": source, "n": row["n"], "head_dim": row["d"]}
            yield from summary_measurements(f"k_needed_{norm}", row[norm], "k, median over heads", **at)
            if row[norm]["count"] == row[norm]["of"]:
                yield share_measurement(f"k_needed_{norm}", row[norm], **at)


def at_stated_k(record: Record, norm: str) -> list[tuple[Measurement, theorem2.StatedK]]:
    """Shares of rows within eps, with the E and F of the proof at the theorem's own k of each head."""
    shares = record.select(f"{norm}_within_eps", approximation=PROOF)
    stated = [(m, theorem2.stated_k(m.n, m.head_dim, EPSILON)) for m in shares]
    return [(m, each) for m, each in stated if m.k == math.ceil(each.k)]


def build_checks(norm: str) -> Callable[[Record], list[Check]]:
    """The rule with ||V|| as this norm, ``spectral`` or ``frobenius``."""

    def checks(record: Record) -> list[Check]:
        found = []
        for m, _ in at_stated_k(record, norm):
            at = {"source": m.source, "n": m.n, "head_dim": m.head_dim, "k": m.k}
            nothing = record.find(f"{norm}_within_eps", approximation=NOTHING, **at)
            text = f"{m.source}, n = {m.n}, k = {m.k}: {m.value:.2f} of rows; needs ≥ {MIN_SHARE}"
            if nothing is None:
                found.append(Check(FAILS if m.value < MIN_SHARE else UNDECIDED, f"{text}; F = 0 is not measured"))
                continue
            is_vacuous = nothing.value >= MIN_SHARE
            outcome = FAILS if m.value < MIN_SHARE else UNDECIDED if is_vacuous else HOLDS
            found.append(
                Check(outcome, f"{text}; F = 0: {nothing.value:.2f}" + ", so passing says nothing" * is_vacuous)
            )
        return found

    return checks


def build_branch_remarks(norm: str) -> Callable[[Record], list[str]]:
    """Which of the theorem's two expressions gives k, of each n and d."""

    def branches(record: Record) -> list[str]:
        longest = max((m.n for m in record.select(f"{norm}_within_eps")), default=0)
        return [f"n = {m.n}, d = {m.head_dim}: {_branch(m.k, each, longest)}" for m, each in at_stated_k(record, norm)]

    return branches


def _branch(k: int, stated: theorem2.StatedK, longest: int) -> str:
    """Which expression gives k, and what the one without n would give."""
    if stated.of_d < stated.of_n:
        return f"k = {k} is 9 d log(d) / eps^2, the branch that does not depend on n"
    than = "above every n" if stated.of_d > longest else "not above every n"
    return f"k = {k} is 5 log(n) / eps^2; 9 d log(d) / eps^2 is {stated.of_d:,.0f}, {than} that was measured"


def chart(record: Record) -> list[Chart]:
    """Rows within eps by k, with the E and F of the proof, and with F = 0."""
    lines: dict[tuple, list] = {}
    for m in record.select("spectral_within_eps"):
        if m.approximation in (PROOF, NOTHING) and m.source in ("random", "RoBERTa"):
            lines.setdefault((m.source, m.n, m.approximation), []).append((m.k, m.value))
    series = [
        Series(f"{source}, n = {n}, {approximation}", [sorted(points)])
        for (source, n, approximation), points in lines.items()
    ]
    title = f"Theorem 2, eps = {EPSILON}, {record.identifier}"
    return (
        [Chart(f"rows-{record.identifier}", title, "k", "share of rows within eps", series, log_x=True)]
        if series
        else []
    )


_RULE = (
    "E and F of the proof, eps = 0.5, at the theorem's own k with 1 for both Theta. "
    f"Holds if in every head at least {MIN_SHARE} of the rows are within eps ||P_i|| ||V||_{{norm}}; does not hold if "
    f"fewer are in one; not enough evidence if F = 0, no attention at all, has at least {MIN_SHARE} of the rows there "
    "too: such a bound says nothing."
)
_STATED = "At the theorem's own k with 1 for both Theta, eps = 0.5 and the delta of the proof: holds if for all heads "
_BRANCHES = (
    "Each number says which of the two k is; where it is that of n, a k that does not depend on n is not what was "
    "tested. (Written when an earlier measurement was known.)"
)
_BOTH_NORMS = (
    f"{_STATED}{MIN_SHARE} of the rows are within eps of ||P_i|| ||V||_2; does not hold if fewer are for some. (The "
    "theorem says that there are such E and F, for which its proof gives these, and does not say which norm: those of "
    f"||P_i|| ||V||_F are told.) {_BRANCHES}"
)
CLAIMS = (
    Claim(
        "theorem-2",
        "Theorem 2, appendix B; ||V|| as the spectral norm",
        "The proof's E and F leave each row of attention within eps ||P_i|| ||V||_2.",
        _RULE.format(norm="2"),
        rule("theorem-2", "theorem-2*", build_checks("spectral"), build_branch_remarks("spectral")),
    ),
    Claim(
        "theorem-2-frobenius",
        "Theorem 2, appendix B; ||V|| as the Frobenius norm",
        "The proof's E and F leave each row of attention within eps ||P_i|| ||V||_F.",
        _RULE.format(norm="F"),
        rule("theorem-2", "theorem-2*", build_checks("frobenius"), build_branch_remarks("frobenius")),
    ),
)
EXPERIMENTS = (
    TheoremExperiment(
        "theorem-2",
        "Theorem 2",
        CLAIMS,
        measurements,
        "softmax(Q (E K)^T) F V with E = delta R, F = exp(-delta) R against softmax(Q K^T) V: medians of row errors, "
        "and the proof's steps",
        "Theorem 2 and appendix B; proved, not measured",
        "theorem2",
        chart,
    ),
)
