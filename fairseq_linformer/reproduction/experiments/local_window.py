"""Exact attention to W neighbors on each side (`--local-window`), next to the projected positions of equation (7).

After equally many updates, at the n of most comparisons. **par**: k = n / 4 with W = 16 has at most 1.1 times the
perplexity of RoBERTa. **E and F**: k = n / 8, n / 4 and n / 2 with W = 16 have at most the perplexity of k = 1 with the
same window, where E and F add one average of the text.
Not enough evidence if the 95 % interval over seeds contains the limit, with fewer than three seeds, if RoBERTa is less
than 2 bits below a model without context, or if no compared model is 1 bit below. (Written before the first
measurement.)

**cost**: with W = 16, the median over interleaved rounds of a base model's training step is at most 1.15 times that of
W = 0 at n = 512, its peak bytes at most 1.25 times, and the time per token of inference at n = 16,384 at most 1.15
times that at n = 512. (Written before the first measurement.)
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ...benchmark.measure import Setup, inference, training
from ...benchmark.rows import Case
from ..benchmarks import CPU, SMOKE, run_benchmark
from ..comparison import at_most, bits_by_seed, perplexity_table, pretrain, verdict
from ..display import Panel, Table
from ..result import Inputs, Parts, Result, Row, Rows, in_words, join
from ..run import Model, compared_runs
from ..scales import SCALES
from ..statistics import UNDECIDED, Check, Verdict, decide

TITLE = "Local window"
SAYS = "k = n / 4 with a local window of 16 is near the Transformer, at little cost"
QUALITY = "quality"
COST = ("step, k = 128", "step, k = 256", "inference, k = 128", "inference, k = 256")
PARTS: Parts = {
    "smoke": {QUALITY: ("data",), "step, k = 8": (), "inference, k = 8": ()},
    "cpu": {QUALITY: ("data",), **dict.fromkeys(COST, ())},
}
LOCAL_WINDOWS, WIDEST = (0, 4, 16), 16
K_DIVISORS = (8, 4, 2)
MAX_RATIO = 1.1
MAX_COST = {
    ("relative_time", "training step"): 1.15,
    ("relative_bytes", "training step"): 1.25,
    ("time_per_token_ratio", "inference"): 1.15,
}
"""By metric and phase."""
SIZES: dict[str, tuple[tuple[int, ...], Setup, int]] = {
    "smoke": ((32, 64), SMOKE, 1),
    "cpu": ((512, 16384), replace(CPU, rounds=7), 12),
}
"""Of the cost: lengths of inference, of which the first is that of a step; setup; and layers of a step."""
BATCH = 4
"""Sentences of a step."""


def label(k: int, local_window: int) -> str:
    return f"k={k}, W={local_window}"


def run(part: str, scale: str, inputs: Inputs) -> Result:
    if part == QUALITY:
        n = SCALES[scale].compared_n
        return pretrain(part, scale, partial(compared_runs, {"roberta": Model(n), **linformers(n)}), inputs)
    return run_cost(part, scale, inputs)


def linformers(n: int, divisors: Sequence[int] = K_DIVISORS) -> dict[str, Model]:
    """Linformers of k = n / divisor and each W by label, and k = 1, the control."""
    ks, windows = (1, *(n // divisor for divisor in divisors)), [window for window in LOCAL_WINDOWS if window < n]
    return {label(k, window): Model(n, k, local_window=window) for k in ks for window in windows}


def run_cost(part: str, scale: str, inputs: Inputs) -> Result:
    """Steps of the base model, or inference of two of its layers at a fixed number of tokens."""
    phase, k = part.split(", k = ")
    lengths, setup, layers = SIZES[scale]
    if phase == "step":
        lengths = lengths[:1]
        timed = partial(training, tokens=BATCH * lengths[0], setup=replace(setup, layers=layers))
    else:
        timed = partial(inference, tokens=lengths[-1], setup=replace(setup, vocabulary=1000))
    cases = [Case("linformer", n, int(k), window) for n in lengths for window in LOCAL_WINDOWS]
    result = run_benchmark(part, scale, "local_window", [partial(timed, cases=cases)], inputs)
    compared = ("relative_time", "relative_bytes", "time_per_token_ratio")
    where = {"phase": "training step" if phase == "step" else "inference"}
    result.rows = Rows(
        Row(row, model=f"W={row.local_window or 0}", **where) for row in result.rows if row.metric in compared
    )
    return result


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows = join(result for result in results if result.part == QUALITY)
    n = rows[0].n if rows else 0
    quarter, control = label(n // 4, WIDEST), label(1, WIDEST)
    models = [label(n // divisor, WIDEST) for divisor in K_DIVISORS]
    par = "At equal updates, k = n / 4 with a local window of 16 is near the Transformer."
    near = [at_most(rows, quarter, "roberta", MAX_RATIO)]
    helps = "At equal updates, next to a local window, E and F still lower the perplexity."
    lower = [at_most(rows, model, control) for model in models]
    cost = "A local window of 16 adds little time and memory, and keeps both linear in n."
    return [
        verdict(rows, "par", par, [quarter], near, at_equal_updates=True),
        verdict(rows, "E and F", helps, [control, *models], lower, at_equal_updates=True),
        Verdict("cost", cost, cost_checks(join(results))),
    ]


def cost_checks(rows: Rows) -> list[Check]:
    if not rows:
        return []
    found = {(row.metric, row.phase) for row in rows}
    checks = [Check(UNDECIDED, f"{' of '.join(each)} is not measured") for each in MAX_COST if each not in found]
    for row in rows:
        limit = MAX_COST.get((row.metric, row.phase))
        if row.model == f"W={WIDEST}" and limit is not None:
            text = f"{row.phase}, n={row.n}, k={row.k}: {row.metric.replace('_', ' ')} {in_words(row)}"
            checks.append(decide(row.value <= limit, f"{text}; needs ≤ {limit:g}"))
    return checks


def tables(results: Sequence[Result]) -> list[Table]:
    cells = []
    for row in join(result for result in results if result.part != QUALITY):
        against = f"n = {row.baseline_n:,}" if row.baseline_n else row.baseline
        cells.append(
            [row.phase, str(row.k), row.model, f"{row.n:,}", row.metric.replace("_", " "), against, in_words(row)]
        )
    heads = ["phase", "k", "model", "n", "quantity", "over", "median [extremes]"]
    quality = [perplexity_table(r.rows, f"{r.part.capitalize()}, {r.scale}") for r in results if r.part == QUALITY]
    return [*quality, *([Table("Time and memory", heads, cells)] if cells else [])]


def chart(results: Sequence[Result]) -> list[Panel]:
    """Perplexity relative to RoBERTa's over k: a line per W."""
    rows = join(result for result in results if result.part == QUALITY)
    ks, lines = sorted({row.k for row in rows.select("bits") if row.k}), {}
    roberta = bits_by_seed(rows, "roberta")
    for window in LOCAL_WINDOWS if rows else ():
        bits = {k: bits_by_seed(rows, label(k, window)) for k in ks}
        lines[f"W = {window}"] = [[(k, 2 ** (bits[k][seed] - roberta[seed])) for k in ks] for seed in roberta]
    panel = Panel("quality", "k", "perplexity / RoBERTa's", lines, {"RoBERTa": 1.0}, log_x=True, log_y=True)
    return [panel] if lines else []
