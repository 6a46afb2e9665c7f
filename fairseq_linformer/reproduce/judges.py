"""The rules of claims about time, memory and what is counted, over the entries of ``benchmark`` and of ``reproduce``.

Of entries that could decide a claim those of its own experiment do, and all of them (``verdict.of_claim``).
"""

import math
import re
from dataclasses import replace
from functools import partial
from typing import Callable, Dict, List, Sequence, Tuple

from . import paper
from .ledger import Entry, Measurement
from .verdict import FAILS, HOLDS, UNDECIDED, Part, Verdict, all_of, interval, judged, more_than, not_measured, of_claim

FLAT, STEEP = 0.15, 0.5
"""Exponents of n in the time per token: at most, of what is linear; at least, of what is quadratic."""
ALMOST_ALL = 0.9
FLAT_RATIO = 1.25
SAME_COUNT = 1.05
"""Times an operation count that is the same for every n but for what is rounded."""
Judge = Callable[[Sequence[Entry], str], Verdict]


def judge(experiment: str, prefix: str, parts_of: Callable[[Entry], List[Part]]) -> Judge:
    """A judge of all entries of an experiment that are called ``prefix...``: ``parts_of`` gives what is asked of one."""
    return partial(_judge, experiment, prefix, parts_of)


def _judge(experiment: str, prefix: str, parts_of, entries: Sequence[Entry], scale: str) -> Verdict:
    found = of_claim(entries, experiment, prefix, scale)
    return all_of(found, parts_of) if found else not_measured(f"{prefix}* of scale {scale}")


def _table_1(entry: Entry) -> List[Part]:
    parts = []
    for family, said, value in _exponents(entry):
        if family.startswith("linformer"):
            parts.append(Part(HOLDS if value <= FLAT else FAILS, f"{said}, at most {FLAT} wanted"))
        elif family.startswith("transformer"):
            parts.append(Part(HOLDS if value >= STEEP else UNDECIDED, f"{said}, at least {STEEP} wanted"))
    missing = [family for family in ("linformer", "transformer") if not any(part.said.startswith(family) for part in parts)]
    return parts + [Part(UNDECIDED, f"{entry.identifier} has no exponent of a {family.capitalize()}") for family in missing] * bool(parts)


