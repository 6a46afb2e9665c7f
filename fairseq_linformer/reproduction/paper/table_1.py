"""A Linformer layer takes time and operations proportional to n, a Transformer layer to n squared.

**Time.** The exponent of n in a layer's time at equally many tokens, k = 256, over the longer half of the lengths,
between the extremes of its rounds. Holds if the whole interval is at most 1.15 for the Linformer and above 1.5 for the
Transformer with eager attention; does not hold if it is above 1.15 for the Linformer; otherwise not enough evidence: at
short n other parts of a layer outweigh attention. The limit also allows n log(n), of an exponent of 1.12 here; the
operations do not. SDPA and other models are reported, and are not part of the verdict; a Transformer that reads pieces
of 512 tokens is linear in n, too, and would pass. The chart is Figure 2's (top right): time at equally many tokens is
flat in n, as for any fixed k.

**Operations (counted)** of the matrix products per token, by PyTorch: they follow from the shapes. Holds if the
Linformer's at the longest n are at most 1.05 times those at the shortest, and the Transformer's grow as n to at least
0.9 over the last doubling; does not hold if the Linformer's grow more; not enough evidence if the Transformer's grow
less.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import linear_regression, mean

import torch

from ...benchmark.flops import count_flops
from ...benchmark.measure import Setup, inference, make_cases
from ...benchmark.models import FEATURES
from ...benchmark.rows import Case
from .. import paper_numbers
from ..benchmarks import CPU, SMOKE, run_benchmark
from ..page import Panel, Table, pivot
from ..result import Inputs, Parts, Result, Row, Rows, join
from ..verdict import UNDECIDED, Check, Estimate, Verdict, decide

TITLE, WHERE = "Table 1", "Table 1, section 1, and Figure 2 (top right)"
SAYS = "a layer takes time proportional to n, a Transformer's to n squared"
PARTS: Parts = {"smoke": {"time": (), "operations": ()}, "cpu": {"time": (), "operations": ()}}
LINEAR, QUADRATIC = 1.15, 1.5
"""Limits on the exponent of n in a layer's time. n^1.5 is the sparse Transformer's."""
SAME_COUNT, MIN_EXPONENT = 1.05, 0.9
DECIDING = ("linformer", "transformer-eager")
FAMILIES = {
    "recurrent": ("recurrent",),
    "transformer": ("transformer-eager", "transformer-sdpa"),
    "sparse": ("bigbird", "longformer"),
    "reformer": ("reformer",),
    "linformer": ("linformer",),
}
"""The models of each row of Table 1."""
CHARTED = ("transformer-eager", "transformer-sdpa", "bigbird", "reformer", "modernbert", "linformer")
ALL_MODELS = (*(model for models in FAMILIES.values() for model in models), "modernbert")


TIMED: dict[str, tuple[Sequence[str], Sequence[int], int, Setup]] = {
    "smoke": (DECIDING, (64, 128), 16, SMOKE),
    "cpu": (ALL_MODELS, (512, 1024, 2048, 4096, 8192), 256, CPU),
}
"""Models, their lengths, k and setup."""
COUNTED = {
    "smoke": (Setup("meta", layers=1, embed_dim=64), 16, (64, 128, 256)),
    "cpu": (Setup("meta", layers=1), 256, tuple(2**i for i in range(9, 17))),
}
"""Setup, k and lengths of the layer whose operations are counted; the meta device has shapes without memory."""


def run(inputs: Inputs) -> Result:
    if inputs.part == "time":
        models, lengths, k, setup = TIMED[inputs.scale]
        timed = partial(inference, tokens=max(lengths), setup=replace(setup, vocabulary=1000))
        groups = [partial(timed, cases=make_cases(models, n, (k,))) for n in lengths]
        return run_benchmark("table_1", groups, inputs)
    return inputs.result(count_operations(*COUNTED[inputs.scale]), "none: shapes")


def count_operations(setup: Setup, k: int, lengths: Sequence[int]) -> Iterator[Row]:
    """Operations per token of one layer's forward pass."""
    for n, model in itertools.product(lengths, DECIDING):
        encoder = setup.build(Case(model, n, k), FEATURES).eval()
        with torch.no_grad():
            per_token = count_flops(partial(encoder, setup.tokens(1, n))) / n
        where = {"model": model.removesuffix("-eager"), "n": n}
        yield Row(metric="operations_per_token", value=per_token, unit="operations per token", **where)


