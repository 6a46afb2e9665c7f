"""The paper's figures from entries of the ledger: which numbers go into which chart.

The paper prints no numbers for its figures, so that what stands beside ours is what it says of them; Table 3 is printed, and drawn.
"""

import re
from typing import Callable, Dict, List, Optional, Sequence, Tuple, Union

from ...analysis import theorem1
from ...benchmark.inference import PAPER_MEMORY
from .. import paper
from ..analysis_entries import CUMULATIVE
from ..benchmark_bars import setting
from ..benchmarks import lengths_of
from ..cells import groups
from ..ledger import Entry
from ..theorems_text import EPSILON, NOTHING, PROOF
from .charts import Chart, Heat, Series

Drawn = Union[Chart, Heat]
MOST_LINES = 10
"""A chart of more is not read; its numbers stand in the table."""


def trained(entry: Entry, title: str) -> List[Drawn]:
    """Validation perplexity over updates: Figure 3. Of ``reproduce`` (``NAME, seed 1``, in bits) and of earlier entries."""
    by_model: Dict[str, List] = {}
    for name, curve in entry.curves.items():
        known = entry.measured.get(name)
        in_bits = known is None or known.unit != "perplexity"
        points = [(update, 2**value if in_bits else value) for update, value in curve]
        by_model.setdefault(re.sub(r", seed \d+$", "", name), []).append(points)
    if not by_model or len(by_model) > MOST_LINES:
        return []
    shared = _shared([name.split(" ") for name in by_model]) if len(by_model) > 1 else ""
    pairs = _pairs(list(by_model))
    series = [Series(name.removeprefix(shared), runs, name in pairs and name.startswith("roberta"), pairs.get(name)) for name, runs in by_model.items()]
    levels = [(f"without context: {level:.0f}", level)] if (level := _level(entry)) else []
    about = f" ({shared.strip()})" if shared else ""
    axis, note = _updates(entry)
    return [Chart(f"curves-{entry.identifier}", title + about, axis, "validation perplexity", series, levels, log_y=True, note=note)]


def _pairs(names: List[str]) -> Dict[str, int]:
    """Where each n has its RoBERTa, the colour of both."""
    if not any(name.startswith("roberta n=") for name in names):
        return {}
    colours = {name: i for i, name in enumerate(name for name in names if name.startswith("n="))}
    first = min(colours, key=lambda name: int(name[2:]), default="")
    return colours | {name: colours.get(name.removeprefix("roberta ") if " " in name else first, len(colours)) for name in names if name.startswith("roberta")}


def _level(entry: Entry) -> Optional[float]:
    """Perplexity of a model without context, on the validation split as the curves."""
    if plateau := entry.measured.get("plateau: bits"):
        return 2**plateau.value
    level = entry.measured.get("valid_context_free_perplexity")
    return level and level.value


def _updates(entry: Entry) -> Tuple[str, str]:
    """What the axis of a curve begins after, and what is to be known of the points; of entries that say how each run came about."""
    runs = {name: run for name, run in entry.configuration.get("runs", {}).items() if isinstance(run, dict) and "made" in run}
    if not runs:
        return "updates", ""
    note = "A point is of a part of the validation split, in an order that depends on the seed; the tables' numbers are of all of it, with masks of one seed."
    starts = [run.get("from") for run in runs.values()]
    before = {name: _updates_of(run.get("from")) for name, run in runs.items()}
    if not any(starts):
        return "updates, from scratch", note
    if len(set(before.values())) > 1:
        return "updates of the last stage", f"{note} Updates before it: {', '.join(f'{name} {u:,}' for name, u in before.items())}."
    updates = next(iter(before.values()))
    if all(start == starts[0] for start in starts):
        return f"updates after the common RoBERTa of {updates:,} updates", note
    if all(start["model"].get("k") is None for start in starts):
        return f"updates after a RoBERTa of {updates:,} updates", f"{note} Each n starts from the RoBERTa of that n; all have as many updates."
    return f"updates after {updates:,} of what each starts from", note


