"""Finetuned on SST-2, IMDB, QNLI and QQP, a Linformer's accuracy is comparable to RoBERTa's, by n, k and sharing.

**Small models** are those of Figure 3, pretrained from scratch at n = 64 for the largest budget that all of them have:
RoBERTa, k = n / 4 without and with a local window of 4, and k = 1 with the window; each pretraining seed is finetuned
with the same seed, and RoBERTa from random weights too. Accuracies are compared row by row: the difference in points,
with the bootstrap's 95 % interval over rows and seeds. **pretraining**: RoBERTa is above random weights on both tasks;
unless it is, nothing else is decided, because then only labels are compared. **small**: on each task k = n / 4, and
with the window, is at most 1 point below RoBERTa (the lower end of the interval is at least -1); does not hold if the
upper end of one is below -1. **E and F, small**: on each task k = n / 4 with the window is above k = 1 with it; does
not hold if one interval has nothing above 0.

**At the paper's scale**, by n, k and sharing; n is that of RoBERTa, 512. **comparable**: on each task the Linformer of
k = n / 4, with each sharing, is at most 1 point below RoBERTa. **k**: the mean over tasks of a Linformer of k = n / 2,
with one of the sharings, is above RoBERTa's (the paper's is with layerwise sharing, 92.30 to 92.25, and not with the
others). **sharing**: at k = n / 2 layerwise sharing has a higher mean than headwise and key-value sharing. **n**: at
twice n and the same k the mean is within 1 point. Each holds if the runs of the two models do not overlap, in the
claimed direction, and fails if they do not overlap in the other one. Tasks are those with a model 5 points above the
most frequent class, by the lower end of its 95 % interval (Wilson). Not enough evidence with fewer than three seeds,
which are of finetuning alone. E and F of layerwise sharing start differently from the others', which may explain a
difference. The paper does not name QQP's metric; ASSUMED to be accuracy.

**Distilled encoders**: a pretrained encoder and Linformers distilled from it, finetuned for one epoch with three seeds,
compared like the small models, task by task. Converted, a Linformer leaves inputs of at most k / 2 tokens as they are,
so only rows longer than that count, and their number is printed. **quarter**, **window**: k = n / 4, without and with a
local window of 16, is at most 1 point below the encoder. **E and F**: k = n / 4 with the window is above k = 1 with it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...checkpoints.identify import LAST, MODEL, identify
from ...data.tasks import TASKS
from ...data.tokenizer_files import DICTIONARY
from ...evaluation.fairseq_classifier import FairseqClassifier, read_prepared_rows
from ...evaluation.predict import Throughput, predict
from ...training.finetune import FinetuningJob, finetune
from ...training.recipe import GRID_LRS, Recipe, build_grid
from ...training.run_folder import CHECKPOINTS, DONE
from .. import paper_numbers
from ..comparison import branches
from ..encoder import distill, open_encoder
from ..finetuned import encoder_job, finetune_once, finetuned_result, mean_accuracy, near_chance, result_of, task_folder
from ..page import Table, pivot
from ..paired import answer_row, answers_of, difference, unpack
from ..result import Inputs, Parts, Result, Row, Rows, describe_text, in_words, join, repeated
from ..run import Model, train_runs
from ..verdict import FAILS, HOLDS, MIN_SEEDS, UNDECIDED, Check, Estimate, Verdict
from . import figure_3

TITLE, WHERE = "Table 2", "Table 2, section 5.2"
SAYS = "finetuned, a Linformer's accuracy is comparable to RoBERTa's"
FOLDER = "table_2"
NAMES = ("sst-2", "imdb", "qnli", "qqp")
SHARINGS = ("headwise", "key-value", "layerwise")
ROBERTA = "roberta"
RANDOM = ", random weights"
"""The end of the label of a model that is finetuned without being pretrained."""
POINT = 1.0
"""Of accuracy, in percent: "comparable", "similar"."""
LONG = 8
"""Rows of more than n / 8 tokens are long: k / 2 for k = n / 4."""


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
        "models": (Model(32), *(Model.graded(32, k, local_window=w) for k, w in ((8, 0), (8, 4), (1, 4)))),
        "distillation": {"max_update": 2, "batch_size": 2, "lr": 2e-4},
        "lr": 1e-3,
        "batch_sizes": {"imdb": 8},
        "seeds": (1,),
    },
    "encoder": {
        "models": (Model(512), *(Model.graded(512, k, local_window=w) for k, w in ((128, 0), (128, 16), (1, 16)))),
        "distillation": {"max_update": 1000, "batch_size": 4, "lr": 2e-4, "amp": True},
        "lr": 1e-4,
        "batch_sizes": {"sst-2": 32, "imdb": 16, "qnli": 32, "qqp": 32},
        "seeds": (1, 2, 3),
    },
}
"""Of the distilled encoders. ``models``: the encoder; k = n / 4 without and with a window; k = 1 with it. ``lr``,
``batch_sizes``: of finetuning, for one epoch."""


def small_models(scale: str) -> dict[str, tuple[Model, bool]]:
    """The small models by label, and whether they are pretrained."""
    chosen = [model for model in figure_3.PANELS[scale]["a"] if model.k in (None, model.n // 4, 1) and not model.start]
    found = {model.label: (model, True) for model in chosen}
    return {**found, chosen[0].label + RANDOM: (chosen[0], False)}


def encoder_models(scale: str) -> dict[str, Model]:
    """The encoder and the models made from it, by label."""
    return {model.label: model for model in ENCODER_SIZES[scale]["models"]}


def parts_of(models: Iterable[str], tasks: Iterable[str], seeds: Iterable[int]) -> dict[str, tuple[str, str, int]]:
    """The task, the model's label and the seed of each part."""
    models, tasks = list(models), list(tasks)
    return {f"{task}: {each}, seed {seed}": (task, each, seed) for seed in seeds for each in models for task in tasks}


