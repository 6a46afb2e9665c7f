"""Finetuned on SST-2, IMDB, QNLI and QQP, a Linformer is as accurate as RoBERTa, by n, k and sharing.

**Small models** are those of Figure 3, pretrained from scratch at n = 64 for its largest budget: RoBERTa, k = n / 4
without and with a local window of 4, and k = 1 with the window; each pretraining seed is finetuned with the same seed,
and RoBERTa from random weights too. Accuracies are compared row by row: the difference in points, with the bootstrap's
95 % interval over rows and seeds. **pretraining**: RoBERTa is above random weights on both tasks; unless it is, nothing
else is decided, because then only labels are compared. **small**: on each task k = n / 4, and with the window, is at
most 1 point below RoBERTa (the lower end of the interval is at least -1); does not hold if the upper end of one is
below -1. **E and F, small**: on each task k = n / 4 with the window is above k = 1 with it; does not hold if one
interval has nothing above 0.

**At the paper's scale**, by n, k and sharing; n is that of RoBERTa, 512. **comparable**: on each task the Linformer of
k = n / 4, with each sharing, is at most 1 point below RoBERTa. **k**: the mean over tasks of a Linformer of k = n / 2,
with one of the sharings, is above RoBERTa's (the paper's is with layerwise sharing, 92.30 to 92.25, and not with the
others). **sharing**: at k = n / 2 layerwise sharing has a higher mean than headwise and key-value sharing. **n**: at
twice n and the same k the mean is within 1 point. Each holds if the runs of the two models do not overlap, in the
claimed direction, and fails if they do not overlap in the other one. Tasks are those with a model 5 points above the
most frequent class, by the lower end of its 95 % interval (Wilson). Not enough evidence with fewer than three seeds,
which are of finetuning alone. E and F of layerwise sharing start differently from the others', which may explain a
difference. The paper does not name QQP's metric; ASSUMED to be accuracy.

**Distilled encoders**: a pretrained encoder and Linformers distilled from it, finetuned for one epoch with three
seeds. By medians: with each sharing **half** (k = n / 2) keeps at least 99 % of the encoder's mean accuracy,
**quarter** (n / 4) 98 %; **window**: k = n / 4 with W = 16 keeps 99 % and reaches 89 % on SST-2; otherwise they do not
hold. **E and F**: on IMDB, which has the longest inputs, every run of k = n / 4 with W = 16 is above every run of k = 1
with that window; it does not hold if no run is above any of the other model.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...checkpoints.identify import LAST, MODEL, identify
from ...data.tasks import TASKS
from ...data.tokenizer_files import DICTIONARY
from ...evaluation.fairseq_classifier import FairseqClassifier, read_prepared_rows
from ...evaluation.predict import Throughput, predict
from ...machine import merge_provenance
from ...training.finetune import FinetuningJob, finetune
from ...training.recipe import GRID_LRS, Recipe, build_grid, run_names
from ...training.run_folder import CHECKPOINTS, DONE
from .. import paper_numbers
from ..comparison import branches
from ..encoder import distill, open_encoder
from ..finetuned import mean_accuracy, near_chance, result_of, task_folder
from ..page import Table, pivot
from ..paired import answer_row, answers_of, difference
from ..result import Inputs, Parts, Result, Row, Rows, describe_text, environment, in_words, join, repeated
from ..run import Model, label, train_runs
from ..verdict import (
    FAILS,
    HOLDS,
    MIN_SEEDS,
    UNDECIDED,
    Check,
    Estimate,
    Verdict,
    decide,
    difference_of_extremes,
    ratio_of_extremes,
)
from . import figure_3

TITLE, WHERE = "Table 2", "Table 2, section 5.2"
SAYS = "finetuned, a Linformer is as accurate as RoBERTa"
NAMES = ("sst-2", "imdb", "qnli", "qqp")
SHARINGS = ("headwise", "key-value", "layerwise")
ROBERTA = "roberta"
RANDOM = ", random weights"
"""The end of the label of a model that is finetuned without being pretrained."""
POINT = 1.0
"""Of accuracy, in percent: "comparable", "similar"."""


def paper_label(model: Model) -> str:
    return ROBERTA if model.k is None else f"n={model.n}, k={model.k}, {model.sharing}"


SIZES: dict[str, dict[str, Any]] = {
    "smoke": {"tasks": ("imdb",), "finetuning": (1e-3, 8)},
    "cpu": {"tasks": ("sst-2", "imdb"), "finetuning": (5e-4, 32)},
}
"""Of the small models. ``finetuning``: learning rate and batch size, for one epoch."""
PAPER_MODELS = {
    paper_label(model): model
    for model in (
        Model(512),
        *(Model(n, k, sharing) for n, k in ((512, 128), (512, 256), (1024, 256)) for sharing in SHARINGS),
    )
}
"""The rows of Table 2 that are pretrained here."""
GRID = build_grid(GRID_LRS, (16, 32), (1, 2, 3))
"""RoBERTa's grid for GLUE (Liu et al. 2019, Table 10): ASSUMED, as the paper does not describe its finetuning."""


