"""Theorem 1: how often the proof's P R^T R w, and the best P~ w of the same rank, are close to P w.

Usage:

    fairseq-linformer reproduce theorem-1 --scale cpu
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ...analysis import theorem1
from ..claim import Claim
from ..records import Measurement, Record
from ..report.charts import Chart, Series
from ..rules import rule
from ..statistics import FAILS, HOLDS, UNDECIDED, Check, wilson
from ..theorem_experiment import EPSILON, TheoremExperiment, summary_measurements


def measurements(numbers: Mapping[str, Any], source: str) -> Iterator[Measurement]:
    for row in numbers["theorem1"]:
        at = {"source": source, "n": row["n"]}
        yield from summary_measurements(
            "stretch", row["stretch"], "||P|| ||w|| / ||P w||, median over w; median over heads", **at
        )
        for best in row["best_rank_k"]:
            fields = {"k": best["k"], "epsilon": best["epsilon"], "head_dim": row["d"], **at}
            yield from summary_measurements(
                "best_rank_k", best["within"], "share of columns w of V, mean over heads", **fields
            )
        for i, k in enumerate(row["k"]):
            yield from summary_measurements(
                "squared_error", row["squared_error"][i], "of ||P w||^2, mean over w, heads and draws", k=k, **at
            )
            yield from summary_measurements(
                "expected_error", row["expected_error"][i], "of ||P w||^2, mean over w and heads", k=k, **at
            )
            for j, epsilon in enumerate(row["epsilon"]):
                for metric in theorem1.MEASURED:
                    yield from summary_measurements(
                        metric, row[metric][i][j], "probability, mean over heads and draws", k=k, epsilon=epsilon, **at
                    )


def proof_checks(record: Record) -> list[Check]:
    """The row in which the measured probability is furthest below the bound of the proof, and counts over all rows."""
    rows = []
    for m in record.select("theorem"):
        bound = theorem1.theorem_bound(m.n, m.k, m.epsilon)
        if bound > 0:
            low, high = wilson(m.value, m.repetitions)
            rows.append((bound - m.value, bound, m, low, high))
    if not rows:
        return []
    below, clearly = sum(gap > 0 for gap, *_ in rows), sum(high < bound for _, bound, _, _, high in rows)
    outcome = FAILS if clearly else UNDECIDED if below else HOLDS
    _, bound, m, low, high = max(rows, key=lambda row: row[0])
    return [
        Check(
            outcome,
            f"{m.source}, n = {m.n}, k = {m.k}, eps = {m.epsilon}: probability {m.value:.2f} [{low:.2f}, {high:.2f}]; "
            f"needs ≥ {bound:.2f}",
        ),
        Check(
            outcome,
            f"the probability is below the bound in {below} of {len(rows)} rows with a bound above 0, in {clearly} by "
            "more than its 95 % interval",
        ),
    ]


def existence_checks(record: Record) -> list[Check]:
    """The share of columns w for which the best approximation is within eps, at the theorem's own k."""
    checks = []
    for m in record.select("best_rank_k"):
        bound = theorem1.theorem_bound(m.n, m.k, m.epsilon)
        if bound > 0:
            low, high = wilson(m.value, m.repetitions * m.head_dim)
            outcome = HOLDS if m.value >= bound else FAILS if high < bound else UNDECIDED
            where = f"{m.source}, n = {m.n}, k = {m.k}, eps = {m.epsilon}"
            text = f"{where}: {m.value:.2f} [{low:.2f}, {high:.2f}] of columns w; needs ≥ {bound:.2f}"
            checks.append(Check(outcome, text))
    return checks


def chart(record: Record) -> list[Chart]:
    """The probability by k, and the bound of the proof."""
    lines: dict[tuple[str, int], list] = {}
    promised: dict[int, set] = {}
    for m in record.select("theorem", epsilon=EPSILON):
        lines.setdefault((m.source, m.n), []).append((m.k, m.value))
        if (bound := theorem1.theorem_bound(m.n, m.k, EPSILON)) > 0:
            promised.setdefault(m.n, set()).add((m.k, bound))
    series = [Series(f"{source}, n = {n}", [sorted(points)]) for (source, n), points in lines.items()]
    color_of = {n: i for i, (_, n) in reversed([*enumerate(lines)])}
    series += [
        Series(f"bound of the proof, n = {n}", [sorted(points)], True, color_of[n]) for n, points in promised.items()
    ]
    title = f"Theorem 1, eps = {EPSILON}, {record.identifier}"
    name = f"probability-{record.identifier}"
    return [Chart(name, title, "k", "probability that P w is within eps", series, log_x=True)] if series else []


_PROOF_ONLY = (
    "Holds if the measured probability is at least the bound of the proof wherever that is above 0; does not hold if "
    "it is less by more than its sampling error anywhere, 95 % by Wilson, of as many trials as heads and draws of the "
    "projection; not enough evidence if it is less within that. (Written when an earlier measurement was known.)"
)
CLAIMS = (
    Claim(
        "theorem-1",
        "Theorem 1, appendix A",
        "The proof's P R^T R w is within eps of P w as often as the proof says.",
        "Holds if the measured probability, over heads and draws of R, is at least the proof's bound, "
        "1 - 2 n exp(-(eps^2 - eps^3) k / 4), wherever that is above 0; does not hold if it is below the bound by more "
        "than its 95 % interval (Wilson) anywhere; not enough evidence if it is below it within the interval.",
        rule("theorem-1", "theorem-1*", proof_checks),
    ),
    Claim(
        "theorem-1-existence",
        "Theorem 1 and equation (5), section 3",
        "A P~ of rank Theta(log(n)), chosen before w, has P~ w within eps of P w for most w.",
        "P~ is the best approximation of P of its rank (SVD), k = 5 log(n) / (eps^2 - eps^3) as in the proof. Holds if "
        "in each kind of head, at each n and eps with k below n, the share of columns w of V with "
        "||P~ w - P w|| <= eps ||P w|| is at least the probability that the proof gives there, "
        "1 - 2 n exp(-(eps^2 - eps^3) k / 4); does not hold if it is below by more than its 95 % interval (Wilson, "
        "heads times columns) in one; not enough evidence if it is below within the interval. With P~ chosen after w "
        "a rank of 1 is enough, P w w^T / ||w||^2, and the theorem says nothing.",
        rule(
            "theorem-1",
            "theorem-1*",
            existence_checks,
            applies=lambda record: record.select("best_rank_k"),
            needed="the best approximation of the theorem's rank",
        ),
    ),
)
EXPERIMENTS = (
    TheoremExperiment(
        "theorem-1",
        "Theorem 1",
        CLAIMS,
        measurements,
        "The probability over R that ||P R^T R w - P w|| <= eps ||P w||, with eps ||P|| ||w|| on the right side, and "
        "the lemma's; and the share of w for which the best approximation of the theorem's rank is within eps",
        "Theorem 1 and appendix A; proved, not measured",
        "theorem1",
        chart,
    ),
)