def _exponents(entry: Entry) -> List[Tuple[str, str, float]]:
    """Model, sentence, exponent."""
    found = []
    for family, times in _times(entry).items():
        longer = sorted(times)[len(times) // 2 :]
        if m := entry.measured.get(f"{family}: exponent of the longer half"):
            found.append((family, f"{family}: time per token grows as n to the {m.value:.2f} from n = {longer[0]} to {longer[-1]}", m.value))
    return found


def table_1(entries: Sequence[Entry], scale: str) -> Verdict:
    """Of the two families; the others are told beside."""
    verdict = judge("table-1", "benchmark-scaling-", _table_1)(entries, scale)
    used = [entry for entry in entries if entry.identifier in verdict.entries]
    asked = ("linformer", "transformer")
    return replace(verdict, beside=[*verdict.beside, *(said for entry in used for family, said, _ in _exponents(entry) if not family.startswith(asked))])


def _operations(entry: Entry) -> List[Part]:
    counts = {(int(m[1]), m[2]): v.value for name, v in entry.measured.items() if (m := re.fullmatch(r"n=(\d+): (\w+)", name))}
    lengths = sorted({n for n, _ in counts})
    first, before, last = lengths[0], lengths[-2], lengths[-1]
    ratio = counts[last, "linformer"] / counts[first, "linformer"]
    power = math.log(counts[last, "transformer"] / counts[before, "transformer"]) / math.log(last / before)
    return [
        judged(ratio, ratio, ratio, SAME_COUNT, f"linformer: operations a token at n = {last} over those at n = {first}"),
        Part(HOLDS if power >= ALMOST_ALL else UNDECIDED,
             f"transformer: operations a token grow as n to the {power:.2f} from {before} to {last}, at least {ALMOST_ALL} wanted"),
    ]  # fmt: skip


operations = judge("operations", "operations-", _operations)


def _matrices(entry: Entry) -> List[Part]:
    parts = []
    for sharing, wanted in entry.paper["value"].items():
        ours = entry.measured[f"{sharing}: matrices"].value
        parts.append(Part(HOLDS if ours == wanted else FAILS, f"{sharing}: {ours:g} matrices (paper: {wanted})"))
    return parts


matrices = judge("parameters", "parameters-", _matrices)


def figure_2(entries: Sequence[Entry], scale: str) -> Verdict:
    """The Linformer's time a token does not grow; a Transformer's does, of entries that have it: of this figure, or of Table 1."""
    found = of_claim(entries, "figure-2", "benchmark-pertoken-", scale)
    if not found:
        return not_measured(f"benchmark-pertoken-* of scale {scale}")
    return all_of([*found, *of_claim(entries, "table-1", "benchmark-scaling-", scale)], _figure_2)


def _figure_2(entry: Entry) -> List[Part]:
    parts = []
    for name, m in entry.measured.items():
        if re.fullmatch(r"n=\d+ / n=\d+", name):
            parts.append(judged(m.value, *interval(m), FLAT_RATIO, f"linformer: time per token, {name}"))
    parts += [_grows(family, times) for family, times in _times(entry).items() if family.startswith("transformer") and len(times) > 1]
    return parts


def _times(entry: Entry) -> Dict[str, Dict[int, Measurement]]:
    """``n=512: transformer-eager``: model, n, microseconds a token."""
    found: Dict[str, Dict[int, Measurement]] = {}
    for name, m in entry.measured.items():
        if at := re.fullmatch(r"n=(\d+): ([\w-]+)", name):
            found.setdefault(at[2], {})[int(at[1])] = m
    return found


def _grows(family: str, times: Dict[int, Measurement]) -> Part:
    first, last = min(times), max(times)
    (low, high), (low_first, high_first) = interval(times[last]), interval(times[first])
    said = f"{family}: time per token, n={last} / n={first}, medians, and lowest to highest of any two rounds"
    return more_than(times[last].value / times[first].value, low / high_first, high / low_first, FLAT_RATIO, said)


def table_3(half: Dict, ending: str, what: str, in_order: bool = False) -> Judge:
    """A judge of a half of Table 3.

    Args:
        half: of ``paper``.
        ending: of the names of its measurements.
        what: it is, in words.
        in_order: it shall also rise with n, and fall with k.
    """

    def parts_of(entry: Entry) -> List[Part]:
        parts, cells = [], {}
        for n in half:
            for k in paper.TABLE_3_DIMENSIONS:
                printed, m = paper.table_3(half, n, k), entry.measured.get(f"n={n} k={k}: eager / linformer{ending}")
                if printed is None or m is None:
                    continue
                cells[n, k] = m
                low, high = interval(m)
                outcome = HOLDS if low > 1 else FAILS if high <= 1 else UNDECIDED
                parts.append(Part(outcome, f"n = {n}, k = {k}: {what} {m.value:.3g} times (paper: {printed:g}), more than 1 wanted"))
        return parts + (_orders(cells) if in_order else [])

    def judged_half(entries: Sequence[Entry], scale: str) -> Verdict:
        found = [e for e in of_claim(entries, "table-3", "benchmark-inference-", scale) if parts_of(e)]
        return all_of(found, parts_of) if found else not_measured(f"benchmark-inference-* of scale {scale} with a cell of Table 3")

    return judged_half


def _orders(cells: Dict[tuple, Measurement]) -> List[Part]:
    """Of each k over all its n, and of each n over all its k: the saving rises with n, and with a smaller k."""
    parts = []
    for k in sorted({k for _, k in cells}):
        parts += _rises([(f"n = {n}", cells[n, k]) for n in sorted(n for n, other in cells if other == k)], f"k = {k}")
    for n in sorted({n for n, _ in cells}):
        parts += _rises([(f"k = {k}", cells[n, k]) for k in sorted((k for other, k in cells if other == n), reverse=True)], f"n = {n}")
    return parts


def _rises(line: List[tuple], of: str) -> List[Part]:
    """Every round of the last is above every one of the first, and no step goes down by more than rounds differ."""
    if len(line) < 2:
        return []
    steps = list(zip(line, line[1:]))
    down = next(((a, b) for (a, x), (b, y) in steps if interval(y)[1] < interval(x)[0]), None)
    (first, x), (last, y) = line[0], line[-1]
    outcome = FAILS if down else HOLDS if interval(y)[0] > interval(x)[1] else UNDECIDED
    said = f"{of}: {x.value:.3g} times at {first}, {y.value:.3g} at {last}, every round above every other and no step down wanted"
    return [Part(outcome, said + (f"; it falls from {down[0]} to {down[1]}" if down else ""))]