SMALL_PARTS = {
    scale: parts_of(small_models(scale), SIZES[scale]["tasks"], figure_3.SIZES[scale].seeds) for scale in SIZES
}
ENCODER_PARTS = {
    scale: parts_of(encoder_models(scale), sizes["batch_sizes"], sizes["seeds"])
    for scale, sizes in ENCODER_SIZES.items()
}
PARTS: Parts = {
    "smoke": {
        **dict.fromkeys(SMALL_PARTS["smoke"], ("data", "tasks")),
        **dict.fromkeys(ENCODER_PARTS["smoke"], ("data", "tasks", "encoder")),
    },
    "cpu": dict.fromkeys(SMALL_PARTS["cpu"], ("data", "tasks")),
    "encoder": dict.fromkeys(ENCODER_PARTS["encoder"], ("data", "tasks", "encoder")),
    "paper": {f"{task}: {each}": ("tasks",) for each in PAPER_MODELS for task in NAMES},
}
"""Each is named by its task and its model."""


# Runs


def run(inputs: Inputs) -> Result:
    scale, part = inputs.scale, inputs.part
    if scale == "paper":
        task, _, name = part.partition(": ")
        return result_of(task, name, finetune(paper_job(task, PAPER_MODELS[name], inputs, "cuda")), inputs)
    if part in SMALL_PARTS.get(scale, ()):
        task, name, seed = SMALL_PARTS[scale][part]
        model, is_pretrained = small_models(scale)[name]
        job = small_job(task, model, is_pretrained, seed, inputs)
    else:
        task, name, seed = ENCODER_PARTS[scale][part]
        model = encoder_models(scale)[name]
        job = distilled_job(task, model, seed, inputs)
    checkpoint, found = finetune_once(job)
    data = f"{task}: {found['data']}; pretrained or distilled on: {describe_text(inputs.data)}"
    rows = answer_rows(checkpoint, task, name, model, seed, inputs)
    return finetuned_result(rows, [found], data, inputs, recipe=found["recipe"], model=found["model"])


def small_job(task: str, model: Model, is_pretrained: bool, seed: int, inputs: Inputs) -> FinetuningJob:
    """Finetuning of a model of Figure 3, which is pretrained unless it is."""
    sizes, (lr, batch_size) = figure_3.sizes_of(inputs.scale, model), SIZES[inputs.scale]["finetuning"]
    models = (each for each, _ in small_models(inputs.scale).values())
    budget = min(figure_3.sizes_of(inputs.scale, each).budgets[-1] for each in models)
    pretraining = branches(model, seed, sizes)[budget]
    trained = train_runs([pretraining], sizes, inputs.folder, inputs.data)[pretraining]
    return FinetuningJob(
        TASKS[task],
        identify(trained.checkpoint),
        [Recipe(lr, batch_size, 1, seed)],
        f"{task}-{model.name}{'' if is_pretrained else '-random'}-seed{seed}",
        str(task_folder(task, model.n, inputs)),
        str(inputs.folder / FOLDER),
        from_scratch=not is_pretrained,
        overrides=("dataset.num_workers=0",),
    )


def distilled_job(task: str, model: Model, seed: int, inputs: Inputs) -> FinetuningJob:
    """Finetuning of an encoder, or of a Linformer that is distilled from it unless it is."""
    sizes = ENCODER_SIZES[inputs.scale]
    encoder = open_encoder(inputs.encoder, model.n, inputs.folder / FOLDER)
    linformer = model.k and distill(model, sizes["distillation"], inputs.data, encoder)[0] / MODEL
    recipe, amp = (sizes["lr"], sizes["batch_sizes"][task]), "amp" in sizes["distillation"]
    data, name = task_folder(task, model.n, inputs), f"{task}-{model.name}-seed{seed}"
    return encoder_job(task, linformer or encoder, recipe, seed, name, data, encoder.parent, amp)


