"""Far-token recall: whether a model finds a value outside the reach of its local window (`recall_task.py`).

A local window alone can lower perplexity and keep accuracy even if E and F contribute nothing; this task needs distant
tokens. Each text has 8 key-value pairs early in noise; at the end each key comes again, followed by a `<mask>` whose
target is its value, 3 n / 8 positions or more away, farther than two layers with the widest window reach. Each of the
8 values occurs once in every text, so a guess is right in 12.5 %.

Accuracy on new sequences, one query of each, 95 % interval by Wilson. **full**: with every seed the interval of full
attention (k = n, E = F = I and frozen) is above 95 %. **control**: with k = 1, whatever the window, its upper end is at
most 5 points above a guess. **k**: for each window and initialization, in the order of k, mean over seeds of the
difference to the k before, and of n / 2 to k = 1, with Student's interval: none is below -1 point, and that of n / 2 to
k = 1 is above 0; the verdict on the default initialization alone is reported. If full attention does not recall,
control and k are not evaluated: the task or the budget is then unsuitable.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from ...benchmark.measure import measure_once
from ..display import Table
from ..recall_task import RecallModel, RecallTask, count_recalled, train_model
from ..result import Inputs, Parts, Result, Row, Rows, environment, mean_in_words, significant
from ..run import Model, label
from ..statistics import MIN_SEEDS, UNDECIDED, Check, Estimate, Verdict, decide, student_interval, wilson

TITLE = "Far-token recall"
SAYS = "E and F find what is too far away for a local window"
EVALUATION_SEED = 1000
"""Added to the seed of a run for the sequences that it is evaluated on."""
RECALLED, ABOVE_CHANCE, MARGIN = 0.95, 0.05, 0.01
"""``MARGIN``: with accuracies near 100 %, a difference of one sequence in a thousand can exceed its interval."""
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {"n": 64, "windows": (0, 4), "ks": (16, 32), "seeds": (1,), "updates": 3, "batch": 4, "sequences": 20},
    "cpu": {
        "n": 128,
        "windows": (0, 4, 16),
        "ks": (4, 16, 32, 64),
        "seeds": (1, 2, 3),
        "updates": 1000,
        "batch": 32,
        "sequences": 1000,
    },
}
"""``sequences``: on which each run is evaluated. ``batch``: sequences per update.

