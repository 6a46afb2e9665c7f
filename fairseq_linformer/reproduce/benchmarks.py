"""What the cells of a benchmark say, as ledger entries.

Names of measurements: ``n=512 k=128: eager / linformer`` is a ratio of times, above 1 where the Linformer is faster.
"""

import re
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from ..benchmark.cells import entry_of, read_all
from ..benchmark.encoders import BASELINES
from ..benchmark.entries import VARYING, check
from ..benchmark.flops import utilisation
from ..benchmark.scaling import exponent
from ..benchmark.timing import Spread, ratio, spread_of
from . import paper
from .ledger import Entry, Measurement

KINDS = ("inference", "whole", "scaling", "pertoken", "training", "process", "shares", "finetuning")
DATA = "random tokens"
EXPONENT = "exponent of n"
"""A unit."""

CLAIMS = {
    "inference": "A full forward pass without gradients, Transformer (eager: materialised weights; sdpa: PyTorch's fused kernel) against Linformer "
    "with layerwise sharing, equal tokens: how many times the time, and how many times the largest batch",
    "whole": "Features of a batch from fairseq's own models: times of RoBERTa and of the authors' code over ours",
    "scaling": "Time of a forward pass at a fixed number of tokens for the families of Table 1 and later ones, random weights, equal sizes: "
    "microseconds a token, and the exponent of n in it",
    "pertoken": "Time per token of the Linformer's forward pass at several n, in one interleaved run",
    "training": "A whole training step (forward, backward, optimizer; in half precision weights, gradients and Adam's moments are in it too): "
    "times of the others over ours, tokens a second, model FLOPs utilisation, and bytes at most beside parameters and gradients",
    "process": "A whole fairseq-train process on random tokens: words a second as it logs them, over all updates but those that warm up, and the "
    "most memory of the host it had",
    "shares": "An update of fairseq-train on random tokens, with timers around the calls of its training loop: the share that each part takes",
    "finetuning": "A whole fairseq-train process that finetunes on real sentences: tokens a second as it logs them, over all updates but those that "
    "warm up, and the most memory of the host it had",
}
WHERE = {
    "inference": "section 5.3, Table 3", "whole": "section 5.3, Table 3", "scaling": "Table 1, and Figure 2, top right", "pertoken": "Figure 2, top right",
    "training": "the paper gives no time of training", "process": "the paper gives no time of training",
    "shares": "the paper gives no time of training", "finetuning": "the paper gives no time of finetuning",
}  # fmt: skip


def entries(folder: Path) -> Iterator[Entry]:
    """An entry for each kind, device, precision and number of layers in a folder of cells, if any of them has a number.

    Raises:
        ValueError: a file is damaged, or cells of one entry are of different machines or options.
    """
    for kind in KINDS:
        groups: Dict[str, List[Dict[str, Any]]] = {}
        for cell in read_all(folder, kind):
            groups.setdefault(entry_of(cell), []).append(cell)
        for identifier, cells in groups.items():
            if any(_measured(kind, cell) for cell in cells):
                yield _entry(identifier, kind, sorted(cells, key=lambda cell: cell["configuration"].get("n", 0)))


def failures(folder: Path) -> List[str]:
    """What could not be measured in a folder of cells, and why."""
    return [f"{cell['name']}: {name}: {why}" for kind in KINDS for cell in read_all(folder, kind) for name, why in _failed(cell).items()]


def _failed(cell) -> Dict[str, str]:
    return cell["measured"].get("failed", {})


def _measured(kind: str, cell) -> Dict[str, Measurement]:
    """
    Raises:
        ValueError: what a cell says that it measured is not what such a cell measures.
    """
    try:
        return dict(MEASURED[kind](cell))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{cell['name']}.json is a damaged cell: {type(error).__name__}: {error}") from None


