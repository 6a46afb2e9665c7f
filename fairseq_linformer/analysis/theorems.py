"""``analyze theorems``: measures both theorems and the best approximation of each rank, on random heads or a model's.

    n positions, d head dimension, k projected dimension

Quantities over several heads and draws of R are stored as summaries (``samples.summarize``).
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..files import new_folder, open_atomic
from ..progress import Progress
from . import rank_k, theorem1, theorem2
from .heads import Head, neighbor_head, random_head
from .samples import summarize
from .theorem_figures import draw_rank_k, draw_theorem1, draw_theorem2

NUMBERS = "theorems.json"
EPSILONS = (0.3, 0.5, 0.7)
"""For theorem 1; eps^2 - eps^3 is largest at 2/3."""
MIN_EPSILON = 0.001
MIN_LENGTH = 8
"""The smallest n, and the smallest k that is measured."""


def build_random_heads(lengths: Sequence[int], d: int, seed: int) -> list[list[Head]]:
    """One random head per length.

    Raises:
        ValueError: lengths are not increasing integers of at least 8, or d is below 2.
    """
    return _build_heads(random_head, lengths, d, seed)


def build_neighbor_heads(lengths: Sequence[int], d: int, seed: int) -> list[list[Head]]:
    """As ``build_random_heads``, of heads that attend to the next position."""
    return _build_heads(neighbor_head, lengths, d, seed)


def _build_heads(
    build: Callable[[int, int, torch.Generator], Head], lengths: Sequence[int], d: int, seed: int
) -> list[list[Head]]:
    if not lengths or list(lengths) != sorted(set(lengths)) or lengths[0] < MIN_LENGTH:
        raise ValueError(f"lengths must be increasing integers of at least {MIN_LENGTH}, got {list(lengths)}")
    if d < 2:
        raise ValueError(f"head_dim must be at least 2, got {d}")
    generator = _generator(seed)
    return [[build(n, d, generator)] for n in lengths]


def _generator(seed: int) -> torch.Generator:
    if not 0 <= seed < 1 << 63:
        raise ValueError(f"seed must be between 0 and {(1 << 63) - 1}, got {seed}")
    return torch.Generator().manual_seed(seed)


def powers_of_two(first: int, limit: int) -> list[int]:
    """Powers of two from ``first``, which must be one, up to ``limit``."""
    return [1 << i for i in range(first.bit_length() - 1, limit.bit_length())]


def measure_theorems(
    groups: Sequence[list[Head]], out: Path, draws: int, epsilon: float, seed: int, facts: dict[str, Any]
) -> dict[str, Any]:
    """Measure everything, and write ``theorems.json`` and three figures to a new folder.

    Args:
        groups: heads, grouped by length.
        out: a new or empty folder.
        draws: samples of R for theorem 1; theorem 2 uses a tenth of them, at least 3.
        epsilon: for theorem 2.
        seed: of R.
        facts: JSON that describes the heads, for the file.

    Returns:
        The content of ``theorems.json``.

    Raises:
        ValueError: draws, epsilon, the seed, n or d is out of range, V of a head is 0, or ``out`` is not empty.
        OSError: ``out`` cannot be written.
    """
    if not MIN_EPSILON <= epsilon < 1:
        raise ValueError(f"epsilon must be at least {MIN_EPSILON:g} and below 1, got {epsilon:g}")
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    for heads in groups:
        n, d = heads[0].V.shape
        if n < MIN_LENGTH or d < 2:
            raise ValueError(f"n must be at least {MIN_LENGTH} and d at least 2, got n = {n} and d = {d}")
        if not all(bool(head.V.any()) for head in heads):
            raise ValueError("V of each head must have a nonzero value, since errors are relative to it; got all zeros")
    generator = _generator(seed)
    draws_theorem2 = max(3, draws // 10)
    results: dict[str, Any] = {
        **facts,
        "draws": draws,
        "draws_theorem2": draws_theorem2,
        "epsilon": epsilon,
        "seed": seed,
        "torch_threads": torch.get_num_threads(),
    }
    results |= {"theorem1": [], "theorem2": {"errors": [], "step1": [], "step3": [], "needed_k": []}, "rank_k": []}
    seconds: dict[str, float] = {}
    with new_folder(out) as folder, Progress("theorems", len(groups), "lengths") as progress:
        for heads in groups:
            with _timed(seconds, "theorem1"):
                results["theorem1"].append(_measure_theorem1(heads, draws, generator))
            with _timed(seconds, "theorem2"):
                _measure_theorem2(results["theorem2"], heads, epsilon, draws_theorem2, generator)
            with _timed(seconds, "rank_k"):
                results["rank_k"] += _measure_rank_k(heads, generator)
            progress.add(1)
        results["seconds"] = {name: round(value, 3) for name, value in seconds.items()}
        with open_atomic(folder / NUMBERS) as file:
            file.write(json.dumps(results, indent=1, allow_nan=False) + "\n")
        draw_theorem1(folder / "theorem1.png", results)
        draw_theorem2(folder / "theorem2.png", results)
        draw_rank_k(folder / "rank_k.png", results)
    return results


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.monotonic() - start


def _measure_theorem1(heads: list[Head], draws: int, generator: torch.Generator) -> dict[str, Any]:
    """The row of one length, with means over heads and draws."""
    n, d = heads[0].V.shape
    ks = powers_of_two(MIN_LENGTH, n)
    measured = [theorem1.probabilities(h.P, h.V, ks, EPSILONS, draws, generator) for h in heads]
    row: dict[str, Any] = {"n": n, "d": d, "heads": len(heads), "k": ks, "epsilon": list(EPSILONS), "draws": draws}
    for name in theorem1.MEASURED:
        values = torch.cat([m[name] for m in measured])  # (heads draws, ks, epsilons)
        row[name] = [
            [summarize(values[:, i, j].tolist(), "mean") for j in range(len(EPSILONS))] for i in range(len(ks))
        ]
    squared = torch.cat([m["squared_error"] for m in measured])  # (heads draws, ks)
    row["squared_error"] = [summarize(values.tolist(), "mean") for values in squared.T]
    row["expected_error"] = [
        summarize([float(m["expected_error"][i]) for m in measured], "mean") for i in range(len(ks))
    ]
    row["stretch"] = summarize([float(m["stretch"]) for m in measured])
    shares = [theorem1.best_rank_shares(head, EPSILONS) for head in heads]
    row["best_rank_k"] = [
        {"epsilon": epsilon, "k": k, "within": summarize([share[epsilon][1] for share in shares], "mean")}
        for epsilon, (k, _) in shares[0].items()
    ]
    row["bound"] = [[theorem1.theorem_bound(n, k, e) for e in EPSILONS] for k in ks]
    row["stated_k"] = [theorem1.stated_k(n, e) for e in EPSILONS]
    return row


def _measure_theorem2(
    rows: dict[str, list[dict[str, Any]]], heads: list[Head], epsilon: float, draws: int, generator: torch.Generator
) -> None:
    """Add the rows of one length to ``errors``, ``step1``, ``step3`` and ``needed_k``."""
    n, d = heads[0].V.shape
    shape = {"n": n, "d": d}
    stated = theorem2.stated_k(n, d, epsilon)
    theorem_k = math.ceil(stated.k)
    ks = {*powers_of_two(min(16, powers_of_two(MIN_LENGTH, n)[-1]), n), *([theorem_k] if theorem_k <= n else [])}
    for k in sorted(ks):
        errors = theorem2.candidate_errors(heads, k, epsilon, draws, generator)
        candidates = {
            name: {kind: summarize(values, "mean" if "within" in kind else "median") for kind, values in kinds.items()}
            for name, kinds in errors.items()
        }
        rows["errors"].append({**shape, "k": k, "candidates": candidates})
    k = min(128, n)
    deltas = {"2^-n": theorem2.proof_delta(n), "1/n^2": n**-2.0, "1/n": 1 / n, "1/10": 0.1, "1": 1.0}
    for name, delta in deltas.items():
        step1 = [theorem2.step1(h, theorem2.draw(k, n, generator), delta) for h in heads for _ in range(draws)]
        rows["step1"].append({**shape, "k": k, "delta": name, **_summarize_each(step1)})
        if 2 * d <= n:
            step3 = [
                theorem2.step3(h, theorem2.draw(k, n, generator), delta, generator) for h in heads for _ in range(draws)
            ]
            rows["step3"].append({**shape, "k": k, "delta": name, **_summarize_each(step3)})
    candidate_ks = sorted({min(n, round(2 ** (i / 2))) for i in range(4, 2 * n.bit_length())})
    needed = [theorem2.needed_k(h, candidate_ks, epsilon, draws, generator) for h in heads]
    rows["needed_k"].append(
        {**shape, "epsilon": epsilon, "stated_of_d": stated.of_d, "stated_of_n": stated.of_n, **_summarize_each(needed)}
    )


def _measure_rank_k(heads: list[Head], generator: torch.Generator) -> list[dict[str, Any]]:
    """The rows of one length, with means over heads."""
    n = len(heads[0].Q)
    # Without windows, a model on sentences shorter than its k has k > n.
    ks = sorted({*powers_of_two(MIN_LENGTH, n), *(len(h.E) for h in heads if h.E is not None and len(h.E) <= n)})
    rows = []
    for k, errors in rank_k.approximation_errors(heads, ks, generator).items():
        summaries = {
            name: {kind: summarize(values, "mean") for kind, values in kinds.items()} for name, kinds in errors.items()
        }
        rows.append({"n": n, "k": k, "heads": len(heads), "errors": summaries})
    return rows


def _summarize_each(samples: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The summary of each key over ``samples``."""
    return {key: summarize([sample[key] for sample in samples]) for key in samples[0]}
