"""The Linformer is faster than the Transformer and fits larger batches; both gains grow with n, and with a smaller k.

**time** (left half), of a forward pass at equally many tokens, and at least one sentence. Holds if in every cell of the
paper that was measured each round of the Linformer is faster than that of a Transformer that materializes its weights,
as in 2020; does not hold if no round is, in one cell. A Transformer with PyTorch's fused attention (SDPA), which the
paper did not have, passes this rule, too, also in pieces of 512 tokens. **over SDPA**: the same next to SDPA, in every
measured cell (added after the first runs). **time with n**, **time with k**: along each column, from the shortest n to
the longest, and each row, from the largest k to the smallest, the speedup grows: the slowest round at the end is above
the fastest round at the beginning, and no median decreases. Does not hold if at one step every round is below every
round before it. (These two were a part of "time" when the H100 was measured. On the CPU the speedup of SDPA over
materialized weights passes **time with n**, on the H100 it does not: it is 6.6 at n = 8,192 and 5.0 at 16,384. There
are three rounds on the CPU.)

**counted memory** (right half): the largest batches for 16 GiB, counted from shapes at base size in fp16, with
materialized attention weights in both models, and nothing computed in chunks, as on a GPU. Holds if the Linformer's is
larger in every cell of the paper in which a sentence of the Transformer fits; **counted memory with n** and **counted
memory with k** as for the time. SDPA does not materialize the weights: its memory is linear in n, too. On an H100,
where this code does not materialize its weights either, its largest batches were 0.94 to 1.00 times those of SDPA, and
next to materialized weights they did not grow with a smaller k (`git show 8023c333:results/table_3/gpu.json`). Section
5.3 gives a V100 of 16 GB and no precision; fp16 is ASSUMED: in fp32 a single sentence of 16,384 positions, for which
the paper prints a ratio, does not fit the Transformer's memory. It prints ratios at 32,768 and 65,536 as well, where
none fits in fp16 either; those are not compared. E and F are initialized as in the authors' code: with windows, the
default, scores are weighted and masked, which equation (7) does not do and which takes memory.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Any

import torch

from ...benchmark.encoders import build_materialized, build_transformer
from ...benchmark.measure import Setup, inference, make_cases
from ...benchmark.memory import largest_batch
from ...benchmark.rows import Case
from ...modules import LinformerEncoder
from ..benchmarks import CPU, GPU, SMOKE, run_benchmark
from ..page import Panel, Table
from ..paper_numbers import TABLE_3_DIMENSIONS, TABLE_3_MEMORY, TABLE_3_TIME, table_3
from ..result import Inputs, Parts, Result, Row, in_words, significant
from ..verdict import Check, Verdict, decide

TITLE, WHERE = "Table 3", "Table 3, section 5.3"
SAYS = "faster, with larger batches, than with materialized attention; more so with n and with a smaller k"
PARTS: Parts = {"smoke": {"time": (), "memory": ()}, "cpu": {"time": (), "memory": ()}, "gpu": {"time": ()}}
CLAIMS = {
    "time": "The Linformer is faster than a Transformer that materializes its attention weights.",
    "memory": "The Linformer fits larger batches than such a Transformer.",
}
OVER_SDPA = "The Linformer is faster than a Transformer with PyTorch's fused attention."
NAMES = {"time": "time", "memory": "counted memory"}
GROWTH = {"n": "n", "k": "a smaller k"}
"""What the gain grows with, along the columns of the paper's table and along its rows."""
METRICS = {"time": "time_ratio", "memory": "batch_ratio"}
PRINTED = {"time": TABLE_3_TIME, "memory": TABLE_3_MEMORY}
TITLES = {"time": "Speedup over eager attention", "memory": "Ratio of the largest batch sizes"}
LENGTHS = tuple(2**i for i in range(9, 17))
MEMORY_GIB = 16.0
"""Memory of the V100 in section 5.3, whose largest batches the paper compares."""
TIMED: dict[str, tuple[Sequence[int], Sequence[int], int, Setup]] = {
    "smoke": ((256,), (128,), 256, SMOKE),
    "cpu": (LENGTHS[:-2], TABLE_3_DIMENSIONS, 4096, CPU),
    "gpu": (LENGTHS, TABLE_3_DIMENSIONS, 65536, GPU),
}
"""Lengths, k, tokens of a batch, and setup."""
COUNTED: dict[str, tuple[Sequence[int], Sequence[int], Setup]] = {
    "smoke": ((256, 512), (64,), Setup(layers=1, embed_dim=64)),
    "cpu": (LENGTHS, TABLE_3_DIMENSIONS, Setup()),
}
"""Lengths, k and shape of the models whose memory is counted."""


def run(inputs: Inputs) -> Result:
    if inputs.part == "time":
        return run_time(inputs)
    lengths, dims, setup = COUNTED[inputs.scale]
    shape = {"layers": setup.layers, "embed_dim": setup.embed_dim}
    configuration = {**shape, "dtype": "fp16", "memory_gib": MEMORY_GIB}
    return inputs.result(count_batches(lengths, dims, setup), "none: shapes", configuration)


def run_time(inputs: Inputs) -> Result:
    lengths, dims, tokens, setup = TIMED[inputs.scale]
    timed = partial(inference, tokens=tokens, setup=setup)
    models = ("transformer-eager", "transformer-sdpa", "linformer")
    groups = [partial(timed, cases=make_cases(models, n, dims)) for n in lengths]
    result = run_benchmark("table_3", groups, inputs)
    for row in result.rows.select("time_ratio"):
        row["baseline"] = row.baseline.removeprefix("transformer-")
    return result