In a trial of ``cpu``, full attention recalled all 1,000 sequences after 500 updates with each of three seeds, and
k = n / 8 all but one after 1,000 with one seed; so there is a smaller k."""
PARTS: Parts = {scale: {"recall": ()} for scale in SIZES}
STARTS = (None, "normal")
"""Of E and F, None for the default."""


def lines_of(sizes: dict[str, Any], starts: Sequence[str | None] = STARTS) -> dict[str, list[Model]]:
    """By local window and start, the Linformers in the order of k; with k = 1 every start is an average."""
    n = sizes["n"]
    return {
        f"W = {window}, {start or 'default start'}": [
            Model(n, 1, local_window=window),
            *(Model(n, k, start=start, local_window=window) for k in sizes["ks"]),
        ]
        for window in sizes["windows"]
        for start in starts
    }


def full_attention(sizes: dict[str, Any]) -> Model:
    """k = n with E = F = I, which is what windows of one position average."""
    return Model(sizes["n"], sizes["n"], start="average")


def models_of(sizes: dict[str, Any]) -> list[Model]:
    """Full attention and the Linformers."""
    lines = [[full_attention(sizes)], *lines_of(sizes).values()]
    return list(dict.fromkeys(model for line in lines for model in line))


def run(part: str, scale: str, inputs: Inputs) -> Result:
    """A rerun resumes: models that are in RUNS/SCALE/recall.json are not trained again."""
    sizes, path, rows = SIZES[scale], inputs.runs / scale / "recall.json", Rows()
    for seed in sizes["seeds"]:
        for model in models_of(sizes):
            rows += measure_once(path, partial(measure, cases=[model], seed=seed, sizes=sizes))
    return Result(part, scale, rows, environment(inputs, "none: random sequences of a seed"), sizes)


def measure(cases: Sequence[Model], seed: int, sizes: dict[str, Any]) -> list[Row]:
    """Train models, and evaluate them: the share of recalled sequences."""
    rows = []
    for model in cases:
        trained = RecallModel(RecallTask(model.n), model.k or model.n, model.local_window, model.start, seed)
        train_model(trained, seed, sizes["updates"], sizes["batch"])
        share = count_recalled(trained, EVALUATION_SEED + seed, sizes["sequences"]) / sizes["sequences"]
        low, high = (significant(end) for end in wilson(share, sizes["sequences"]))
        found = {"value": share, "low": low, "high": high, "repetitions": sizes["sequences"]}
        rows.append(Row(metric="accuracy", unit="share of sequences", **found, **model.fields, seed=seed))
    return rows


# Verdicts


CLAIMS = {
    "full": "Full attention recalls values that are far away.",
    "control": "With k = 1 a model guesses, whatever its local window: the task requires distance.",
    "k": "Accuracy increases with k.",
}


def estimates(rows: Rows, **where: Any) -> list[Estimate]:
    return [
        Estimate(row.value, row.low, row.high, f"{label(row)}, seed {row.seed}")
        for row in rows.select("accuracy", **where)
    ]


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    if not results:
        return [Verdict(name, claim, []) for name, claim in CLAIMS.items()]
    rows, sizes = results[0].rows, SIZES[results[0].scale]
    limit = RecallTask(sizes["n"]).chance + ABOVE_CHANCE
    full = [each.more_than(RECALLED) for each in estimates(rows, **full_attention(sizes).fields)]
    control = [each.at_most(limit) for each in estimates(rows, k=1)]
    default = Verdict("k", CLAIMS["k"], increase_checks(rows, sizes, (None,)), full)
    remark = f"with the default initialization: {default.outcome}; {default.numbers[0]}"
    return [
        Verdict("full", CLAIMS["full"], full),
        Verdict("control", CLAIMS["control"], control, full),
        Verdict("k", CLAIMS["k"], increase_checks(rows, sizes), full, [remark]),
    ]


def increase_checks(rows: Rows, sizes: dict[str, Any], starts: Sequence[str | None] = STARTS) -> list[Check]:
    """No k is a point less accurate than the one before it, and the largest is clearly more accurate than k = 1."""
    if len(sizes["seeds"]) < MIN_SEEDS:
        return [Check(UNDECIDED, f"needs {MIN_SEEDS} seeds of every k")]
    checks = []
    for models in lines_of(sizes, starts).values():
        checks.append(mean_difference(rows, models[-1], models[0]).more_than(0))
        for before, after in pairwise(models):
            difference = mean_difference(rows, after, before)
            checks.append(decide(difference.high >= -MARGIN, f"{difference}; needs an interval not below {-MARGIN:g}"))
    return checks


def mean_difference(rows: Rows, after: Model, before: Model) -> Estimate:
    """Mean over seeds of the difference in accuracy, with Student's 95 % interval."""
    a, b = (rows.select("accuracy", **model.fields) for model in (after, before))
    text = f"accuracy of {label(after.fields)} minus that of {label(before.fields)}"
    return Estimate(*student_interval([x.value - y.value for x, y in zip(a, b, strict=True)]), text)


# Table


def tables(results: Sequence[Result]) -> list[Table]:
    """Mean accuracy over seeds, and the lowest and highest, by local window, start and k."""
    rows, sizes = results[0].rows, SIZES[results[0].scale]

    def cell(model: Model) -> str:
        return mean_in_words([100 * row.value for row in rows.select("accuracy", **model.fields)], 1)

    head = ["model", *(f"k = {k}" for k in (1, *sizes["ks"], sizes["n"]))]
    cells = [["full attention", *[""] * (len(head) - 2), cell(full_attention(sizes))]]
    cells += [[name, *map(cell, models), ""] for name, models in lines_of(sizes).items()]
    return [Table(f"Accuracy in %, n = {sizes['n']}, mean over seeds (lowest to highest)", head, cells)]