def _updates_of(run: Optional[dict]) -> int:
    """Of a run and of all that it came from."""
    return 0 if run is None else run["updates"] + _updates_of(run.get("from"))


def _shared(names: List[List[str]]) -> str:
    """The words that all names begin with."""
    words = []
    for column in zip(*(name[:-1] for name in names)):
        if len(set(column)) > 1:
            break
        words.append(column[0])
    return "".join(word + " " for word in words)


def figure_1(entry: Entry) -> List[Drawn]:
    """Cumulative singular values by layer, a chart for each n; and by head at a quarter of them, of the first text of that n."""
    drawn: List[Drawn] = []
    facts = entry.configuration["runs"]
    for n in sorted({run["n"] for run in facts.values()}, reverse=True):
        runs = [name for name, run in facts.items() if run["n"] == n]
        series = [Series(f"{_text(run)}, layer {name.split('; layer = ')[1].split(';')[0]}", [[(x, y) for x, y in points]])
                  for run in runs for name, points in entry.curves.items() if name.startswith(f"run = {run}; layer = ")]  # fmt: skip
        if series:
            drawn.append(Chart(f"cumulative-n{n}-{entry.identifier}", f"Figure 1 (left), n = {n}, {entry.identifier}",
                               "index of the singular value, largest first", "cumulative share, mean over heads", series))  # fmt: skip
        layers: Dict[str, Dict[str, float]] = {}
        for where, cells in groups(entry, "run", "layer", "head"):
            if where["run"] == runs[0]:
                layers.setdefault(where["layer"], {})[where["head"]] = cells[CUMULATIVE].value
        index = facts[runs[0]]["index"]
        if layers:
            heads = list(next(iter(layers.values())))
            drawn.append(Heat(f"heads-n{n}-{entry.identifier}", f"Figure 1 (right), n = {n}, {_text(runs[0])}, {entry.identifier}",
                              [f"layer {layer}" for layer in layers], [f"head {head}" for head in heads],
                              [[row[head] for head in heads] for row in layers.values()], f"cumulative share at singular value {index} of {facts[runs[0]]['singular_values']}"))  # fmt: skip
    return drawn


def _text(run: str) -> str:
    """``RoBERTa, n = 64, Wikipedia``: the text, which tells runs of one n apart."""
    return run.split(", ")[-1]


def theorem_1(entry: Entry) -> List[Drawn]:
    """The probability of the theorem by k at one eps, and what the proof promises."""
    series: Dict[str, List] = {}
    promised: Dict[int, List] = {}
    for where, cells in groups(entry, "heads", "n", "k", "eps"):
        if float(where["eps"]) == EPSILON:
            n, k = int(where["n"]), int(where["k"])
            series.setdefault(f"{where['heads']}, n = {n}", []).append((k, cells["theorem"].value))
            if (bound := theorem1.theorem_bound(n, k, EPSILON)) > 0:
                promised.setdefault(n, []).append((k, bound))
    lines = [Series(name, [sorted(points)]) for name, points in series.items()]
    names = [line.name for line in lines]
    lines += [Series(f"bound of the proof, n = {n}", [sorted(set(points))], True, next(i for i, name in enumerate(names) if name.endswith(f" n = {n}")))
              for n, points in promised.items()]  # fmt: skip
    title = f"Theorem 1, eps = {EPSILON}, {entry.identifier}"
    return _lines(f"probability-{entry.identifier}", title, "k", "probability that P w is within eps", lines, log_x=True)


def theorem_2(entry: Entry) -> List[Drawn]:
    """Rows within eps by k, with E and F of the proof and with none at all."""
    series: Dict[str, List] = {}
    for where, cells in groups(entry, "heads", "n", "d", "k", "X"):
        if where["X"] in (PROOF, NOTHING) and where["heads"] in ("random", "RoBERTa") and "spectral within eps" in cells:
            series.setdefault(f"{where['heads']}, n = {where['n']}, {where['X']}", []).append((int(where["k"]), cells["spectral within eps"].value))
    lines = [Series(name, [sorted(points)]) for name, points in series.items()]
    return _lines(f"rows-{entry.identifier}", f"Theorem 2, eps = {EPSILON}, {entry.identifier}", "k", "share of rows within eps", lines, log_x=True)


