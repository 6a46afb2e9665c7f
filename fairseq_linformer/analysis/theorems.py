"""``analyze theorems``: both theorems and the best approximation of each rank, on random or on real heads, to one
folder.

    n positions, d width of a head, k the projected dimension

Quantities measured on several heads and draws of R are in the file as ``samples.summary`` returns them.
"""

import json
import math
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence

import torch

from ..files import atomic, new_folder
from ..progress import Progress
from . import rank_k, theorem1, theorem2
from .heads import Head, random_head
from .samples import summary
from .theorem_figures import draw_rank_k, draw_theorem1, draw_theorem2

NUMBERS = "theorems.json"
EPSILONS = (0.3, 0.5, 0.7)
"""For theorem 1. eps^2 - eps^3 is largest at 2/3."""
LEAST_EPSILON = 0.001
LEAST = 8
"""The shortest n: the smallest k that is tried."""


def random_groups(lengths: Sequence[int], d: int, seed: int) -> List[List[Head]]:
    """A random head of each length.

    Raises:
        ValueError: a length is below 8, they do not rise, or d is below 2.
    """
    if not lengths or list(lengths) != sorted(set(lengths)) or lengths[0] < LEAST:
        raise ValueError(f"lengths are {list(lengths)}; they must be rising numbers from {LEAST} on")
    if d < 2:
        raise ValueError(f"width is {d}; it must be at least 2")
    generator = _generator(seed)
    return [[random_head(n, d, generator)] for n in lengths]


def _generator(seed: int) -> torch.Generator:
    if not 0 <= seed < 1 << 63:
        raise ValueError(f"seed is {seed}; it must be from 0 to {(1 << 63) - 1}")
    return torch.Generator().manual_seed(seed)


def powers(least: int, most: int) -> List[int]:
    """Powers of two from ``least``, itself one, to ``most``."""
    return [1 << i for i in range(least.bit_length() - 1, most.bit_length())]


