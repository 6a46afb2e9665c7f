"""Whether P R^T R w, and the best P~ w of the theorem's rank, are as close to P w as the proof says.

What the theorem says depends on what P~ may know, for w is a column of V. If it may know w, a rank of 1 is enough, P w
w^T / ||w||^2; if it may know V, a rank of d_h, P V V^+, and it is exact for every column. Read so, the theorem holds,
and says nothing about attention. The proof draws R without knowing V, as E and F do not know the input; that claim is
tested here. (The proof's lemma, as printed, bounds the error of an inner product by eps times the product; Johnson and
Lindenstrauss have eps times the two norms.)

Measured on heads without a model: random ones, and neighbor heads, which attend to the next position. The theorem is
about any head, so one kind refutes that claim; it does not say that heads of trained models are of that kind.

**Proof.** Holds if the measured probability that ||P R^T R w - P w|| <= eps ||P w||, over draws of R for one head per
n, is at least the proof's bound, 1 - 2 n exp(-(eps^2 - eps^3) k / 4), wherever that is above 0; does not hold if it is
below the bound by more than its 95 % interval (Wilson) anywhere; not enough evidence if it is below it within the
interval.

**Before V.** P~ is the best approximation of P of its rank (SVD), k = 5 log(n) / (eps^2 - eps^3) as in the proof. Holds
for a kind of head if at each n and eps with k below n the share of columns w of V with ||P~ w - P w|| <= eps ||P w|| is
at least the probability that the proof gives there; does not hold if it is below by more than its 95 % interval
(Wilson, over columns) in one; not enough evidence if it is below within the interval. Neighbor heads are built to fail:
all n singular values of P are nearly equal, so the relative error is about sqrt(1 - k / n). (Both kinds were one claim
when this was measured, which did not hold.)
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

import torch

from ...analysis import theorem1
from ...analysis.heads import build_heads, neighbor_head, powers_of_two, random_head
from ..page import Panel, Table
from ..result import Inputs, Parts, Result, Row, Rows, join, repeated, significant
from ..verdict import Check, Verdict, decide, wilson

TITLE, WHERE = "Theorem 1", "Theorem 1, appendix A"
SAYS = "attention is low rank: a P~ of rank log(n) has P~ w near P w"
EPSILONS = (0.3, 0.5, 0.7)
"""eps^2 - eps^3 is largest at 2/3."""
HEADS = {"random": random_head, "neighbor": neighbor_head}
MIN_K = 8
EPSILON, SEED = 0.5, 1
"""eps of the charts and of theorem 2; seed of heads and draws."""
SIZES = {"smoke": ([16, 32], 8, 4), "cpu": ([128, 512, 2048], 64, 60)}
"""Lengths, width of a head and draws of R, by scale; also of theorem 2."""
PARTS: Parts = {scale: {"heads": ()} for scale in SIZES}
Measure = Callable[[list[int], int, int], Iterator[Row]]


def run(inputs: Inputs) -> Result:
    return measure_heads(inputs, measure)


def measure_heads(inputs: Inputs, measure: Measure) -> Result:
    """The rows of ``measure`` for the lengths, width and draws of a scale."""
    lengths, width, draws = SIZES[inputs.scale]
    configuration = {"lengths": lengths, "width": width, "draws": draws, "seed": SEED}
    return inputs.result(measure(lengths, width, draws), "none: heads of a seed", configuration)


def measure(lengths: list[int], width: int, draws: int) -> Iterator[Row]:
    """The probability at each k and eps, and the share of columns within eps of the best approximation."""
    for source, build in HEADS.items():
        generator = torch.Generator().manual_seed(SEED)
        for n, head in zip(lengths, build_heads(build, lengths, width, SEED)):
            at, ks = {"source": source, "n": n}, powers_of_two(MIN_K, n)
            for epsilon, (k, share) in theorem1.best_rank_shares(head, EPSILONS).items():
                fields = {"k": k, "epsilon": epsilon, "head_dim": width, **at}
                yield Row(metric="best_rank_k", value=significant(share), unit="share of columns w of V", **fields)
            holds = theorem1.probabilities(head, ks, EPSILONS, draws, generator)
            for (i, k), (j, epsilon) in itertools.product(enumerate(ks), enumerate(EPSILONS)):
                found = {**repeated(holds[:, i, j].tolist(), fmean), "unit": "probability, mean over draws"}
                yield Row(metric="theorem", **found, k=k, epsilon=epsilon, **at)


def bounded(rows: Rows, metric: str) -> list[tuple[Row, float]]:
    """The rows of a metric where the bound of the proof is above 0, and the bound."""
    bounds = [(row, theorem1.theorem_bound(row.n, row.k, row.epsilon)) for row in rows.select(metric)]
    return [(row, bound) for row, bound in bounds if bound > 0]


def proof_checks(rows: Rows) -> list[Check]:
    """The row in which the measured probability is furthest below the bound of the proof, and counts over all rows."""
    found = [
        (bound - row.value, bound, row, *wilson(row.value, row.repetitions)) for row, bound in bounded(rows, "theorem")
    ]
    if not found:
        return []
    below, clearly = sum(gap > 0 for gap, *_ in found), sum(high < bound for _, bound, _, _, high in found)
    _, bound, row, low, high = max(found, key=lambda each: each[0])
    worst = f"{where(row)}: probability {row.value:.2f} [{low:.2f}, {high:.2f}]; needs ≥ {bound:.2f}"
    counts = f"below the bound in {below} of {len(found)} rows, in {clearly} by more than the 95 % interval"
    return [decide(not below, text, bool(clearly)) for text in (worst, counts)]


def where(row: Row) -> str:
    return f"{row.source}, n = {row.n}, k = {row.k}, eps = {row.epsilon}"


def before_v_checks(rows: Rows, source: str) -> list[Check]:
    """The share of columns w for which the best approximation is within eps, at the theorem's own k."""
    checks = []
    for row, bound in bounded(Rows(row for row in rows if row.source == source), "best_rank_k"):
        low, high = wilson(row.value, row.head_dim)
        text = f"{where(row)}: {row.value:.2f} [{low:.2f}, {high:.2f}] of columns w; needs ≥ {bound:.2f}"
        checks.append(decide(row.value >= bound, text, high < bound))
    return checks


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows = join(results)
    proof = "The proof's P R^T R w is within eps of P w as often as the proof says."
    best = "At the proof's k, the best P~ that does not know V has P~ w within eps of P w for most w, with {} heads."
    found = [Verdict(f"before V ({each} heads)", best.format(each), before_v_checks(rows, each)) for each in HEADS]
    return [Verdict("proof", proof, proof_checks(rows)), *found]


