"""What the cells of a benchmark say, as ledger entries.

Names of measurements: ``n=512 k=128: eager / linformer`` is a ratio of times, above 1 where the Linformer is faster.
"""

from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from ..benchmark.cells import read_all
from ..benchmark.encoders import BASELINES
from ..benchmark.scaling import exponent
from ..benchmark.timing import Spread, ratio, spread_of
from . import paper
from .ledger import Entry, Measurement

KINDS = ("inference", "whole", "scaling", "pertoken", "training", "process")
DATA = "random tokens"
_VARYING = ("n", "dimensions", "batch", "positions", "classify", "memory", "tokens", "rounds")
"""Options in which cells of one entry differ; the others must be the same."""

CLAIMS = {
    "inference": "A full forward pass without gradients, Transformer (eager: materialised weights; sdpa: PyTorch's fused kernel) against Linformer "
    "with layerwise sharing, equal tokens: how many times the time, and how many times the largest batch",
    "whole": "Features of a batch from fairseq's own models: times of RoBERTa and of the authors' code over ours",
    "scaling": "Time of a forward pass at a fixed number of tokens for the families of Table 1 and later ones, random weights, equal sizes: "
    "microseconds a token, and the exponent of n in it",
    "pertoken": "Time per token of the Linformer's forward pass at several n, in one interleaved run",
    "training": "A whole training step (forward, backward, optimizer): times of the others over ours, tokens a second, model FLOPs "
    "utilisation, and bytes at most beside parameters and gradients",
    "process": "A whole fairseq-train process on random tokens: words a second as it logs them, and the most memory it had",
}
WHERE = {
    "inference": "section 5.3, Table 3", "whole": "section 5.3, Table 3", "scaling": "Table 1, and Figure 2, top right", "pertoken": "Figure 2, top right",
    "training": "the paper gives no time of training", "process": "the paper gives no time of training",
}  # fmt: skip


def entries(folder: Path) -> Iterator[Entry]:
    """An entry for each kind, device, precision and number of layers in a folder of cells.

    Raises:
        ValueError: a file is damaged, or cells of one entry are of different machines or options.
    """
    for kind in KINDS:
        groups: Dict[str, List[Dict[str, Any]]] = {}
        for cell in read_all(folder, kind):
            c = cell["configuration"]
            variant = "".join(f"-{o.strip('-')}" for o in c.get("options", ())) + _variant(cell["name"])
            groups.setdefault(f"benchmark-{kind}-{c['device']}-{c['dtype']}-l{c['layers']}{variant}", []).append(cell)
        for identifier, cells in groups.items():
            yield _entry(identifier, kind, sorted(cells, key=lambda cell: cell["configuration"].get("n", 0)))


def _variant(name: str) -> str:
    return "-bare" * ("-bare" in name) + "-peers" * ("-peers" in name)


def _entry(identifier: str, kind: str, cells: List[Dict[str, Any]]) -> Entry:
    measured = {name: m for cell in cells for name, m in MEASURED[kind](cell)}
    if kind == "scaling":
        measured.update(_exponents(cells))
    common = {name: value for name, value in cells[0]["configuration"].items() if name not in _VARYING}
    for cell in cells:
        differing = [name for name, value in common.items() if cell["configuration"].get(name) != value and name != "models"]
        same_machine = all(cell[key] == cells[0][key] for key in ("hardware", "versions", "threads", "clock"))
        if differing or not same_machine:
            raise ValueError(f"{cell['name']} and {cells[0]['name']} differ in {differing[0] if differing else 'machine, versions or threads'}; "
                             "one folder is for one machine and one set of options")  # fmt: skip
    values = {f"n={n} k={k}": {"time": paper.table_3(paper.TABLE_3_TIME, n, k), "memory": paper.table_3(paper.TABLE_3_MEMORY, n, k)}
              for n in paper.TABLE_3_TIME for k in paper.TABLE_3_DIMENSIONS if k < n and paper.table_3(paper.TABLE_3_TIME, n, k)}  # fmt: skip
    return Entry(
        identifier=identifier,
        claim=CLAIMS[kind],
        paper={"value": values if kind == "inference" else None, "where": WHERE[kind]},
        measured=measured,
        scale="cpu" if cells[0]["configuration"]["device"] == "cpu" else "gpu",
        hardware=cells[0]["hardware"],
        versions=cells[0]["versions"],
        commit="; ".join(sorted({cell["commit"] for cell in cells})),
        configuration={**common, "threads": cells[0]["threads"], "clock": cells[0]["clock"], "peak_operations_per_second": cells[0]["peak_operations_per_second"],
                       "cells": {cell["name"]: {k: v for k, v in cell["configuration"].items() if k in _VARYING} for cell in cells}},
        data=DATA,
        command=cells[0]["command"],
        seconds=max(0.1, round(sum(cell["seconds"] for cell in cells), 1)),
        date=max(cell["date"] for cell in cells),
    )  # fmt: skip