def exponent(rows: Rows, model: str) -> Estimate | None:
    """The exponent of n in a layer's time, one more than in the time per token, over the longer half of the lengths.

    Its interval is that of any choice of rounds: the slope is largest with the slowest rounds of long n and the fastest
    of short n. None with fewer than two lengths in that half.
    """
    times = sorted(rows.select("microseconds_per_token", model=model), key=lambda row: row.n)
    longer = times[len(times) // 2 :]
    if len(longer) < 2:
        return None
    lengths = [row.n for row in longer]
    middle = mean(map(math.log, lengths))
    slowest = [row.high if math.log(row.n) > middle else row.low for row in longer]
    fastest = [row.low if math.log(row.n) > middle else row.high for row in longer]
    logarithms = [math.log(n) for n in lengths]
    value, high, low = (
        1 + linear_regression(logarithms, [math.log(each) for each in times]).slope
        for times in ([row.value for row in longer], slowest, fastest)
    )
    return Estimate(value, low, high, f"{model}: exponent of layer time, n = {lengths[0]} to {lengths[-1]}")


def time_checks(rows: Rows) -> list[Check]:
    """The exponents of ``DECIDING``."""
    checks = []
    for model in DECIDING if rows.select("microseconds_per_token") else ():
        estimate = exponent(rows, model)
        if estimate is None or "low" not in rows.select("microseconds_per_token", model=model)[0]:
            checks.append(Check(UNDECIDED, f"{model} has no exponent, or a single round"))
        elif model == "linformer":
            checks.append(estimate.at_most(LINEAR))
        else:  # less does not refute it: at short n other parts of a layer outweigh attention
            checks.append(decide(estimate.low > QUADRATIC, f"{estimate}; needs > {QUADRATIC:g}", fails=False))
    return checks


def operation_checks(rows: Rows) -> list[Check]:
    counts = {(row.n, row.model): row.value for row in rows.select("operations_per_token")}
    if not counts:
        return []
    lengths = sorted({n for n, _ in counts})
    first, before, last = lengths[0], lengths[-2], lengths[-1]
    ratio = counts[last, "linformer"] / counts[first, "linformer"]
    power = math.log(counts[last, "transformer"] / counts[before, "transformer"]) / math.log(last / before)
    flat = f"linformer: operations per token, n = {last} / n = {first}: {ratio:.3g}; needs ≤ {SAME_COUNT:g}"
    grows = f"transformer: operations per token grow as n^{power:.2f} to n = {last}; needs ≥ {MIN_EXPONENT}"
    return [decide(ratio <= SAME_COUNT, flat), decide(power >= MIN_EXPONENT, grows, fails=False)]


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows = join(results)
    time_claim = "A Linformer layer takes time proportional to n, a Transformer layer to n squared."
    count_claim = "A Linformer layer's operations are proportional to n, a Transformer layer's to n squared."
    return [
        Verdict("time", time_claim, time_checks(rows)),
        Verdict("operations (counted)", count_claim, operation_checks(rows)),
    ]


def tables(results: Sequence[Result]) -> list[Table]:
    rows, cells = join(results), []
    for family, models in FAMILIES.items():
        for model in models:
            ours = exponent(rows, model)
            text = "-" if ours is None else f"n^{ours.value:.2f} [{ours.low:.2f}, {ours.high:.2f}]"
            cells.append([family, *paper_numbers.TABLE_1[family], model, text])
    columns = ["family", "per layer (paper)", "sequential (paper)", "model", "time of a layer"]
    title = "Complexity as printed, and the exponent of n in the measured time"
    counts = rows.select("operations_per_token")
    return [Table(title, columns, cells), *pivot("Operations per token", counts, "n", "model")]


def chart(results: Sequence[Result]) -> list[Panel]:
    rows = Rows(row for row in join(results).select("microseconds_per_token") if row.model in CHARTED)
    title = "Time per token at equally many tokens"
    lines = rows.lines("model", "n")
    return [Panel(title, "n", "microseconds per token", lines, log_x=True, log_y=True)] if lines else []