def count_batches(lengths: Sequence[int], dims: Sequence[int], setup: Setup) -> Iterator[Row]:
    """The ratios of the largest batches, where a sentence of the Transformer fits."""

    def count(build: Callable[[], LinformerEncoder], n: int) -> int:
        return largest_batch(build, n, torch.float16, MEMORY_GIB * 2**30)

    for n in lengths:
        theirs = count(partial(build_transformer, setup.config(Case("transformer-eager", n)), "eager"), n)
        for k in (k for k in dims if k < n and theirs):
            config = replace(setup.config(Case("linformer", n, k)), projection_init="normal")
            ratio = significant(count(partial(build_materialized, config), n) / theirs)
            at: dict[str, Any] = {"baseline": "eager", "model": "linformer", "n": n, "k": k}
            yield Row(metric="batch_ratio", value=ratio, unit="ratio of batches", **at)


def paper_cells(result: Result) -> Iterator[tuple[float, Row]]:
    """What the paper prints and our row, of each cell that both have, with eager attention."""
    for row in result.rows.select(METRICS[result.part], baseline="eager"):
        if printed := table_3(PRINTED[result.part], row.n, row.k):
            yield printed, row


def gain_checks(result: Result) -> list[Check]:
    """More than 1 in every cell of the paper."""
    return [_is_gain(row, result.part, f" (paper: {printed:g}x)") for printed, row in paper_cells(result)]


def sdpa_checks(result: Result) -> list[Check]:
    """More than 1 in every cell."""
    return [_is_gain(row, "time", "") for row in result.rows.select("time_ratio", baseline="sdpa")]


def _is_gain(row: Row, half: str, note: str) -> Check:
    text = f"n = {row.n}, k = {row.k}: {half} {row.value:.3g}x{note}; needs > 1"
    return decide(row.low > 1, text, row.high <= 1)


def growth_checks(result: Result, along: str) -> list[Check]:
    """Rising with n at each k, or with a smaller k at each n."""
    fixed, rows = "k" if along == "n" else "n", [row for _, row in paper_cells(result)]
    checks = []
    for value in sorted({row[fixed] for row in rows}):
        line = sorted((row for row in rows if row[fixed] == value), key=itemgetter(along), reverse=along == "k")
        checks += [_rises(line, along, f"{fixed} = {value}")] if line[1:] else []
    return checks


def _rises(line: Sequence[Row], along: str, where: str) -> Check:
    """Every round of the last is above every one of the first, and no median is below the one before."""
    first, last = line[0], line[-1]
    falls = [(a, b) for a, b in pairwise(line) if b.value < a.value]
    clear = [(a, b) for a, b in falls if b.high < a.low]
    notes = [f"; it falls from {along} = {a[along]} to {along} = {b[along]}" for a, b in clear or falls]
    values = ", ".join(f"{row.value:.3g}x at {along} = {row[along]}" for row in (first, last))
    text = f"{where}: {values}; needs more at the end, no step down{''.join(notes[:1])}"
    return decide(not falls and last.low > first.high, text, bool(clear))


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    found = []
    measured = {result.part: result for result in results}
    for half, claim in CLAIMS.items():
        result = measured.get(half)
        found.append(Verdict(NAMES[half], claim, gain_checks(result) if result else []))
        if half == "time":
            found.append(Verdict("over SDPA", OVER_SDPA, sdpa_checks(result) if result else []))
        for along, words in GROWTH.items():
            name, claim = f"{NAMES[half]} with {along}", f"The gain in {half} grows with {words}."
            found.append(Verdict(name, claim, growth_checks(result, along) if result else []))
    return found


def tables(results: Sequence[Result]) -> list[Table]:
    """The paper's numbers with ours, and those that the paper does not have."""
    found = []
    for result in results:
        cells = [[f"{r.n:,}", str(r.k), f"{printed:g}", in_words(r)] for printed, r in paper_cells(result)]
        title = f"{TITLES[result.part]}, {describe(result)}"
        found += [Table(title, ["n", "k", "paper", "ours, median [extremes]"], cells)] if cells else []
        sdpa = [[f"{r.n:,}", str(r.k), in_words(r)] for r in result.rows.select("time_ratio", baseline="sdpa")]
        found += [Table(f"Speedup over SDPA, {describe(result)}", ["n", "k", "ours"], sdpa)] if sdpa else []
    return found


def describe(result: Result) -> str:
    """What ours was measured on; the paper's is a V100."""
    c = result.configuration
    layers = f"{c['layers']} layer{'s' * (c['layers'] > 1)} of {c['embed_dim']}, {c['dtype']}"
    if result.part == "memory":
        return f"{layers}, {c['memory_gib']:g} GiB, counted"
    return f"{layers}, {c['device']}" + f", {c['threads']} thread{'s' * (c['threads'] > 1)}" * (c["device"] == "cpu")


def chart(results: Sequence[Result]) -> list[Panel]:
    """Each half, the paper's with ours."""
    panels = []
    for result in results:
        half = result.part
        ours = result.rows.select(METRICS[half], baseline="eager").lines("k", "n", "k = {}")
        theirs = {
            f"k = {k}, paper": [[(n, value) for n in PRINTED[half] if (value := table_3(PRINTED[half], n, k))]]
            for k in TABLE_3_DIMENSIONS
            if f"k = {k}" in ours
        }
        if ours:
            title, y = f"{half.capitalize()}, {describe(result)}", "times the Transformer's"
            panels.append(Panel(title, "n", y, {**ours, **theirs}, {}, list(theirs), log_x=True, log_y=True))
    return panels
