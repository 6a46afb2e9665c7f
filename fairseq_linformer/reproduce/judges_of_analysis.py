"""The rules of claims about the spectrum of attention and the two theorems, over the entries of ``analyze``."""

import math
from typing import Dict, List, Tuple

from ..analysis import theorem1, theorem2
from .analysis_entries import CUMULATIVE
from .cells import groups
from .judges import ALMOST_ALL, judge
from .ledger import Entry, Measurement
from .theorems_text import EPSILON, NOTHING, PROOF
from .verdict import FAILS, HOLDS, UNDECIDED, Part

TAIL, NO_TAIL = 0.75, 0.5
"""Share of the sum of singular values in the first quarter of them (a quarter if all are equal)."""
_Z = 1.96


def _figure_1(entry: Entry) -> List[Part]:
    parts = []
    for (run, layer), values in _by_layer(entry).items():
        least = min(values)
        outcome = HOLDS if least >= TAIL else FAILS if least < NO_TAIL else UNDECIDED
        said = f"{run}, layer {layer}: the first quarter of the singular values has {least:.2f} of their sum in one of {len(values)} heads"
        parts.append(Part(outcome, f"{said}, {_mean(values):.2f} in the mean; at least {TAIL} in each wanted"))
    return parts


def _figure_1_layers(entry: Entry) -> List[Part]:
    values, parts = _by_layer(entry), []
    for run in dict.fromkeys(run for run, _ in values):
        layers = sorted((layer for r, layer in values if r == run), key=int)
        first, last = (_mean(values[run, layer]) for layer in (layers[0], layers[-1]))
        said = f"{run}: {first:.2f} of the sum in layer {layers[0]}, {last:.2f} in layer {layers[-1]}, the last one, means over heads; one model"
        parts.append(Part(HOLDS if last > first else FAILS, said))
    return parts


def _mean(values: List[float]) -> float:
    return sum(values) / len(values)


def _by_layer(entry: Entry) -> Dict[tuple, List[float]]:
    """The cumulative value of each head at a quarter of the singular values, by run and layer. A run whose index is another is left out."""
    heads: Dict[tuple, List[float]] = {}
    for where, cells in groups(entry, "run", "layer", "head"):
        heads.setdefault((where["run"], where["layer"]), []).append(cells[CUMULATIVE].value)
    return {place: values for place, values in heads.items() if _at_quarter(entry, place[0])}


def _at_quarter(entry: Entry, run: str) -> bool:
    facts = entry.configuration["runs"][run]
    return 4 * facts["index"] == facts["singular_values"]


def _theorem_1(entry: Entry) -> List[Part]:
    """Counts over all rows, and the row in which the measured probability is the furthest below what is promised."""
    rows = []
    for where, cells in groups(entry, "heads", "n", "k", "eps"):
        bound = theorem1.theorem_bound(int(where["n"]), int(where["k"]), float(where["eps"]))
        if bound > 0:
            m = cells["theorem"]
            rows.append((bound - m.value, m, bound, where, binomial(m)[1] < bound))
    if not rows:
        return []
    below, clearly = sum(gap > 0 for gap, *_ in rows), sum(clear for *_, clear in rows)
    outcome = FAILS if clearly else UNDECIDED if below else HOLDS
    _, m, bound, where, _ = max(rows, key=lambda row: row[0])
    low, high = binomial(m)
    at = ", ".join(f"{key} = {value}" for key, value in where.items())
    return [
        Part(outcome, f"the measured probability is below the bound of the proof in {below} of {len(rows)} rows (heads, n, k, eps) where it is above 0, "
             f"in {clearly} by more than its 95 % interval; the largest gap: {m.value:.2f} ({low:.2f} to {high:.2f}, of {m.repetitions} heads and draws) "
             f"measured, {bound:.2f} promised, at {at}")
    ]  # fmt: skip


def binomial(m: Measurement) -> Tuple[float, float]:
    """Wilson's 95 % interval of a probability of as many trials as there are heads and draws of R: the columns of one draw share it."""
    n, p = m.repetitions, min(max(m.value, 0.0), 1.0)
    middle, half = p + _Z**2 / (2 * n), _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
    return max(0.0, middle - half) / (1 + _Z**2 / n), (middle + half) / (1 + _Z**2 / n)


def _theorem_2(entry: Entry) -> List[Part]:
    rows = {(w["heads"], w["n"], w["d"], w["k"], w["X"]): cells for w, cells in groups(entry, "heads", "n", "d", "k", "X")}
    longest = max((int(n) for _, n, *_ in rows), default=0)
    parts = []
    for (heads, n, d, k, x), cells in rows.items():
        stated = theorem2.stated_k(int(n), int(d), EPSILON)
        if x != PROOF or int(k) != math.ceil(stated.k):
            continue
        share, nothing = cells["spectral within eps"].value, rows.get((heads, n, d, k, NOTHING))
        outcome = HOLDS if share >= ALMOST_ALL else FAILS
        beside = f"; F = 0 gives {nothing['spectral within eps'].value:.2f}" if nothing else ""
        beside += f"; of ||P_i|| ||V||_F {cells['frobenius within eps'].value:.2f}" if "frobenius within eps" in cells else ""
        said = f"{heads}, n = {n}, d = {d}, k = {k} ({_branch(stated, longest)}): {share:.2f} of the rows within eps = {EPSILON} of ||P_i|| ||V||_2"
        parts.append(Part(outcome, f"{said}, at least {ALMOST_ALL} wanted{beside}"))
    return parts


def _branch(stated: theorem2.StatedK, longest: int) -> str:
    """Which of the two k is, and what the one that does not depend on n would be."""
    if stated.of_d < stated.of_n:
        return "9 d log(d) / eps^2, the branch that does not depend on n"
    than = "above every n" if stated.of_d > longest else "not above every n"
    return f"5 log(n) / eps^2; 9 d log(d) / eps^2 is {stated.of_d:,.0f}, {than} that was measured"


figure_1 = judge("figure-1", "spectrum-roberta", _figure_1)
figure_1_layers = judge("figure-1", "spectrum-roberta", _figure_1_layers)
theorem_1 = judge("theorem-1", "theorem-1", _theorem_1)
theorem_2 = judge("theorem-2", "theorem-2", _theorem_2)