Found = Iterable[Tuple[str, Measurement]]


def _as(spread: Spread, unit: str, factor: float = 1.0) -> Measurement:
    values = [_rounded(factor * x) for x in (spread.median, spread.lowest, spread.highest)]
    return Measurement(values[0], unit, values[1:] if spread.repetitions > 1 else None, spread.repetitions)


def _once(value: float, unit: str) -> Measurement:
    return Measurement(_rounded(value), unit, None, 1)


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _inference(cell) -> Found:
    c, found = cell["configuration"], cell["measured"]
    seconds, largest = found["seconds"], found["largest"]
    for name, values in seconds.items():
        yield f"n={c['n']}: seconds of {name}", _as(spread_of(values), "s")
    for k in c["dimensions"]:
        ours = f"k={k}"
        for base in BASELINES:
            what = f"n={c['n']} k={k}: {base} / linformer"
            if base in seconds and ours in seconds:
                yield what, _as(ratio(seconds[base], seconds[ours]), "ratio of times")
            if largest.get(base) and largest.get(ours):
                yield f"{what}, largest batch", _once(largest[ours] / largest[base], "ratio of batches")
            if base in found["bytes"] and ours in found["bytes"]:
                each = [after - before for before, after in (found["bytes"][base], found["bytes"][ours])]
                yield f"{what}, bytes a sentence", _once(each[0] / each[1], "ratio of bytes")


def _whole(cell) -> Found:
    n, seconds = cell["configuration"]["n"], cell["measured"]["seconds"]
    for name, values in seconds.items():
        yield f"n={n}: seconds of {name}", _as(spread_of(values), "s")
        if name != "ours" and "ours" in seconds:
            yield f"n={n}: {name} / ours", _as(ratio(values, seconds["ours"]), "ratio of times")


def _scaling(cell) -> Found:
    c = cell["configuration"]
    for name, values in cell["measured"]["seconds"].items():
        yield f"n={c['n']}: {name}", _as(spread_of(values), "microseconds a token", 1e6 / c["tokens"])


def _exponents(cells) -> Dict[str, Measurement]:
    """Of the time per token, over all lengths of each model, and over the longer half of them."""
    found = {}
    for name in cells[0]["configuration"]["models"]:
        points = [(cell["configuration"]["n"], spread_of(cell["measured"]["seconds"][name]).median / cell["configuration"]["tokens"])
                  for cell in cells if name in cell["measured"]["seconds"]]  # fmt: skip
        for what, some in (("exponent", points), ("exponent of the longer half", points[len(points) // 2 :])):
            if len(some) >= 2:
                found[f"{name}: {what}"] = _once(exponent(*zip(*some)), "exponent of n")
    return found


def _pertoken(cell) -> Found:
    seconds = cell["measured"]["seconds"]
    shortest, *longer = sorted(seconds, key=int)
    for n in longer:
        yield f"n={n} / n={shortest}", _as(ratio(seconds[n], seconds[shortest]), "ratio of times per token")


def _training(cell) -> Found:
    c, found = cell["configuration"], cell["measured"]
    what = f"{'finetuning' if c['classify'] else 'pretraining'} n={c['n']}"
    ours = next((name for name in ("ours", "ours-modules") if name in c["models"]), None)
    for name, size in found.get("bytes", {}).items():
        yield f"{what}: bytes of {name}", _once(size, "bytes")
        if ours and name != ours:
            yield f"{what}: bytes of {ours} / {name}", _once(found["bytes"][ours] / size, "ratio of bytes")
    for name, values in found.get("seconds", {}).items():
        yield f"{what}: {name}", _as(spread_of([found["tokens"] / s for s in values]), "tokens/s")
        used = [found["operations"][name] / s / cell["peak_operations_per_second"] for s in values]
        yield f"{what}: utilisation by {name}", _as(spread_of(used), "share of the peak")
        if ours and name != ours:
            yield f"{what}: {name} / {ours}", _as(ratio(values, found["seconds"][ours]), "ratio of times")


def _process(cell) -> Found:
    found, n = cell["measured"], cell["configuration"]["n"]
    for name, values in found["words"].items():
        yield f"n={n}: {name}", _as(spread_of(values), "words/s")
        yield f"n={n}: memory of {name}", _as(spread_of(found["bytes"][name]), "MiB", 2**-20)


MEASURED = {"inference": _inference, "whole": _whole, "scaling": _scaling, "pertoken": _pertoken, "training": _training, "process": _process}


def lengths_of(entry: Entry) -> List[int]:
    """Every n of an entry, rising."""
    return sorted({c["n"] for c in entry.configuration["cells"].values() if "n" in c})


def value(entries_: Sequence[Entry], name: str, start: str = "") -> Optional[Measurement]:
    """The measurement of that name, of the entry with most layers among those whose identifier starts so."""
    fitting = [e for e in entries_ if e.identifier.startswith(start) and name in e.measured]
    return max(fitting, key=lambda e: e.configuration["layers"]).measured[name] if fitting else None
