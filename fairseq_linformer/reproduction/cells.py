"""Benchmark cells (the JSON files of ``benchmark.cells``) as results.

A cell is resumed by its file: RUNS/SCALE/EXPERIMENT/PART/CELL.json
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..benchmark.cells import BenchmarkCell, Provenance, cell_kind, is_out_of_memory, measure_cells, read_cell
from ..benchmark.encoders import BASELINES
from ..benchmark.flops import utilization
from ..benchmark.timing import Spread, ratio_spread, summarize
from ..machine import current_commit
from .result import Inputs, Result, Row, Rows, significant, spread

Cell = dict[str, Any]

_COMMON = dict(device="cpu", dtype="fp32", rounds=3, embed_dim=768, heads=12, warm_up=1)
SMOKE: dict[str, Any] = {**_COMMON, "layers": 1, "rounds": 2, "embed_dim": 64, "heads": 1, "warm_up": 0}
CPU: dict[str, Any] = {**_COMMON, "layers": 2}
GPU: dict[str, Any] = {**_COMMON, "layers": 12, "device": "cuda", "dtype": "bf16"}
"""Options of cells by scale."""
_FACTS = ("device", "dtype", "layers", "embed_dim", "heads", "k", "memory_gib", "options")


def measure(part: str, scale: str, cells: Sequence[BenchmarkCell], inputs: Inputs, experiment: str) -> Result:
    """Measure the cells that are not measured yet; the result of all."""
    folder = inputs.runs / scale / experiment / part.replace(", ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    measure_cells(cells, folder, Provenance(current_commit(), inputs.command))
    found = [read_cell(folder / f"{cell.name}.json") for cell in cells]
    first = found[0]
    environment = {
        "command": inputs.command,
        "commit": "; ".join(sorted({cell["commit"] for cell in found})),
        "hardware": first["hardware"],
        "versions": first["versions"],
        "data": first["configuration"].get("data", "random tokens"),
        "date": max(cell["date"] for cell in found),
        "seconds": round(sum(cell["seconds"] for cell in found), 3),
    }
    configuration = {name: value for name, value in first["configuration"].items() if name in _FACTS}
    configuration |= {"threads": first["threads"], "clock": first["clock"]}
    configuration["failed"] = {cell["name"]: reasons for cell in found if (reasons := failures(cell))}
    return Result(part, scale, rows_of(found), environment, configuration)


def rows_of(cells: Sequence[Cell]) -> Rows:
    """The rows of cells; one that ran out of memory has none."""
    measured = [cell for cell in cells if not is_out_of_memory(cell)]
    if all("peak_operations_per_second" in cell for cell in measured):
        # The highest measured peak: on a busy machine a matrix product only gets slower.
        peak = max((cell["peak_operations_per_second"] for cell in measured), default=0.0)
        measured = [{**cell, "peak_operations_per_second": peak} for cell in measured]
    return Rows(row for cell in measured for row in ROWS[cell_kind(cell["name"])](cell))


def failures(cell: Cell) -> dict[str, str]:
    """Why each model of a cell could not be measured."""
    reasons: dict[str, str] = cell["measured"].get("failed", {})
    return reasons


def single(value: float, unit: str) -> dict[str, Any]:
    return {"value": significant(value, 5), "unit": unit}


def ratio(numerators: Sequence[float], denominators: Sequence[float], unit: str = "ratio of times") -> dict[str, Any]:
    """The spread of a ratio, round by round."""
    return spread(ratio_spread(numerators, denominators), unit)


def round_rows(
    metric: str, values: Mapping[str, Sequence[float]], unit: str, factor: float = 1.0, **where: Any
) -> Iterator[Row]:
    """The spread of each model's rounds."""
    for model, rounds in values.items():
        yield Row(metric=metric, model=model, **where, **spread(summarize(rounds), unit, factor))


def rate_rows(seconds: Mapping[str, Sequence[float]], count: int, unit: str, **where: Any) -> Iterator[Row]:
    """How many of a unit, such as documents, each model reads per second.

    Args:
        count: of units in a round.
    """
    rates = {model: [count / each for each in rounds] for model, rounds in seconds.items()}
    return round_rows(f"{unit}_per_second", rates, f"{unit} per second", **where)


def ratio_rows(
    seconds: Mapping[str, Sequence[float]], models: Iterable[str], baselines: Iterable[str], **where: Any
) -> Iterator[Row]:
    """How many times as fast as each baseline each model is, where both were measured."""
    for model, baseline in itertools.product(models, baselines):
        if model != baseline and {model, baseline} <= seconds.keys():
            times = ratio(seconds[baseline], seconds[model])
            yield Row(metric="time_ratio", model=model, baseline=baseline, **where, **times)


def _inference(cell: Cell) -> Iterator[Row]:
    """Seconds of each model, and the ratios of times, largest batches and bytes for each k."""
    found, n = cell["measured"], cell["configuration"]["n"]
    seconds, largest, peaks = found["seconds"], found["largest"], found["bytes"]
    for name, values in seconds.items():
        model = {"model": "linformer", "k": int(name[2:])} if name.startswith("k=") else {"model": name}
        yield Row(metric="seconds", n=n, **model, **spread(summarize(values), "s"))
    for k, base in itertools.product(cell["configuration"]["dimensions"], BASELINES):
        ours, at = f"k={k}", {"model": "linformer", "baseline": base, "n": n, "k": k}
        if {base, ours} <= seconds.keys():
            yield Row(metric="time_ratio", **at, **ratio(seconds[base], seconds[ours]))
        if largest.get(base) and largest.get(ours):
            yield Row(metric="batch_ratio", **at, **single(largest[ours] / largest[base], "ratio of batches"))
        if {base, ours} <= peaks.keys():
            theirs, own = (after - before for before, after in (peaks[base], peaks[ours]))
            yield Row(metric="bytes_ratio", **at, **single(theirs / own, "ratio of bytes"))