def _entry(identifier: str, kind: str, cells: List[Dict[str, Any]]) -> Entry:
    for cell in cells:
        check(cell, cells[0])
    if all("peak_operations_per_second" in cell for cell in cells):  # a product on a machine that others use too is never too fast
        cells = [{**cell, "peak_operations_per_second": max(each["peak_operations_per_second"] for each in cells)} for cell in cells]
    measured = {name: m for cell in cells for name, m in _measured(kind, cell).items()}
    if kind == "scaling":
        measured.update(_exponents(cells))
    common = {name: value for name, value in cells[0]["configuration"].items() if name not in VARYING}
    if "models" in common:  # a cell may have some only
        common["models"] = list(dict.fromkeys(name for cell in cells for name in cell["configuration"]["models"]))
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
        configuration={**common, **{key: cells[0][key] for key in ("threads", "clock", "peak_from") if key in cells[0]},
                       "cells": {cell["name"]: {**{k: v for k, v in cell["configuration"].items() if k in VARYING}, **_beside(cell)} for cell in cells},
                       "failed": {cell["name"]: _failed(cell) for cell in cells if _failed(cell)}},
        data=common.get("data", DATA),
        command="; ".join(dict.fromkeys(cell["command"] for cell in cells)),
        seconds=max(0.1, round(sum(cell["seconds"] for cell in cells), 1)),
        date=max(cell["date"] for cell in cells),
    )  # fmt: skip


def _beside(cell) -> Dict[str, Any]:
    """What each cell has of its own: what its utilisation is a share of, which kernels the fused attention took, and what of its bytes
    was counted where a GPU was not asked."""
    own = {name: cell.get(name) for name in ("peak_operations_per_second", "kernels")}
    return {name: value for name, value in {**own, "counted": cell["measured"].get("counted")}.items() if value}


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
    for name in dict.fromkeys(name for cell in cells for name in cell["configuration"]["models"]):
        points = [(cell["configuration"]["n"], spread_of(cell["measured"]["seconds"][name]).median / cell["configuration"]["tokens"])
                  for cell in cells if name in cell["measured"]["seconds"]]  # fmt: skip
        for what, some in (("exponent", points), ("exponent of the longer half", points[len(points) // 2 :])):
            if len(some) >= 2:
                found[f"{name}: {what}"] = _once(exponent(*zip(*some)), EXPONENT)
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
        if ours in found["bytes"] and name != ours:
            yield f"{what}: bytes of {ours} / {name}", _once(found["bytes"][ours] / size, "ratio of bytes")
    for name, values in found.get("seconds", {}).items():
        yield f"{what}: {name}", _as(spread_of([found["tokens"] / s for s in values]), "tokens/s")
        used = [utilisation(found["operations"][name], s, cell["peak_operations_per_second"]) for s in values]
        yield f"{what}: utilisation by {name}", _as(spread_of(used), "share of the peak")
        if ours in found["seconds"] and name != ours:
            yield f"{what}: {name} / {ours}", _as(ratio(values, found["seconds"][ours]), "ratio of times")


def _process(cell) -> Found:
    found, n = cell["measured"], cell["configuration"]["n"]
    where = "" if cell["configuration"]["device"] == "cpu" else "host "
    for name, values in found["words"].items():
        yield f"n={n}: {name}", _as(spread_of(values), "words/s")
        yield f"n={n}: {where}memory of {name}", _as(spread_of(found["bytes"][name]), "MiB", 2**-20)
        if name != "ours" and "ours" in found["words"]:
            yield f"n={n}: ours / {name}", _as(ratio(found["words"]["ours"], values), "ratio of words/s")


def _shares(cell) -> Found:
    """The share of all updates together, and the lowest and highest of one."""
    n = cell["configuration"]["n"]
    for name, parts in cell["measured"]["seconds"].items():
        whole = parts["whole"]
        yield f"n={n}: whole of {name}", _as(spread_of(whole), "s")
        for part, taken in parts.items():
            if part != "whole":
                each = [a / b for a, b in zip(taken, whole)]
                yield f"n={n}: {part} of {name}", _as(Spread(sum(taken) / sum(whole), min(each), max(each), len(each)), "share of an update")


MEASURED = {"inference": _inference, "whole": _whole, "scaling": _scaling, "pertoken": _pertoken, "training": _training,
            "process": _process, "shares": _shares, "finetuning": _process}  # fmt: skip


def lengths_of(entry: Entry) -> List[int]:
    """Every n of an entry, rising."""
    return sorted({c["n"] for c in entry.configuration["cells"].values() if "n" in c})


def entry_with(entries_: Sequence[Entry], name: str, identifier: str) -> Optional[Entry]:
    """The entry that has the measurement of that name: the one called so, or, where the identifier does not say how many
    layers, the one with most; none with other options, such as --compile."""
    fitting = [e for e in entries_ if re.fullmatch(re.escape(identifier) + r"(-l\d+)?", e.identifier) and name in e.measured]
    return max(fitting, key=lambda e: e.configuration["layers"]) if fitting else None
