"""At a fixed number of tokens the Linformer's time does not depend on n (Figure 2, top right).

Holds if no round's time per token is more than 1.25 times that of the shortest n; does not hold if every round's is,
for one n. Any fixed k passes; here k = 256. Table 1 has the chart, and shows that a Transformer's time grows.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ...benchmark.measure import inference
from ...benchmark.rows import Case
from ..benchmarks import CPU, SMOKE, run_benchmark
from ..page import Table
from ..result import Inputs, Parts, Result, in_words, join
from ..verdict import Estimate, Verdict

TITLE, WHERE = "Figure 2", "Figure 2 (top right), section 4"
SAYS = "at a fixed number of tokens, time does not depend on n"
PARTS: Parts = {scale: {"time": ()} for scale in ("smoke", "cpu")}
FLAT_RATIO = 1.25
"""The largest ratio of times per token that counts as independent of n."""
SIZES = {"smoke": ((64, 128), 16, SMOKE), "cpu": ((512, 16384), 256, CPU)}
"""Lengths, k, and setup."""


def run(inputs: Inputs) -> Result:
    lengths, k, setup = SIZES[inputs.scale]
    cases = [Case("linformer", n, k) for n in lengths]
    timed = partial(inference, cases=cases, tokens=max(lengths), setup=replace(setup, vocabulary=1000))
    return run_benchmark("figure_2", [timed], inputs)


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    checks = [
        Estimate(row.value, row.low, row.high, f"time per token, n={row.n} / n={row.baseline_n}").at_most(FLAT_RATIO)
        for row in join(results).select("time_per_token_ratio")
    ]
    return [Verdict("", "At a fixed number of tokens the Linformer's time does not depend on n.", checks)]


def tables(results: Sequence[Result]) -> list[Table]:
    rows = [
        [f"{row.n:,}", f"{row.baseline_n:,}", in_words(row), str(row.repetitions)]
        for row in join(results).select("time_per_token_ratio")
    ]
    return [Table("The Linformer's time per token", ["n", "over n", "ratio, median [extremes]", "rounds"], rows)]