def _scaling(cell: Cell) -> Iterator[Row]:
    c, seconds = cell["configuration"], cell["measured"]["seconds"]
    return round_rows("microseconds_per_token", seconds, "microseconds a token", 1e6 / c["tokens"], n=c["n"])


def _per_token(cell: Cell) -> Iterator[Row]:
    return _growth_rows(cell["measured"]["seconds"], model="linformer")


def _growth_rows(seconds: Mapping[str, Sequence[float]], **where: Any) -> Iterator[Row]:
    """The time per token at each n over that at the shortest."""
    shortest, *longer = sorted(seconds, key=int)
    for n in longer:
        growth = ratio(seconds[n], seconds[shortest], "ratio of times per token")
        yield Row(metric="time_per_token_ratio", n=int(n), baseline_n=int(shortest), **where, **growth)


def _local_step(cell: Cell) -> Iterator[Row]:
    c, found = cell["configuration"], cell["measured"]
    at = {"n": c["lengths"][0], "k": c["k"], "phase": "training step"}
    yield from _window_rows(found["seconds"], **at)
    for window in c["reaches"][1:]:
        share = single(found["bytes"][str(window)] / found["bytes"]["0"], "ratio of bytes")
        yield Row(metric="relative_bytes", model=f"W={window}", baseline="W=0", **at, **share)


def _local_per_token(cell: Cell) -> Iterator[Row]:
    c, seconds = cell["configuration"], cell["measured"]["seconds"]
    at = {"k": c["k"], "phase": "inference"}
    for window in c["reaches"]:
        by_length = {n: by_window[str(window)] for n, by_window in seconds.items()}
        yield from _growth_rows(by_length, model=f"W={window}", **at)
    for n, by_window in seconds.items():
        yield from _window_rows(by_window, n=int(n), **at)


def _window_rows(seconds: Mapping[str, Sequence[float]], **where: Any) -> Iterator[Row]:
    """The time with each local window over that without."""
    for window, values in seconds.items():
        if window != "0":
            times = ratio(values, seconds["0"])
            yield Row(metric="relative_time", model=f"W={window}", baseline="W=0", **where, **times)


def _training(cell: Cell) -> Iterator[Row]:
    """Tokens per second, utilization and bytes of a training step; ratios of times are theirs over ours, of bytes ours
    over theirs."""
    c, found = cell["configuration"], cell["measured"]
    at = {"phase": "finetuning" if c["classify"] else "pretraining", "n": c["n"]}
    ours = "ours" if "ours" in c["models"] else "ours-modules"
    sizes, seconds = found.get("bytes", {}), found.get("seconds", {})
    for name, size in sizes.items():
        yield Row(metric="bytes", model=name, **at, **single(size, "bytes"))
        if ours in sizes and name != ours:
            share = single(sizes[ours] / size, "ratio of bytes")
            yield Row(metric="bytes_share", model=ours, baseline=name, **at, **share)
    if seconds:
        yield from rate_rows(seconds, found["tokens"], "tokens", **at)
        peak, operations = cell["peak_operations_per_second"], found["operations"]
        used = {name: [utilization(operations[name], each, peak) for each in times] for name, times in seconds.items()}
        yield from round_rows("utilization", used, "share of the peak", **at)
        yield from ratio_rows(seconds, [ours], seconds, **at)


def _whole(cell: Cell) -> Iterator[Row]:
    n, seconds = cell["configuration"]["n"], cell["measured"]["seconds"]
    yield from round_rows("seconds", seconds, "s", n=n)
    yield from ratio_rows(seconds, ["ours"], seconds, n=n)


def _process(unit: str) -> Callable[[Cell], Iterator[Row]]:
    def rows(cell: Cell) -> Iterator[Row]:
        c, rates = cell["configuration"], cell["measured"]["words"]
        n, memory = c["n"], "memory" if c["device"] == "cpu" else "host_memory"
        yield from round_rows(f"{unit}_per_second", rates, f"{unit} per second", n=n)
        yield from round_rows(memory, cell["measured"]["bytes"], "MiB", 2**-20, n=n)
        for name, values in rates.items():
            if name != "ours" and "ours" in rates:
                speed = ratio(rates["ours"], values, f"ratio of {unit} per second")
                yield Row(metric="speed_ratio", model="ours", baseline=name, n=n, **speed)

    return rows


def _shares(cell: Cell) -> Iterator[Row]:
    """The share of each part in all updates together, with the lowest and highest share in a single update."""
    n = cell["configuration"]["n"]
    for name, parts in cell["measured"]["seconds"].items():
        whole = parts["whole"]
        yield Row(metric="seconds", part="whole", model=name, n=n, **spread(summarize(whole), "s"))
        for part, taken in parts.items():
            if part != "whole":
                each = [a / b for a, b in zip(taken, whole)]
                values = Spread(sum(taken) / sum(whole), min(each), max(each), len(each))
                yield Row(metric="share", part=part, model=name, n=n, **spread(values, "share of an update"))


ROWS: dict[str, Callable[[Cell], Iterable[Row]]] = {
    "inference": _inference,
    "scaling": _scaling,
    "pertoken": _per_token,
    "localstep": _local_step,
    "localpertoken": _local_per_token,
    "training": _training,
    "whole": _whole,
    "process": _process("words"),
    "finetuning": _process("tokens"),
    "shares": _shares,
}
"""The rows of a cell, by its kind."""


def read_all(folder: Path) -> list[Cell]:
    """The cells in a folder, by name."""
    return [read_cell(path) for path in sorted(folder.glob("*.json"))]