def answer_rows(checkpoint: Path, task: str, name: str, model: Model, seed: int, inputs: Inputs) -> list[Row]:
    """Right and wrong answers of a finetuned model to all rows; with a Transformer's, which rows are long."""
    data = task_folder(task, model.n, inputs)
    classifier = FairseqClassifier(checkpoint, dictionary=data / "input0" / DICTIONARY)
    total, rows = read_prepared_rows(classifier, data, "valid")
    predicted = list(predict(classifier, rows, Throughput(), total=total))
    right = [int(logits.argmax()) == row.target for row, logits in predicted]
    found = [answer_row(right, "right", task=task, model=name, n=model.n, seed=seed)]
    if model.k is None:
        is_long = [len(row.encoded["input_ids"]) > model.n // LONG for row, _ in predicted]
        found.append(answer_row(is_long, "long", task=task, n=model.n, seed=seed))
    return found


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
    tasks, (roberta, quarter, windowed, control, random) = SIZES[scale]["tasks"], small_models(scale)
    is_measured = any(rows.find("right", model=model) for model in small_models(scale))

    check = partial(check_answers, rows)
    learned = [check(task, roberta, random, 0.0) for task in tasks]
    near = [check(task, each, roberta, -POINT) for task in tasks for each in (quarter, windowed)]
    more = [check(task, windowed, control, 0.0) for task in tasks]
    claims: tuple[tuple[str, str, list[Check], list[Check]], ...] = (
        ("pretraining", "Pretraining a small RoBERTa raises the accuracy after finetuning.", learned, []),
        ("small", "Pretrained for as long, k = n / 4 is at most a point below RoBERTa.", near, learned),
        ("E and F, small", "Next to a local window, E and F raise the accuracy.", more, learned),
    )
    return [Verdict(name, claim, checks if is_measured else [], needed) for name, claim, checks, needed in claims]


def check_answers(rows: Rows, task: str, a: str, b: str, limit: float, chosen: np.ndarray | None = None) -> Check:
    """Points by which the accuracy of a is above that of b, on all rows of a task or on those ``chosen``; at least the
    limit, or above it if it is 0."""
    ours, theirs = (answers_of(rows, "right", task=task, model=name) for name in (a, b))
    if ours.shape != theirs.shape or len(ours) < MIN_SEEDS:
        return Check(UNDECIDED, f"{task}: {a} or {b} needs {MIN_SEEDS} seeds")
    number = ""
    if chosen is not None:
        ours, theirs, number = ours[:, chosen], theirs[:, chosen], f" on {chosen.sum():,} of {len(chosen):,} rows"
    if not ours.size:
        return Check(UNDECIDED, f"{task}: {a} minus {b}{number}: nothing to compare")
    change = difference(ours, theirs, f"{task}: {a} minus {b}, points{number}")
    return change.at_least(limit) if limit else change.more_than(limit)


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
    if not ours or not theirs:
        return Check(UNDECIDED, f"{text} needs {MIN_SEEDS} seeds on {', '.join(tasks) or 'a task above chance'}")
    # between the differences of their most distant runs
    return check(Estimate(ours.value - theirs.value, ours.low - theirs.high, ours.high - theirs.low, text))


def encoder_verdicts(rows: Rows, scale: str) -> list[Verdict]:
    """The claims on each task, on its long rows."""
    transformer, quarter, windowed, control = encoder_models(scale)
    kept = "Distilled, on long rows of {}, k = n / 4{} is at most a point below its Transformer."
    more = "Next to a local window, E and F raise the accuracy on long rows of {}."
    found = []
    for task in ENCODER_SIZES[scale]["batch_sizes"]:
        long = rows.find("long", task=task)
        claims = (
            ("quarter", kept.format(task, ""), quarter, transformer, -POINT),
            ("window", kept.format(task, " with a local window"), windowed, transformer, -POINT),
            ("E and F", more.format(task), windowed, control, 0.0),
        )
        for name, claim, a, b, limit in claims:
            checks = [check_answers(rows, task, a, b, limit, unpack(long))] if long else []
            found.append(Verdict(f"{name}, {task}", claim, checks))
    return found


# Table


def tables(results: Sequence[Result]) -> list[Table]:
    """Accuracies on all rows and on long ones; at the paper's scale next to the paper's."""
    rows = join(results)
    long = {row.task: unpack(row) for row in rows.select("long")}
    title = "Accuracy in percent{}, median over seeds [lowest, highest]"
    found = answer_table(rows, title.format(""))
    if long:
        numbers = ", ".join(f"{mask.sum():,} of {len(mask):,} of {task}" for task, mask in long.items())
        found += answer_table(rows, title.format(f" on long rows ({numbers})"), long)
    return found + accuracy_table(Rows(row for row in rows if row.metric not in ("right", "long")))


def answer_table(rows: Rows, title: str, chosen: Mapping[str, np.ndarray] | None = None) -> list[Table]:
    """None without answers. ``chosen``: the rows that count of each task, for all if there are any."""
    shares: dict[tuple[str, str], list[float]] = {}
    for row in rows.select("right"):
        answers = unpack(row) if chosen is None else unpack(row)[chosen.get(row.task, [])]
        if answers.size:
            shares.setdefault((row.model, row.task), []).append(100 * float(answers.mean()))
    found = [Row(metric="right", model=m, task=task, **repeated(values)) for (m, task), values in shares.items()]
    return pivot(title, found, "model", "task", partial(in_words, digits=4))


def accuracy_table(rows: Rows) -> list[Table]:
    """None if nothing was measured."""
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