def scaling(entry: Entry) -> List[Drawn]:
    """Time of a token by n, with as many tokens for each n: Figure 2 (top right)."""
    lines = []
    for name in entry.configuration["models"]:
        points = [(n, m.value) for n in lengths_of(entry) if (m := entry.measured.get(f"n={n}: {name}"))]
        lines += [Series(name, [points])] if points else []
    keep = [s for s in lines if s.name.startswith(("linformer", "transformer"))]
    lines = lines if len(lines) <= MOST_LINES else keep
    return _lines(f"figure-2-{entry.identifier}", f"Figure 2 (top right), {entry.identifier}", "n", "microseconds a token", lines, log_x=True, log_y=True)


def table_3(found: Sequence[Entry]) -> List[Drawn]:
    """Both halves of Table 3 as lines, the paper's beside ours of the first entry that has the cell."""
    drawn = []
    for half, title, ending in ((paper.TABLE_3_TIME, "time", ""), (paper.TABLE_3_MEMORY, "memory", ", largest batch")):
        lines = []
        for i, k in enumerate(paper.TABLE_3_DIMENSIONS):
            printed = [(n, value) for n in half if (value := paper.table_3(half, n, k)) is not None]
            lines.append(Series(f"k = {k}, paper", [printed], True, i))
            for entry in found[:1]:
                points = [(n, m.value) for n in lengths_of(entry) if (m := entry.measured.get(f"n={n} k={k}: eager / linformer{ending}"))]
                lines += [Series(f"k = {k}, ours", [points], False, i)] if points else []
        name = f"Table 3 ({'left' if title == 'time' else 'right'}): {title} saved" + "".join(f"; ours: {of_table_3(entry, title)}" for entry in found[:1])
        drawn.append(Chart(f"table-3-{title}-chart", name, "n", "times the Transformer's", lines, log_x=True, log_y=True))
    return drawn


def of_table_3(entry: Entry, half: str) -> str:
    """What ours is of, which is not the paper's 12 layers on a V100: of its half ``time`` or ``memory``."""
    device, dtype = entry.identifier.split("-")[2:4]
    computed = f", largest batches computed for {entry.configuration.get('memory_gib', PAPER_MEMORY):g} GiB" if half == "memory" else ""
    return f"{setting(entry)}, {device.upper()}, {dtype}{computed}"


def _lines(identifier: str, title: str, x: str, y: str, lines: List[Series], **scales: bool) -> List[Drawn]:
    return [Chart(identifier, title, x, y, lines, **scales)] if lines else []


def of_experiment(experiment: str, found: Sequence[Entry]) -> List[Drawn]:
    """The charts of one section of the report.

    Args:
        found: its entries, those of the largest scale first.
    """
    if experiment == "table-3":
        return table_3([e for e in found if e.identifier.startswith("benchmark-inference-")])
    drawn: List[Drawn] = []
    for entry in found if experiment != "table-1" else []:  # its curves are those of Figure 2
        make = next((make for prefix, make in _MAKERS.items() if entry.identifier.startswith(prefix)), None)
        title = f"{_title(experiment)}, {entry.scale} scale" if entry.identifier == f"{experiment}-{entry.scale}" else entry.identifier
        drawn += make(entry) if make else trained(entry, title)
    return drawn


def _title(experiment: str) -> str:
    return re.sub(r"^Figure 3(.)", r"Figure 3 (\1)", experiment.replace("-", " ").capitalize().replace("Figure 3 ", "Figure 3"))


_MAKERS: Dict[str, Callable[[Entry], List[Drawn]]] = {
    "spectrum-": figure_1, "theorem-1": theorem_1, "theorem-2": theorem_2, "benchmark-scaling-": scaling,
    "benchmark-": lambda entry: [], "finetuning-": lambda entry: [],
}  # fmt: skip
