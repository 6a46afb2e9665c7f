"""Theorem 2: how close linear attention is to attention with the E and F of the proof, at the theorem's own k.

    fairseq-linformer reproduce theorem-2 --scale cpu
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ...analysis import theorem2
from ..cells import rule
from ..records import Measurement, Record
from ..registry import Claim
from ..report.charts import Chart, Series
from ..statistics import FAILS, HOLDS, Check
from .theorem_1 import EPSILON, TheoremExperiment, of_share, of_summary

PROOF, NOTHING = "proof, delta = 2^-n", "F = 0"
"""Approximations of P V, as ``analysis.theorem2.candidates`` names them."""
ALMOST_ALL = 0.9


def measurements(numbers: Mapping[str, Any], source: str) -> Iterator[Measurement]:
    found = numbers["theorem2"]
    for row in found["errors"]:
        at = {"source": source, "n": row["n"], "head_dim": row["d"], "k": row["k"]}
        for approximation, cells in row["candidates"].items():
            for what, summary in cells.items():
                unit = "share of rows, mean over heads and draws" if "within" in what else "ratio, median over heads and draws"
                yield from of_summary(what.replace(" ", "_"), summary, unit, approximation=approximation, **at)
    for step in ("step1", "step3"):
        for row in found[step]:
            at = {"source": source, "n": row["n"], "head_dim": row["d"], "k": row["k"], "delta": row["delta"]}
            for what, summary in row.items():
                if isinstance(summary, Mapping):
                    yield from of_summary(what, summary, "as theorem2.py has it; median over heads and draws", **at)
                    if what.startswith("longest") and summary["count"] == summary["of"]:
                        yield of_share(what, summary, **at)
    for row in found["needed_k"]:
        for norm in ("frobenius", "spectral"):
            at = {"source": source, "n": row["n"], "head_dim": row["d"]}
            yield from of_summary(f"k_needed_{norm}", row[norm], "k, median over heads", **at)
            if row[norm]["count"] == row[norm]["of"]:
                yield of_share(f"k_needed_{norm}", row[norm], **at)


def checks(record: Record) -> list[Check]:
    """At the theorem's own k of each head: the share of rows within eps."""
    shares = record.select("spectral_within_eps")
    longest, found = max((m.n for m in shares), default=0), []
    for m in shares:
        stated = theorem2.stated_k(m.n, m.head_dim, EPSILON)
        if m.approximation != PROOF or m.k != math.ceil(stated.k):
            continue
        at = {"source": m.source, "n": m.n, "head_dim": m.head_dim, "k": m.k}
        nothing = record.find("spectral_within_eps", approximation=NOTHING, **at)
        frobenius = record.find("frobenius_within_eps", approximation=PROOF, **at)
        beside = f"; F = 0 gives {nothing.value:.2f}" if nothing else ""
        beside += f"; of ||P_i|| ||V||_F {frobenius.value:.2f}" if frobenius else ""
        said = (f"{m.source}, n = {m.n}, d = {m.head_dim}, k = {m.k} ({_branch(stated, longest)}): {m.value:.2f} of the rows within "
                f"eps = {EPSILON} of ||P_i|| ||V||_2")  # fmt: skip
        found.append(Check(HOLDS if m.value >= ALMOST_ALL else FAILS, f"{said}, at least {ALMOST_ALL} wanted{beside}"))
    return found


def _branch(stated: theorem2.StatedK, longest: int) -> str:
    """Which of the two expressions gives k, and what the one without n would give."""
    if stated.of_d < stated.of_n:
        return "9 d log(d) / eps^2, the branch that does not depend on n"
    than = "above every n" if stated.of_d > longest else "not above every n"
    return f"5 log(n) / eps^2; 9 d log(d) / eps^2 is {stated.of_d:,.0f}, {than} that was measured"


def chart(record: Record) -> list[Chart]:
    """Rows within eps by k, with the E and F of the proof, and with F = 0."""
    lines: dict[tuple, list] = {}
    for m in record.select("spectral_within_eps"):
        if m.approximation in (PROOF, NOTHING) and m.source in ("random", "RoBERTa"):
            lines.setdefault((m.source, m.n, m.approximation), []).append((m.k, m.value))
    series = [Series(f"{source}, n = {n}, {approximation}", [sorted(points)]) for (source, n, approximation), points in lines.items()]
    title = f"Theorem 2, eps = {EPSILON}, {record.identifier}"
    return [Chart(f"rows-{record.identifier}", title, "k", "share of rows within eps", series, log_x=True)] if series else []


CLAIM = Claim(
    "theorem-2", "Theorem 2, section 4, and appendix B",
    "With k the smaller of Theta(9 d log(d) / eps^2) and 5 Theta(log(n) / eps^2) the E and F of the proof make linear attention nearly attention.",
    f"At the theorem's own k with 1 for both Theta, eps = 0.5 and the delta of the proof: holds if for all heads {ALMOST_ALL} of the "
    "rows are within eps of ||P_i|| ||V||_2; does not hold if fewer are for some. (The theorem says that there are such E and F, for which its "
    "proof gives these, and does not say which norm: those of ||P_i|| ||V||_F are told.) Each number says which of the two k is; where it is that of n, a k that does not "
    "depend on n is not what was tested. (Written when an earlier measurement was known.)", rule("theorem-2", "theorem-2*", checks),
)  # fmt: skip
EXPERIMENTS = (
    TheoremExperiment(
        "theorem-2", "Theorem 2", [CLAIM], measurements,
        "softmax(Q (E K)^T) F V with E = delta R, F = exp(-delta) R against softmax(Q K^T) V: medians of row errors, and the proof's steps",
        "Theorem 2 and appendix B; proved, not measured", "theorem2", chart,
    ),
)  # fmt: skip