ENCODER_SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "models": (Model(32), Model.graded(32, 8, local_window=4)),
        "distillation": {"max_update": 2, "batch_size": 2, "lr": 2e-4},
        "lr": 1e-3,
        "batch_sizes": {"imdb": 8},
        "seeds": (1,),
    },
    "encoder": {
        "models": (
            Model(512),
            *(Model.graded(512, k, local_window=16) for k in (128, 1)),
            *(Model.graded(512, k, sharing) for sharing in SHARINGS for k in (256, 128)),
        ),
        "distillation": {"max_update": 1000, "batch_size": 4, "lr": 2e-4, "amp": True},
        "lr": 1e-4,
        "batch_sizes": {"sst-2": 32, "imdb": 16, "qnli": 32, "qqp": 32},
        "seeds": (1, 2, 3),
    },
}
"""Of the distilled encoders. ``models``: the encoder first. ``lr``, ``batch_sizes``: of finetuning, for one epoch."""
HALF_KEEPS, QUARTER_KEEPS, WINDOW_KEEPS, SST_2 = 0.99, 0.98, 0.99, 89.0


def small_models(scale: str) -> dict[str, tuple[Model, bool]]:
    """The small models by label, and whether they are pretrained."""
    chosen = [model for model in figure_3.PANELS[scale]["a"] if model.k in (None, model.n // 4, 1) and not model.start]
    found = {label(model.fields): (model, True) for model in chosen}
    return {**found, label(chosen[0].fields) + RANDOM: (chosen[0], False)}


def small_parts(scale: str) -> dict[str, tuple[str, str, int]]:
    """The task, the model's label and the seed of each part."""
    return {
        f"{task}: {each}, seed {seed}": (task, each, seed)
        for seed in figure_3.SIZES[scale].seeds
        for each in small_models(scale)
        for task in SIZES[scale]["tasks"]
    }


def encoder_label(model: Model) -> str:
    """A model made from an encoder; graded windows are the default of conversions."""
    window = f", W = {model.local_window}" if model.local_window else ""
    return "Transformer" if model.k is None else f"k = {model.k}{window}, {model.sharing}"


def encoder_parts(scale: str) -> dict[str, Model]:
    """The model of each part."""
    sizes = ENCODER_SIZES[scale]
    return {f"{task}: {encoder_label(model)}": model for model in sizes["models"] for task in sizes["batch_sizes"]}


_ON_ENCODER: Parts = {
    scale: dict.fromkeys(encoder_parts(scale), ("data", "tasks", "encoder")) for scale in ENCODER_SIZES
}
PARTS: Parts = {
    "smoke": {**dict.fromkeys(small_parts("smoke"), ("data", "tasks")), **_ON_ENCODER["smoke"]},
    "cpu": dict.fromkeys(small_parts("cpu"), ("data", "tasks")),
    "encoder": _ON_ENCODER["encoder"],
    "paper": {f"{task}: {each}": ("tasks",) for each in PAPER_MODELS for task in NAMES},
}
"""Each is named by its task and its model."""


# Runs


def run(part: str, scale: str, inputs: Inputs) -> Result:
    if scale in SIZES and part in small_parts(scale):
        return finetune_small(part, scale, inputs)
    task, _, name = part.partition(": ")
    if scale == "paper":
        results = finetune(paper_job(task, PAPER_MODELS[name], inputs, "cuda"))
        return result_of(part, scale, task, name, results, inputs, {})
    model = encoder_parts(scale)[part]
    configuration = {"model": asdict(model), "distillation": ENCODER_SIZES[scale]["distillation"]}
    return result_of(part, scale, task, name, finetune_encoder(task, model, scale, inputs)[1], inputs, configuration)


def finetune_small(part: str, scale: str, inputs: Inputs) -> Result:
    """Finetune a model of Figure 3, which is pretrained unless it is; right and wrong answers on all rows."""
    task, name, seed = small_parts(scale)[part]
    model, is_pretrained = small_models(scale)[name]
    sizes, (lr, batch_size) = figure_3.SIZES[scale], SIZES[scale]["finetuning"]
    data = task_folder(task, model.n, inputs)
    pretraining = branches(model, seed, sizes)[sizes.budgets[-1]]
    trained = train_runs([pretraining], sizes, inputs.runs / scale, inputs.text)[pretraining]
    job = FinetuningJob(
        TASKS[task],
        identify(trained.checkpoint),
        [Recipe(lr, batch_size, 1, seed)],
        f"{task}-{model.name}{'' if is_pretrained else '-random'}-seed{seed}",
        str(data),
        str(inputs.runs.absolute() / scale / "table_2"),
        from_scratch=not is_pretrained,
        overrides=("dataset.num_workers=0",),
    )
    (found,) = finetune(job)
    checkpoint = Path(job.runs, job.name, found["checkpoint"])
    classifier = FairseqClassifier(checkpoint, dictionary=data / "input0" / DICTIONARY)
    total, rows = read_prepared_rows(classifier, data, "valid")
    predicted = predict(classifier, rows, Throughput(), total=total)
    answers = [int(logits.argmax()) == row.target for row, logits in predicted]
    circumstances = environment(
        inputs,
        f"{task}: {found['data']}; pretrained on: {describe_text(inputs.data)}",
        seconds=round(found["seconds"], 1),
        **merge_provenance([found]),
    )
    row = answer_row(answers, "right", task=task, model=name, n=model.n, seed=seed)
    return Result(part, scale, Rows([row]), circumstances, {"recipe": found["recipe"], "model": found["model"]})


def finetune_encoder(task: str, model: Model, scale: str, inputs: Inputs) -> tuple[list[Path], list[dict[str, Any]]]:
    """Finetune a model with each seed; it is distilled first unless it is.

    Returns:
        The checkpoints of the seeds, and their results.
    """
    sizes = ENCODER_SIZES[scale]
    data = task_folder(task, model.n, inputs)
    encoder = open_encoder(inputs.encoder, model.n, inputs.runs.absolute() / scale / "table_2")
    linformer = model.k and distill(model, sizes["distillation"], inputs.data, encoder)[0] / MODEL
    job = FinetuningJob(
        TASKS[task],
        identify(linformer or encoder),
        [Recipe(sizes["lr"], sizes["batch_sizes"][task], 1, seed) for seed in sizes["seeds"]],
        f"finetuned/{task}-{model.name}",
        str(data),
        str(encoder.parent),
        overrides=(
            f"common.amp={str('amp' in sizes['distillation']).lower()}",
            "dataset.num_workers=0",
            "optimizer._name=fused_adam",
            "model.dropout=0.0",  # a single epoch needs none, and without it a CPU is several times faster
            "model.attention_dropout=0.0",
        ),
    )
    results = finetune(job)
    names = run_names(job.name, job.recipes)
    checkpoints = [Path(job.runs, name, result["checkpoint"]) for name, result in zip(names, results)]
    for path in checkpoints:
        for other in set(path.parent.glob("*.pt*")) - {path}:  # there are over a hundred runs
            other.unlink()
    return checkpoints, results


def paper_job(task: str, model: Model, inputs: Inputs, device: str) -> FinetuningJob:
    """The grid of a model that ``submit`` has pretrained."""
    pretraining = inputs.runs / figure_3.config_name(model)
    if not (pretraining / DONE).exists():
        raise ValueError(f"{pretraining} must be a finished pretraining, but it has no file {DONE}")
    return FinetuningJob(
        TASKS[task],
        identify(pretraining / CHECKPOINTS / LAST),
        GRID,
        f"table-2/{pretraining.name}/{task}",
        str(task_folder(task, model.n, inputs)),
        str(inputs.runs),
        device=device,
    )


# Verdicts


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows, scale = join(results), results[0].scale if results else "cpu"
    return [
        *small_verdicts(rows, scale if scale in SIZES else "cpu"),
        *paper_verdicts(rows if scale == "paper" else Rows()),
        *encoder_verdicts(rows, scale if scale in ENCODER_SIZES else "encoder"),
    ]


def small_verdicts(rows: Rows, scale: str) -> list[Verdict]:
    """Every model, with the seeds of the others, on every task."""
    tasks, is_measured = SIZES[scale]["tasks"], bool(rows.select("right"))
    roberta, quarter, windowed, control, random = small_models(scale)

    def check(task: str, a: str, b: str, limit: float) -> Check:
        ours, theirs = (answers_of(rows, "right", task=task, model=name) for name in (a, b))
        if ours.shape != theirs.shape or len(ours) < MIN_SEEDS:
            return Check(UNDECIDED, f"{task}: {a} or {b} needs {MIN_SEEDS} seeds")
        change = difference(ours, theirs, f"{task}: {a} minus {b}, points")
        return change.at_least(limit) if limit else change.more_than(limit)

    learned = [check(task, roberta, random, 0.0) for task in tasks]
    near = [check(task, each, roberta, -POINT) for task in tasks for each in (quarter, windowed)]
    more = [check(task, windowed, control, 0.0) for task in tasks]
    claims: tuple[tuple[str, str, list[Check], list[Check]], ...] = (
        ("pretraining", "Pretraining a small RoBERTa raises the accuracy after finetuning.", learned, []),
        ("small", "Pretrained for as long, k = n / 4 is at most a point below RoBERTa.", near, learned),
        ("E and F, small", "Next to a local window, E and F raise the accuracy.", more, learned),
    )
    return [Verdict(name, claim, checks if is_measured else [], needed) for name, claim, checks, needed in claims]


def paper_verdicts(rows: Rows) -> list[Verdict]:
    skipped = near_chance(rows, NAMES)
    tasks = [task for task in NAMES if task not in skipped]
    n = min((row.n for row in rows), default=0)
    sizes = ((n, n // 4), (n, n // 2), (2 * n, n // 2))
    quarter, half, longer = ([paper_label(Model(*size, sharing)) for sharing in SHARINGS] for size in sizes)
    at_most, within = (lambda each: each.at_most(POINT)), (lambda each: each.within(-POINT, POINT))
    claims: list[tuple[str, str, list[Check]]] = [
        (
            "comparable",
            "Finetuned, the Linformer is comparable to RoBERTa.",
            [check_difference(rows, ROBERTA, model, [task], at_most) for task in tasks for model in quarter],
        ),
        (
            "k",
            "At k = n / 2 the Linformer slightly outperforms RoBERTa.",
            check_any([check_difference(rows, model, ROBERTA, tasks) for model in half]),
        ),
        (
            "sharing",
            "Of the three ways to share E and F, layerwise sharing has the best accuracy.",
            [check_difference(rows, half[2], other, tasks) for other in half[:2]],
        ),
        (
            "n",
            "Pretrained at twice the n, a Linformer of the same k has similar results.",
            [
                check_difference(rows, long, short, tasks, within)
                for long, short in zip(longer, half)
                if rows.find("accuracy", task=NAMES[0], model=long)
            ],
        ),
    ]
    remarks = [f"{task} is skipped because it is near chance: {best}" for task, best in skipped.items()]
    return [Verdict(name, claim, checks if rows else [], (), remarks) for name, claim, checks in claims]


def check_any(checks: Sequence[Check]) -> list[Check]:
    """Those with the best outcome, which decide if one that holds is enough."""
    best = min((check.outcome for check in checks), key=(HOLDS, UNDECIDED, FAILS).index)
    return [check for check in checks if check.outcome == best]


def check_difference(
    rows: Rows,
    a: str,
    b: str,
    tasks: Sequence[str],
    check: Callable[[Estimate], Check] = lambda difference: difference.more_than(0.0),
) -> Check:
    """The check of the mean accuracy over tasks of a, minus that of b."""
    text = f"{tasks[0] if len(tasks) == 1 else 'mean'}: {a} minus {b}"
    ours, theirs = (mean_accuracy(rows, model, tasks) for model in (a, b))
    return check(difference_of_extremes(ours, theirs, text)) if ours and theirs else _unmeasured(text, tasks)


def check_kept(rows: Rows, model: str, tasks: Sequence[str], bound: float) -> Check:
    """The check of the model's mean accuracy over the encoder's, by medians."""
    text = f"{model} / Transformer"
    ours, theirs = (mean_accuracy(rows, each, tasks) for each in (model, "Transformer"))
    if ours is None or theirs is None:
        return _unmeasured(text, tasks)
    share = ratio_of_extremes(ours, theirs, text)
    numbers = f"{share.value:.4f} [{share.low:.4f}, {share.high:.4f}]"
    return decide(share.value >= bound, f"{text}: {numbers}; needs ≥ {bound:g}")


def _unmeasured(text: str, tasks: Sequence[str]) -> Check:
    return Check(UNDECIDED, f"{text} needs {MIN_SEEDS} seeds on {', '.join(tasks) or 'a task above chance'}")


def encoder_verdicts(rows: Rows, scale: str) -> list[Verdict]:
    is_measured = rows.find("accuracy", model="Transformer")
    models, tasks = ENCODER_SIZES[scale]["models"], list(ENCODER_SIZES[scale]["batch_sizes"])
    n = models[0].n
    windowed = next(m for m in models if m.k == n // 4 and m.local_window)
    half, quarter = ([encoder_label(m) for m in models if m.k == k and not m.local_window] for k in (n // 2, n // 4))
    window = [check_kept(rows, encoder_label(windowed), tasks, WINDOW_KEEPS)]
    if sst_2 := rows.find("accuracy", task="sst-2", model=encoder_label(windowed)):
        window.append(decide(sst_2.value >= SST_2, f"sst-2: {in_words(sst_2)} %; needs ≥ {SST_2:g}"))
    kept = "Distilled, a Linformer of k = n / {} is {}as accurate as its Transformer."
    more = "Next to a local window, E and F raise the accuracy on long inputs."
    found = [
        Verdict("half", kept.format(2, ""), [check_kept(rows, model, tasks, HALF_KEEPS) for model in half]),
        Verdict("quarter", kept.format(4, "almost "), [check_kept(rows, m, tasks, QUARTER_KEEPS) for m in quarter]),
        Verdict("window", kept.format("4 with a local window", ""), window),
        Verdict(
            "E and F",
            more,
            [check_difference(rows, encoder_label(windowed), encoder_label(replace(windowed, k=1)), ["imdb"])],
        ),
    ]
    return found if is_measured else [replace(verdict, checks=[]) for verdict in found]


# Table


def tables(results: Sequence[Result]) -> list[Table]:
    """The small models; every other model with its accuracies, and the paper's."""
    rows = join(results)
    right: dict[tuple[str, str], list[float]] = {}
    for row in rows.select("right"):
        right.setdefault((row.model, row.task), []).append(row.value)
    small = [Row(metric="right", model=model, task=task, **repeated(values)) for (model, task), values in right.items()]
    title = "Accuracy in percent of small models pretrained from scratch, median over seeds [lowest, highest]"
    return [*pivot(title, small, "model", "task", partial(in_words, digits=4)), *accuracy_table(rows)]


def accuracy_table(rows: Rows) -> list[Table]:
    """None if nothing was measured."""
    rows = Rows(row for row in rows if row.metric != "right")
    if not rows:
        return []
    skipped, n, cells = near_chance(rows, NAMES), min(row.n for row in rows), []
    for model, row in {row.model: row for row in rows}.items():
        key = (row.n * 512 // n, row.k and row.k * 512 // n, row.sharing or "RoBERTa-base")
        printed = paper_numbers.TABLE_2.get(key, {})
        found = {task: in_words(rows.find("accuracy", task=task, model=model), 4) for task in NAMES}
        ours = [cell + (f" (paper {printed[task]})" if printed else "") for task, cell in found.items()]
        mean = mean_accuracy(rows, model, [task for task in NAMES if task not in skipped])
        cells.append([model, *ours, f"{mean.value:.2f}" if mean else "-"])
    without = f", without {', '.join(skipped)}, near chance" if skipped else ""
    title = (
        f"Accuracy in percent, median over seeds [lowest, highest]; mean over tasks{without}; in parentheses "
        "that of the paper's model of base size with the same sharing, and k and n in proportion to 512"
    )
    return [Table(title, ["model", *NAMES, "mean"], cells)]
