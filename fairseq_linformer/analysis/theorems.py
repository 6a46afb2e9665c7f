"""``analyze theorems``: both theorems and the best of each rank, on random or on real heads, to one folder.

    n positions, d width of a head, k the projected dimension
"""

import json
import math
import time
from pathlib import Path
from typing import Any, Dict, List, Sequence

import torch

from ..files import atomic, new_folder
from ..progress import Progress
from . import rank_k, theorem1, theorem2
from .heads import Head, random_head
from .theorem_figures import draw_rank_k, draw_theorem1, draw_theorem2

NUMBERS = "theorems.json"
EPSILONS = (0.3, 0.5, 0.7)
"""For theorem 1. eps^2 - eps^3 is largest at 2/3."""
NORMS = ("spectral", "frobenius")


def random_groups(lengths: Sequence[int], d: int, seed: int) -> List[List[Head]]:
    """A random head of each length.

    Raises:
        ValueError: a length is below 8, they do not rise, or d is below 2.
    """
    if not lengths or list(lengths) != sorted(set(lengths)) or lengths[0] < 8:
        raise ValueError(f"lengths are {list(lengths)}; rising numbers from 8 on are wanted")
    if d < 2:
        raise ValueError(f"width is {d}; it must be at least 2")
    generator = torch.Generator().manual_seed(seed)
    return [[random_head(n, d, generator)] for n in lengths]


def powers(least: int, most: int) -> List[int]:
    """Powers of two from ``least``, itself one, to ``most``."""
    return [2**i for i in range(least.bit_length() - 1, most.bit_length()) if 2**i <= most]


def run(groups: Sequence[List[Head]], out: Path, draws: int, epsilon: float, seed: int, facts: Dict[str, Any]) -> Dict[str, Any]:
    """Measure all of it and write ``theorems.json`` and three figures into a new folder.

    Args:
        groups: heads of one length each.
        out: folder, new or empty.
        draws: of R, for theorem 1; a tenth of it, but 3 at least, for theorem 2.
        epsilon: for theorem 2.
        seed: of R.
        facts: what the heads are, to stand in the file.

    Raises:
        ValueError: draws is below 1, epsilon not between 0 and 1, or ``out`` has something in it.
        OSError: ``out`` cannot be written.
    """
    theorem1.exponent(epsilon)
    if draws < 1:
        raise ValueError(f"draws is {draws}; it must be at least 1")
    begun = time.monotonic()
    generator = torch.Generator().manual_seed(seed)
    few = max(3, draws // 10)
    found: Dict[str, Any] = {**facts, "draws": draws, "draws_theorem2": few, "epsilon": epsilon, "seed": seed}
    found.update(theorem1=[], theorem2={"errors": [], "step1": [], "step3": [], "needed_k": []}, rank_k=[])
    with new_folder(out) as folder, Progress("theorems", len(groups), "lengths") as progress:
        for heads in groups:
            found["theorem1"].append(_theorem1(heads, draws, generator))
            for name, rows in _theorem2(heads, epsilon, few, generator).items():
                found["theorem2"][name] += rows
            n = len(heads[0].Q)
            ks = sorted({*powers(8, n), *(len(h.E) for h in heads if h.E is not None)})
            for k, errors in rank_k.errors(heads, ks, generator).items():
                found["rank_k"].append({"n": n, "k": k, "heads": len(heads), "errors": errors})
            progress.add(1)
        found["seconds"] = round(time.monotonic() - begun, 1)
        with atomic(folder / NUMBERS) as file:
            file.write(json.dumps(_finite(found), indent=1) + "\n")
        draw_theorem1(folder / "theorem1.png", found)
        draw_theorem2(folder / "theorem2.png", found)
        draw_rank_k(folder / "rank_k.png", found)
    return found


def _theorem1(heads: List[Head], draws: int, generator: torch.Generator) -> Dict[str, Any]:
    """Means over heads."""
    n, d = heads[0].V.shape
    ks = powers(8, n)
    measured = [theorem1.probabilities(h.P, h.V, ks, EPSILONS, draws, generator) for h in heads]
    row: Dict[str, Any] = {"n": n, "d": d, "heads": len(heads), "k": ks, "epsilon": list(EPSILONS), "draws": draws}
    for name in ("theorem", "lengths", "pair", "pair_lengths", "squared_error", "expected_error"):
        row[name] = torch.stack([getattr(m, name) for m in measured]).mean(0).tolist()
    stretches = sorted(m.stretch for m in measured)
    row["stretch"] = {"least": stretches[0], "median": stretches[len(stretches) // 2], "most": stretches[-1]}
    row["bound"] = [[theorem1.theorem_bound(n, k, e) for e in EPSILONS] for k in ks]
    row["lemma_bound"] = [[theorem1.lemma_bound(k, e) for e in EPSILONS] for k in ks]
    row["stated_k"] = [theorem1.stated_k(n, e) for e in EPSILONS]
    return row


def _theorem2(heads: List[Head], epsilon: float, draws: int, generator: torch.Generator) -> Dict[str, List[Dict[str, Any]]]:
    n, d = heads[0].V.shape
    rows: Dict[str, List[Dict[str, Any]]] = {"errors": [], "step1": [], "step3": [], "needed_k": []}
    for k in powers(16, n):
        rows["errors"].append({"n": n, "d": d, "k": k, "candidates": theorem2.errors(heads, k, epsilon, draws, generator)})
    k = min(128, n)
    deltas = {"2^-n": theorem2.proof_delta(n), "1/n^2": n**-2.0, "1/n": 1 / n, "1/10": 0.1, "1": 1.0}
    for name, delta in deltas.items():
        one = [theorem2.step1(h, theorem2.draw(k, n, generator), delta) for h in heads]
        rows["step1"].append({"n": n, "d": d, "k": k, "delta": name, **{key: _median([o[key] for o in one]) for key in one[0]}})
        if 2 * d <= n:
            three = [theorem2.step3(h, theorem2.draw(k, n, generator), delta, generator) for h in heads]
            rows["step3"].append({"n": n, "d": d, "k": k, "delta": name, **{key: _median([t[key] for t in three]) for key in three[0]}})
    grid = [2 ** (i / 2) for i in range(4, 2 * n.bit_length())]
    ks = sorted({min(n, round(k)) for k in grid})
    needed = [theorem2.needed_k(h, ks, epsilon, draws, generator) for h in heads]
    rows["needed_k"].append({"n": n, "d": d, "epsilon": epsilon, "stated": theorem2.stated_k(d, epsilon),
                             **{name: _median([one[name] for one in needed]) for name in NORMS}})  # fmt: skip
    return rows


def _median(values: List[float]) -> float:
    return sorted(values)[len(values) // 2]


def _finite(value: Any) -> Any:
    """JSON has no infinity: None stands for it."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
