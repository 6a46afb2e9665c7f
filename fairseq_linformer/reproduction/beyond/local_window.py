"""Exact attention to W neighbors on each side (`--local-window`), next to the projected positions of equation (7).

At scale cpu no Linformer is trained from scratch: a RoBERTa of 2,800 updates (n = 16, doubled to 64) is converted, and
trained for 500 updates more. **E and F**: k = n / 8, n / 4 and n / 2 with W = 16 have at most the perplexity of k = 1
with the same window, where E and F add one average of the text, half of which two layers with the window reach. That a
model with a local window is near RoBERTa is no claim here: at this n, k = 1 is as near. Not enough evidence if the 95 %
interval over seeds contains the limit, with fewer than three seeds, if RoBERTa is less than 2 bits below a model
without context, or if no compared model is 1 bit below.

**cost**: with W = 16, the median over interleaved rounds of a base model's training step is at most 1.15 times that of
W = 0 at n = 512, its peak bytes at most 1.25 times, and the time per token of inference at n = 16,384 at most 1.15
times that at n = 512.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ...benchmark.measure import Setup, inference, training
from ...benchmark.rows import Case
from ..benchmarks import CPU, SMOKE, run_benchmark
from ..comparison import Limit, check_one_learned, log_ratios, perplexity_table, perplexity_verdict, pretrain
from ..page import Panel, Table
from ..result import Inputs, Parts, Result, Row, Rows, in_words, join
from ..run import TRUNK_SIZES, Model, Run, TrunkSizes, compared_run
from ..verdict import UNDECIDED, Check, Verdict, decide

TITLE = "Local window"
SAYS = "next to a local window of 16, which costs little, k > 1 lowers the perplexity at n = 64"
QUALITY = "quality"
COST = ("step, k = 128", "step, k = 256", "inference, k = 128", "inference, k = 256")
PARTS: Parts = {
    "smoke": {QUALITY: ("data",), "step, k = 8": (), "inference, k = 8": ()},
    "cpu": {QUALITY: ("data",), **dict.fromkeys(COST, ())},
}
LOCAL_WINDOWS, WIDEST = (0, 4, 16), 16
K_DIVISORS = (8, 4, 2)
MAX_COST = {
    ("relative_time", "training step"): 1.15,
    ("relative_bytes", "training step"): 1.25,
    ("time_per_token_ratio", "inference"): 1.15,
}
"""The largest medians, by metric and phase."""
SIZES: dict[str, tuple[tuple[int, ...], Setup, int]] = {
    "smoke": ((32, 64), SMOKE, 1),
    "cpu": ((512, 16384), replace(CPU, rounds=7), 12),
}
"""Sizes of the cost: lengths of inference, of which the first is that of a step; setup; and layers of a step."""
BATCH = 4
"""Sentences of a step."""


def run(inputs: Inputs) -> Result:
    return pretrain(compared_runs, inputs) if inputs.part == QUALITY else run_cost(inputs)


def compared_runs(sizes: TrunkSizes, seed: int) -> list[Run]:
    """RoBERTa first."""
    n = sizes.compared_n
    return [compared_run(model, sizes, seed) for model in (Model(n), *linformers(n))]


def linformers(n: int, divisors: Sequence[int] = K_DIVISORS) -> list[Model]:
    """Linformers of k = n / divisor and each W, and k = 1, the control."""
    ks, windows = (1, *(n // divisor for divisor in divisors)), [window for window in LOCAL_WINDOWS if window < n]
    return [Model(n, k, local_window=window) for k in ks for window in windows]


def run_cost(inputs: Inputs) -> Result:
    """Steps of the base model, or inference of two of its layers at a fixed number of tokens."""
    phase, k = inputs.part.split(", k = ")
    lengths, setup, layers = SIZES[inputs.scale]
    if phase == "step":
        lengths = lengths[:1]
        timed = partial(training, tokens=BATCH * lengths[0], setup=replace(setup, layers=layers))
    else:
        timed = partial(inference, tokens=lengths[-1], setup=replace(setup, vocabulary=1000))
    cases = [Case("linformer", n, int(k), window) for n in lengths for window in LOCAL_WINDOWS]
    result = run_benchmark("local_window", [partial(timed, cases=cases)], inputs)
    metrics, phase = {metric for metric, _ in MAX_COST} | {"relative_time"}, phase.replace("step", "training step")
    result.rows = Rows(cost_row(row, phase) for row in result.rows if row.metric in metrics)
    return result


def cost_row(row: Row, phase: str) -> Row:
    """A ratio to W = 0, or to another n, with the field of its local window."""
    kept = {name: value for name, value in row.items() if name not in ("model", "local_window", "baseline")}
    over = {} if row.baseline is None else {"baseline_W": 0}
    return Row(kept, W=row.local_window or 0, **over, phase=phase)


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows = join(results, QUALITY)
    roberta, *runs = compared_runs(TRUNK_SIZES[results[0].scale if results else "cpu"], seed=1)
    windowed = [run for run in runs if run.model.local_window == WIDEST]  # k = 1 first
    helps = "At equal updates, next to a local window, E and F still lower the perplexity."
    lower = [Limit(run, windowed[0]) for run in windowed[1:]]
    cost = "A local window of 16 adds little time and memory, and keeps both linear in n."
    return [
        perplexity_verdict(rows, "E and F", helps, windowed, lower, [roberta], check_one_learned),
        Verdict("cost", cost, cost_checks(join(results))),
    ]


def cost_checks(rows: Rows) -> list[Check]:
    if not rows:
        return []
    found = {(row.metric, row.phase) for row in rows}
    checks = [Check(UNDECIDED, f"{' of '.join(each)} is not measured") for each in MAX_COST if each not in found]
    for row in rows:
        limit = MAX_COST.get((row.metric, row.phase))
        if row.W == WIDEST and limit is not None:
            text = f"{row.phase}, n={row.n}, k={row.k}: {row.metric.replace('_', ' ')} {in_words(row)}"
            checks.append(decide(row.value <= limit, f"{text}; needs ≤ {limit:g}"))
    return checks


def tables(results: Sequence[Result]) -> list[Table]:
    cells = []
    for row in join(result for result in results if result.part != QUALITY):
        against = f"n = {row.baseline_n:,}" if row.baseline_n else f"W = {row.baseline_W}"
        cells.append(
            [row.phase, str(row.k), str(row.W), f"{row.n:,}", row.metric.replace("_", " "), against, in_words(row)]
        )
    heads = ["phase", "k", "W", "n", "quantity", "over", "median [extremes]"]
    found = [Table("Time and memory", heads, cells)] if cells else []
    if rows := join(results, QUALITY):
        runs = compared_runs(TRUNK_SIZES[results[0].scale], seed=1)
        found.insert(0, perplexity_table(rows, "Final validation perplexity", runs, runs[0]))
    return found


def chart(results: Sequence[Result]) -> list[Panel]:
    """Perplexity relative to RoBERTa's over k: a line per W."""
    rows = join(results, QUALITY)
    roberta, *runs = compared_runs(TRUNK_SIZES[results[0].scale], seed=1)
    lines = {}
    for window in dict.fromkeys(run.model.local_window for run in runs) if rows else ():
        ratios = {run.model.k or 0: log_ratios(rows, run, roberta) for run in runs if run.model.local_window == window}
        seeds = zip(*(each.values() for each in ratios.values()))
        lines[f"W = {window}"] = [[(k, 2**ratio) for k, ratio in zip(ratios, seed)] for seed in seeds]
    panel = Panel("quality", "k", "perplexity / RoBERTa's", lines, {"RoBERTa": 1.0}, log_x=True, log_y=True)
    return [panel] if lines else []
