"""Experiments that train nothing: what is counted, what is timed, and the theorems on random heads; each at a scale, as ledger entries."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import torch
from torch._subclasses import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..analysis import theorems
from ..benchmark import cells, inference, scaling
from ..benchmark.encoders import transformer
from ..benchmark.flops import counted
from ..config import LinformerConfig
from ..files import atomic
from ..modules import LinformerEncoder
from . import benchmarks, ledger, parameters
from .analysis_entries import once, theorem_entries
from .benchmarks import EXPONENT
from .ledger import Entry

EXACT, MACHINES, TIMES, EXPONENTS = 0.0, 1e-4, 0.25, 0.2
"""Tolerances, relative: of what is counted; of what is computed with the same seed on other processors; of ratios of times. Exponents of n
may differ by so much, whatever they are."""


class Left(Exception):
    """The time was up; the sentence says what is left."""


def count_parameters(scale: str, common: Dict[str, Any]) -> List[Entry]:
    """Of each sharing at 12 layers and 12 heads, n = 512, k = 256; the same at every scale."""
    begun, found = time.monotonic(), {}
    for sharing in ("none", "headwise", "key-value", "layerwise"):
        matrices, inside, total = parameters.count("linear", sharing)
        found |= {f"{sharing}: matrices": once(matrices, "matrices"), f"{sharing}: parameters in them": ledger.Measurement(inside, "parameters", None, 1),
                  f"{sharing}: parameters": ledger.Measurement(total, "parameters", None, 1)}  # fmt: skip
    found["roberta: parameters"] = ledger.Measurement(parameters.count()[2], "parameters", None, 1)
    return [_counted(f"parameters-{scale}", "Matrices E and F, and parameters, of a model of base size by sharing, n = 512, k = 256",
                     {"value": {"headwise": 24, "key-value": 12, "layerwise": 1}, "where": "section 4, additional efficiency techniques"}, found,
                     {"n": 512, "k": 256, "layers": 12, "heads": 12}, begun, common)]  # fmt: skip


OPERATIONS = {"smoke": (64, 2, 16, (64, 128, 256)), "cpu": (768, 12, 256, (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536))}
"""Width, heads, k, lengths."""


def count_operations(scale: str, common: Dict[str, Any]) -> List[Entry]:
    """Of the matrix products of a layer, a token, as PyTorch counts them."""
    begun, found = time.monotonic(), {}
    width, heads, k, lengths = OPERATIONS["smoke" if scale == "smoke" else "cpu"]
    for n in lengths:
        config = LinformerConfig(vocab_size=8, max_positions=n, projected_dim=k, sharing="layerwise", layers=1, embed_dim=width, ffn_embed_dim=4 * width,
                                 attention_heads=heads, dropout=0.0, attention_dropout=0.0)  # fmt: skip
        for name, make in (("linformer", LinformerEncoder), ("transformer", lambda c: transformer(c, "eager"))):
            # Shapes without memory; of a fused kernel no operation would be counted.
            with FakeTensorMode(), torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
                encoder, tokens = make(config).eval(), torch.full((1, n), 4)
                found[f"n={n}: {name}"] = ledger.Measurement(counted(lambda: encoder(tokens, padded=False)) / n, "operations a token", None, 1)
    claim = f"Operations a token of the matrix products of a layer, forward, k = {k}"
    return [_counted(f"operations-{scale}", claim, {"value": None, "where": "Table 1"}, found,
                     {"width": width, "heads": heads, "k": k, "lengths": list(lengths)}, begun, common)]  # fmt: skip


def _counted(identifier: str, claim: str, paper: Dict[str, Any], measured: Dict, configuration: Dict[str, Any], begun: float, common: Dict[str, Any]) -> Entry:
    tolerance = {m.unit: EXACT for m in measured.values()}
    return Entry(identifier=identifier, claim=claim, paper=paper, measured=measured, configuration={**configuration, "tolerance": tolerance},
                 seconds=round(max(time.monotonic() - begun, 0.001), 3), **common)  # fmt: skip


THEOREMS = {"smoke": ([16, 32], 8, 4), "cpu": ([128, 512, 2048], 64, 60)}
"""Lengths, width of a head, draws of R."""


def theorems_on_random_heads(scale: str, folder: Path, common: Dict[str, Any]) -> List[Entry]:
    """Theorem 1 and theorem 2 (and the best of each rank, of the same run)."""
    lengths, width, draws = THEOREMS["smoke" if scale == "smoke" else "cpu"]
    out, where = folder / "theorems", folder / "theorems.json"
    if not (out / theorems.NUMBERS).exists():
        theorems.run(theorems.random_groups(lengths, width, 1), out, draws, 0.5, 1, {"heads": "random", "lengths": lengths, "width": width})
        where.unlink(missing_ok=True)
    if not where.exists():  # numbers that are taken up later are still those of this commit and machine
        with atomic(where) as file:
            json.dump({name: common[name] for name in ("commit", "hardware", "versions", "date")}, file, indent=1)
    found = {"random": json.loads((out / theorems.NUMBERS).read_text(encoding="utf-8"))}
    told = {**common, **json.loads(where.read_text(encoding="utf-8"))}
    entries = theorem_entries(found, told.pop("commit"), "", told)
    return [_of_scale(entry, scale, {m.unit: MACHINES for m in entry.measured.values()}, common["command"]) for entry in entries]


_SMOKE = dict(device="cpu", dtype="fp32", layers=1, rounds=2, embed_dim=64, heads=1, warm_up=0)
_CPU = dict(device="cpu", dtype="fp32", layers=2, rounds=3, embed_dim=768, heads=12, warm_up=1)
_GPU = {**_CPU, "device": "cuda", "dtype": "bf16", "layers": 12}
_FAMILIES = ("transformer-eager", "transformer-sdpa", "linformer")
CELLS: Dict[str, Dict[str, Callable[[], list]]] = {
    "table-1": {
        "smoke": lambda: scaling.rows((64, 128), models=_FAMILIES, k=16, **_SMOKE),
        "cpu": lambda: scaling.rows((512, 1024, 2048, 4096, 8192), models=tuple(scaling.families()), k=256, usable_gib=8.0, **_CPU),
        "gpu": lambda: scaling.rows(models=tuple(scaling.families()), k=256, usable_gib=70.0, **_GPU),
    },
    "figure-2": {
        "smoke": lambda: [scaling.PerToken((64, 128), k=16, tokens=128, **_SMOKE)],
        "cpu": lambda: [scaling.PerToken(k=256, **_CPU)],
        "gpu": lambda: [scaling.PerToken(k=256, **_GPU)],
    },
    "table-3": {
        "smoke": lambda: inference.rows((256,), (128,), tokens=256, **_SMOKE),
        "cpu": lambda: inference.rows((512, 1024, 2048, 4096, 8192, 16384), usable_gib=8.0, tokens=4096, **_CPU),
        "gpu": lambda: inference.rows(usable_gib=70.0, tokens=65536, **_GPU),
    },
}  # fmt: skip
"""Cells of the benchmark by experiment and scale, as scripts/benchmark.sh has them at cpu."""


def timed(experiment: str, scale: str, folder: Path, minutes: Optional[float], common: Dict[str, Any]) -> List[Entry]:
    """
    Raises:
        Left: some cells are not measured yet.
    """
    out = folder / "cells"
    every = CELLS[experiment][scale]()
    left = cells.measure(every, out, cells.Provenance(common["commit"], common["command"]), minutes)
    if left:
        raise Left(f"{experiment}: time is up, {len(left)} of {len(every)} cells are left; the same command goes on")
    tolerance = {"ratio of times": TIMES, "ratio of times per token": TIMES, "ratio of batches": EXACT, "ratio of bytes": EXACT, EXPONENT: EXPONENTS}
    return [_of_scale(entry, scale, tolerance, common["command"]) for entry in benchmarks.entries(out)]


def _of_scale(entry: Entry, scale: str, tolerance: Dict[str, float], command: str) -> Entry:
    """Under a name of its own, beside what the command of its kind measured."""
    return replace(entry, identifier=f"{entry.identifier}-{scale}", scale=scale, command=command, configuration={**entry.configuration, "tolerance": tolerance})


def entries_of(experiment: str, scale: str, runs, minutes: Optional[float], command: str) -> List[Entry]:
    """Measure an experiment, or what is left of it.

    Args:
        runs: folder; what is measured in pieces is in it.

    Raises:
        ValueError: it has no such scale.
        Left: the time was up.
    """
    if scale not in EXPERIMENTS[experiment]:
        raise ValueError(f"{experiment} has no scale {scale}; it has {', '.join(EXPERIMENTS[experiment])}")
    folder = Path(runs) / scale / experiment
    common = {"commit": ledger.current_commit(), **ledger.circumstances("none: shapes, random tokens and random heads", command, scale)}
    if experiment in CELLS:
        found = timed(experiment, scale, folder, minutes, common)
    elif experiment.startswith("theorem"):
        found = theorems_on_random_heads(scale, folder.with_name("theorems"), common)
    else:
        found = COUNTED[experiment](scale, common)
    mine = [e for e in found if not experiment.startswith("theorem") or e.identifier.startswith(experiment)]  # one run is for both theorems
    return [replace(e, configuration={**e.configuration, "experiment": experiment}) for e in mine]


COUNTED: Dict[str, Callable[..., List[Entry]]] = {"parameters": count_parameters, "operations": count_operations}
"""Experiments that nothing is kept of but their entries."""
EXPERIMENTS: Dict[str, tuple] = {**{name: tuple(scales) for name, scales in CELLS.items()}, "theorem-1": ("smoke", "cpu"), "theorem-2": ("smoke", "cpu"),
                                 **dict.fromkeys(COUNTED, ("smoke", "cpu"))}  # fmt: skip
