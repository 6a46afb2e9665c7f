"""Benchmarks as results, tables and rows of times. A measurement is resumed by RUNS/SCALE/EXPERIMENT/PART.json."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from ..benchmark.measure import Setup, measure_once
from ..benchmark.rows import Row, ratio
from ..benchmark.timing import choose_clock
from .page import Table
from .result import Inputs, Result, in_words

SMOKE = Setup(layers=1, embed_dim=64, rounds=2, warm_up=0, vocabulary=1000)
CPU = Setup(layers=2)
GPU = Setup("cuda", "bf16")
"""Setups by scale."""


def run_benchmark(
    experiment: str, measurements: Sequence["partial[list[Row]]"], inputs: Inputs, data: str = "random tokens"
) -> Result:
    """The rows of all measurements, which have the same ``setup``."""
    path = inputs.folder / experiment / f"{inputs.part}.json"
    measured = [measure_once(path, each) for each in measurements]
    found = [row for rows, _ in measured for row in rows]
    setup: Setup = measurements[0].keywords["setup"]
    configuration = {**asdict(setup), "threads": torch.get_num_threads(), "clock": choose_clock(setup.device)}
    configuration["failed"] = [row for row in found if row.metric == "failed"]
    spent = round(sum(seconds for _, seconds in measured), 1)
    return inputs.result([row for row in found if row.metric != "failed"], data, configuration, seconds=spent)


def ratio_rows(seconds: Mapping[str, Sequence[float]], pairs: Iterable[tuple[str, str]], **where: Any) -> Iterator[Row]:
    """How many times as fast as a baseline a model is, for pairs of a model and a baseline."""
    for model, baseline in pairs:
        times = ratio(seconds[baseline], seconds[model])
        yield Row(metric="time_ratio", model=model, baseline=baseline, **where, **times)


RATIOS = {"time_ratio": "times as fast as", "speed_ratio": "times as fast as", "bytes_share": "bytes over those of"}
"""What the rows of a model over a baseline say, by metric."""


def tabulate(title: str, rows: Iterable[Row]) -> Table:
    """A table with a line per model and size, and a column per quantity."""
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        size = row.phase or "", row.model, f"{row.n:,}", str(row.k or ""), str(row.local_window or "")
        if row.metric in RATIOS:
            lines.setdefault(size, {})[f"{RATIOS[row.metric]} {row.baseline}"] = in_words(row)
        elif row.baseline is None:
            lines.setdefault(size, {})[row.unit] = in_words(row, 4)
    quantities = list(dict.fromkeys(name for line in lines.values() for name in line))
    cells = [[*size, *(line.get(name, "") for name in quantities)] for size, line in lines.items()]
    head = ["phase", "model", "n", "k", "W", *quantities]
    used = [i for i in range(len(head)) if any(line[i] for line in cells)]
    return Table(title, [head[i] for i in used], [[line[i] for i in used] for line in cells])