def run(
    groups: Sequence[List[Head]], out: Path, draws: int, epsilon: float, seed: int, facts: Dict[str, Any]
) -> Dict[str, Any]:
    """Measure everything and write ``theorems.json`` and three figures into a new folder.

    Args:
        groups: heads of one length each.
        out: folder, new or empty.
        draws: samples of R for theorem 1; theorem 2 takes a tenth as many, but at least 3.
        epsilon: for theorem 2.
        seed: of R.
        facts: what the heads are; copied into the file.

    Raises:
        ValueError: draws is below 1, epsilon not between ``LEAST_EPSILON`` and 1, the seed out of range, n below 8, V
            of a head 0, or ``out`` is not empty.
        OSError: ``out`` cannot be written.
    """
    if not LEAST_EPSILON <= epsilon < 1:
        raise ValueError(f"epsilon is {epsilon:g}; it must be at least {LEAST_EPSILON:g} and below 1")
    if draws < 1:
        raise ValueError(f"draws is {draws}; it must be at least 1")
    for heads in groups:
        n, d = heads[0].V.shape
        if n < LEAST or d < 2:
            raise ValueError(f"heads have n = {n} and d = {d}; n must be at least {LEAST} and d at least 2")
        if not all(bool(head.V.any()) for head in heads):
            raise ValueError("the values V of a head are all 0; no error is relative to them")
    generator = _generator(seed)
    few = max(3, draws // 10)
    found: Dict[str, Any] = {**facts, "draws": draws, "draws_theorem2": few, "epsilon": epsilon, "seed": seed,
                             "torch_threads": torch.get_num_threads()}  # fmt: skip
    found |= {"theorem1": [], "theorem2": {"errors": [], "step1": [], "step3": [], "needed_k": []}, "rank_k": []}
    seconds: Dict[str, float] = {}
    with new_folder(out) as folder, Progress("theorems", len(groups), "lengths") as progress:
        for heads in groups:
            with _timed(seconds, "theorem1"):
                found["theorem1"].append(_theorem1(heads, draws, generator))
            with _timed(seconds, "theorem2"):
                _theorem2(found["theorem2"], heads, epsilon, few, generator)
            with _timed(seconds, "rank_k"):
                found["rank_k"] += _rank_k(heads, generator)
            progress.add(1)
        found["seconds"] = {name: round(spent, 3) for name, spent in seconds.items()}
        with atomic(folder / NUMBERS) as file:
            file.write(json.dumps(found, indent=1, allow_nan=False) + "\n")
        draw_theorem1(folder / "theorem1.png", found)
        draw_theorem2(folder / "theorem2.png", found)
        draw_rank_k(folder / "rank_k.png", found)
    return found


@contextmanager
def _timed(seconds: Dict[str, float], name: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.monotonic() - begun


def _theorem1(heads: List[Head], draws: int, generator: torch.Generator) -> Dict[str, Any]:
    """Means over heads and draws."""
    n, d = heads[0].V.shape
    ks = powers(LEAST, n)
    measured = [theorem1.probabilities(h.P, h.V, ks, EPSILONS, draws, generator) for h in heads]
    row: Dict[str, Any] = {"n": n, "d": d, "heads": len(heads), "k": ks, "epsilon": list(EPSILONS), "draws": draws}
    for name in theorem1.MEASURED:
        values = torch.cat([m[name] for m in measured])  # (heads draws, ks, epsilons)
        row[name] = [[summary(values[:, i, j].tolist(), "mean") for j in range(len(EPSILONS))] for i in range(len(ks))]
    squared = torch.cat([m["squared_error"] for m in measured])  # (heads draws, ks)
    row["squared_error"] = [summary(values.tolist(), "mean") for values in squared.T]
    row["expected_error"] = [summary([float(m["expected_error"][i]) for m in measured], "mean") for i in range(len(ks))]
    row["stretch"] = summary([float(m["stretch"]) for m in measured])
    row["bound"] = [[theorem1.theorem_bound(n, k, e) for e in EPSILONS] for k in ks]
    row["stated_k"] = [theorem1.stated_k(n, e) for e in EPSILONS]
    return row


def _theorem2(
    rows: Dict[str, List[Dict[str, Any]]], heads: List[Head], epsilon: float, draws: int, generator: torch.Generator
) -> None:
    """Add the rows of one length to ``errors``, ``step1``, ``step3`` and ``needed_k``."""
    n, d = heads[0].V.shape
    shape = {"n": n, "d": d}
    stated = theorem2.stated_k(n, d, epsilon)
    own = math.ceil(stated.k)
    for k in sorted({*powers(min(16, powers(LEAST, n)[-1]), n), *([own] if own <= n else [])}):
        measured = theorem2.errors(heads, k, epsilon, draws, generator)
        cells = {
            name: {what: summary(values, "mean" if "within" in what else "median") for what, values in cell.items()}
            for name, cell in measured.items()
        }
        rows["errors"].append({**shape, "k": k, "candidates": cells})
    k = min(128, n)
    deltas = {"2^-n": theorem2.proof_delta(n), "1/n^2": n**-2.0, "1/n": 1 / n, "1/10": 0.1, "1": 1.0}
    for name, delta in deltas.items():
        one = [theorem2.step1(h, theorem2.draw(k, n, generator), delta) for h in heads for _ in range(draws)]
        rows["step1"].append({**shape, "k": k, "delta": name, **_summaries(one)})
        if 2 * d <= n:
            three = [theorem2.step3(h, theorem2.draw(k, n, generator), delta, generator) for h in heads
                     for _ in range(draws)]  # fmt: skip
            rows["step3"].append({**shape, "k": k, "delta": name, **_summaries(three)})
    ks = sorted({min(n, round(2 ** (i / 2))) for i in range(4, 2 * n.bit_length())})
    needed = [theorem2.needed_k(h, ks, epsilon, draws, generator) for h in heads]
    rows["needed_k"].append({**shape, "epsilon": epsilon, "stated_of_d": stated.of_d, "stated_of_n": stated.of_n,
                             **_summaries(needed)})  # fmt: skip


def _rank_k(heads: List[Head], generator: torch.Generator) -> List[Dict[str, Any]]:
    """Means over heads."""
    n = len(heads[0].Q)
    ks = sorted({*powers(LEAST, n), *(len(h.E) for h in heads if h.E is not None)})
    rows = []
    for k, errors in rank_k.errors(heads, ks, generator).items():
        cells = {
            name: {what: summary(values, "mean") for what, values in cell.items()} for name, cell in errors.items()
        }
        rows.append({"n": n, "k": k, "heads": len(heads), "errors": cells})
    return rows


def _summaries(found: Sequence[Dict[str, float]]) -> Dict[str, Any]:
    return {key: summary([one[key] for one in found]) for key in found[0]}