def tables(results: Sequence[Result]) -> list[Table]:
    cells = [
        [row.source, f"{row.n:,}", str(row.epsilon), str(row.k), f"{row.value:.2f}", f"{bound:.2f}"]
        for row, bound in bounded(join(results), "best_rank_k")
    ]
    head = ["heads", "n", "eps", "k of the theorem", "share of columns within eps", "needed"]
    title = (
        "Columns w of V with ||P~ w - P w|| <= eps ||P w||, where P~ is the best approximation of P of rank k; "
        "random heads have random Q, K and V, and neighbor heads attend to the next position"
    )
    return [Table(title, head, cells)]


def chart(results: Sequence[Result]) -> list[Panel]:
    """The probability by k, and the bound of the proof."""
    rows = join(results).select("theorem", epsilon=EPSILON)
    bounds = Rows(Row(row, value=bound) for row, bound in bounded(rows, "theorem"))
    lines = {
        f"{source}, {n}": runs
        for source in dict.fromkeys(row.source for row in rows)
        for n, runs in rows.select("theorem", source=source).lines("n", "k", "n = {}").items()
    }
    dashed = bounds.select("theorem", source="random").lines("n", "k", "bound of the proof, n = {}")
    title = f"Theorem 1, eps = {EPSILON}"
    panel = Panel(title, "k", "probability that P w is within eps", {**lines, **dashed}, {}, list(dashed), log_x=True)
    return [panel] if rows else []
