"""Finetuned on SST-2, IMDB, QNLI and QQP, a Linformer's accuracy is comparable to RoBERTa's, by n, k and sharing.

**Small models** are those of Figure 3, pretrained from scratch at n = 64 for the largest budget: RoBERTa, k = n / 4
without and with a local window of 4, and k = 1 with the window; each pretraining seed is finetuned with the same seed,
and RoBERTa from random weights too. Accuracies are compared row by row: the difference in points, with the bootstrap's
95 % interval over rows and seeds. **pretraining**: RoBERTa is above random weights on both tasks; unless it is, nothing
else is decided, because then only labels are compared. **small**: on each task k = n / 4, and with the window, is at
most 1 point below RoBERTa (the lower end of the interval is at least -1); does not hold if the upper end of one is
below -1. **E and F, small**: on each task k = n / 4 with the window is above k = 1 with it; does not hold if one
interval has nothing above 0.

**At the paper's scale**, by n, k and sharing; n is that of RoBERTa, 512. There is one pretraining of each model. A
setting of finetuning (learning rate, batch size) is chosen on the compared rows: that with the best median over three
seeds. Models are compared row by row like the small ones; the interval of a mean over tasks resamples the rows and
seeds of each task by themselves. **comparable**: on each task the Linformer of k = n / 4, with each sharing, is at most
1 point below RoBERTa. **k**: the mean over tasks of k = n / 2 with layerwise sharing is above RoBERTa's (the paper has
92.30 and 92.25, and with its other sharings less than RoBERTa). **sharing**: at k = n / 2 layerwise sharing has a
higher mean than headwise and key-value sharing. **n**: at twice n and the same k the mean is at most 1 point lower, and
at most 1 higher. Nothing is decided unless on each task RoBERTa minus the most frequent class is at least 5 points (the
lower end of the interval). E and F of layerwise sharing start differently from the others', which may explain a
difference. The paper does not name QQP's metric; ASSUMED to be accuracy.

**Distilled encoders**: a pretrained encoder and Linformers distilled from it, finetuned for one epoch with three seeds,
compared like the small models, task by task. Converted, a Linformer leaves inputs of at most k / 2 tokens as they are,
so only rows longer than that count, and their number is printed. **quarter**, **window**: k = n / 4, without and with a
local window of 16, is at most 1 point below the encoder; whether k = 2 with the window is, too, is reported. **E and
F**: k = n / 4 with the window is above k = 2 with it, that is <s> and one average of all other tokens (weighted in E),
and above the encoder finetuned on the first n / 8 tokens, which k = n / 4 keeps one by one (added on 2026-11-30, after
one seed of each model on QNLI; a pair is cut as in BERT, the longer text first: in half of QQP's long rows both texts
lose their end).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from statistics import mode
from typing import Any

import numpy as np

from ...checkpoints.identify import LAST, MODEL, identify
from ...data.tasks import TASKS
from ...models.datasets import open_dataset
from ...training.finetune import FinetuningJob, finetune
from ...training.ranking import rank_settings
from ...training.recipe import GRID_LRS, Recipe, build_grid
from ...training.run_folder import CHECKPOINTS, DONE
from .. import paper_numbers
from ..comparison import branches
from ..document_models import Reader, write_reader
from ..encoder import distill, open_encoder
from ..finetuned import encoder_job, finetune_once, finetuned_result, task_folder
from ..page import Table, pivot
from ..paired import answer_row, answers_of, difference, unpack
from ..result import Inputs, Parts, Result, Row, Rows, describe_text, in_words, join, repeated
from ..run import CONTROL_K, Model, train_runs
from ..verdict import MIN_SEEDS, UNDECIDED, Check, Verdict
from . import figure_3

TITLE, WHERE = "Table 2", "Table 2, section 5.2"
SAYS = "finetuned, a Linformer's accuracy is comparable to RoBERTa's"
FOLDER = "table_2"
NAMES = ("sst-2", "imdb", "qnli", "qqp")
SHARINGS = ("headwise", "key-value", "layerwise")
RANDOM = ", random weights"
"""The end of the label of a model that is finetuned without being pretrained."""
MAJORITY = "most frequent class"
"""The model that answers it always."""
POINT, ABOVE_CHANCE = 1.0, 5.0
"""Of accuracy, in percent: "comparable", "similar"; and above the most frequent class."""
LONG = 8
"""Rows of more than n / 8 tokens are long: k / 2 for k = n / 4."""


SIZES: dict[str, dict[str, Any]] = {
    "smoke": {"tasks": ("imdb",), "finetuning": (1e-3, 8)},
    "cpu": {"tasks": ("sst-2", "imdb"), "finetuning": (5e-4, 32)},
}
"""Of the small models. ``finetuning``: learning rate and batch size, for one epoch."""
QUARTER, HALF, LONGER = (
    [Model(n, k, sharing) for sharing in SHARINGS] for n, k in ((512, 128), (512, 256), (1024, 256))
)
PAPER_MODELS = {model.label: model for model in (Model(512), *QUARTER, *HALF, *LONGER)}
"""The rows of Table 2 that are pretrained here."""
GRID = build_grid(GRID_LRS, (16, 32), (1, 2, 3))
"""RoBERTa's grid for GLUE (Liu et al. 2019, Table 10): ASSUMED, as the paper does not describe its finetuning."""


ENCODER_SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "models": (Model(32), *(Model.graded(32, k, local_window=w) for k, w in ((8, 0), (8, 4), (CONTROL_K, 4)))),
        "distillation": {"max_update": 2, "batch_size": 2, "lr": 2e-4},
        "lr": 1e-3,
        "batch_sizes": {"imdb": 8},
        "seeds": (1,),
    },
    "encoder": {
        "models": (
            Model(512),
            *(Model.graded(512, k, local_window=w) for k, w in ((128, 0), (128, 16), (CONTROL_K, 16))),
        ),
        "distillation": {"max_update": 1000, "batch_size": 4, "lr": 2e-4},
        "lr": 1e-4,
        "batch_sizes": {"sst-2": 32, "imdb": 16, "qnli": 32, "qqp": 32},
        "seeds": (1, 2, 3),
    },
}
"""Of the distilled encoders. ``models``: the encoder; k = n / 4 without and with a window; k = 2 with it. ``lr``,
``batch_sizes``: of finetuning, for one epoch."""


def small_models(scale: str) -> dict[str, tuple[Model, bool]]:
    """The small models by label, and whether they are pretrained."""
    roberta, *linformers = figure_3.table_2_models(scale)
    pretrained = {model.label: (model, True) for model in (roberta, *linformers)}
    return {**pretrained, roberta.label + RANDOM: (roberta, False)}


def encoder_models(scale: str) -> dict[str, Model]:
    """The encoder and the models made from it, by label; the last one is the encoder, which reads the first n / 8
    tokens."""
    models = ENCODER_SIZES[scale]["models"]
    short = models[0].n // LONG
    return {**{model.label: model for model in models}, f"first {short} tokens": Model(short)}


def parts_of(models: Iterable[str], tasks: Iterable[str], seeds: Iterable[int]) -> dict[str, tuple[str, str, int]]:
    """The task, the model's label and the seed of each part."""
    models, tasks = list(models), list(tasks)
    return {f"{task}: {each}, seed {seed}": (task, each, seed) for seed in seeds for task in tasks for each in models}


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
"""Each is named by its task, its model and, but for the paper's, its seed."""


# Runs


def run(inputs: Inputs) -> Result:
    scale, part = inputs.scale, inputs.part
    if scale == "paper":
        task, name = part.split(": ")
        return run_grid(task, name, inputs)
    if part in SMALL_PARTS.get(scale, ()):
        task, name, seed = SMALL_PARTS[scale][part]
        model, is_pretrained = small_models(scale)[name]
        job = small_job(task, model, is_pretrained, seed, inputs)
    else:
        task, name, seed = ENCODER_PARTS[scale][part]
        model = encoder_models(scale)[name]
        job = distilled_job(task, model, seed, inputs)
    _, found = finetune_once(job)
    data = f"{task}: {found['data']}; pretrained or distilled on: {describe_text(inputs.data)}"
    rows = answer_rows(Path(job.runs, job.name), task, name, model, seed, inputs)
    return finetuned_result(rows, [found], data, inputs, recipe=found["recipe"], model=found["model"])


def run_grid(task: str, name: str, inputs: Inputs) -> Result:
    """Finetune a pretrained model with every setting of ``GRID``, and compare the seeds of the best one."""
    model = PAPER_MODELS[name]
    pretraining = inputs.runs / figure_3.config_name(model)
    if not (pretraining / DONE).exists():
        raise ValueError(f"{pretraining} must be a finished pretraining, but it has no file {DONE}")
    job = FinetuningJob(
        TASKS[task],
        identify(pretraining / CHECKPOINTS / LAST),
        GRID,
        f"table-2/{pretraining.name}/{task}",
        str(task_folder(task, model.n, inputs)),
        str(inputs.runs),
        device="cuda",
    )
    results = finetune(job)
    chosen, rows = rank_settings(TASKS[task], results)[0], []
    for each, found in zip(GRID, results):
        if found in chosen:
            rows += answer_rows(Path(job.runs, job.name, each.name), task, name, model, each.seed, inputs)
    recipe = {each: chosen[0]["recipe"][each] for each in ("lr", "batch_size")}
    return finetuned_result(rows, results, f"{task}: {results[0]['data']}", inputs, recipe=recipe)


def small_job(task: str, model: Model, is_pretrained: bool, seed: int, inputs: Inputs) -> FinetuningJob:
    """Finetuning of a model of Figure 3, which is pretrained unless it is."""
    sizes, (lr, batch_size) = figure_3.sizes_of(inputs.scale, model), SIZES[inputs.scale]["finetuning"]
    pretraining = branches(model, seed, sizes)[sizes.budgets[-1]]
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
    """Finetuning of an encoder, whole or with fewer positions, or of a Linformer that is distilled from it unless it
    is."""
    sizes = ENCODER_SIZES[inputs.scale]
    start = encoder = open_encoder(inputs.encoder, model.n, inputs.folder / FOLDER)
    if model.k:
        start = distill(model, sizes["distillation"], inputs.data, encoder)[0] / MODEL
    elif model != sizes["models"][0]:
        start = write_reader(Reader(model), encoder, encoder.parent)
    recipe = sizes["lr"], sizes["batch_sizes"][task]
    data, name = task_folder(task, model.n, inputs), f"{task}-{model.name}-seed{seed}"
    return encoder_job(task, start, recipe, seed, name, data, encoder.parent)


def answer_rows(run: Path, task: str, name: str, model: Model, seed: int, inputs: Inputs) -> list[Row]:
    """Right and wrong answers of a finetuned model to all rows. Those of a pretrained Transformer bring along what is
    the same for all models: the answers of the most frequent class, and which rows are long."""
    rows = [json.loads(line) for line in (run / "valid.jsonl").read_text(encoding="utf-8").splitlines()]
    right = [row["prediction"] == row["label"] for row in rows]
    found = [answer_row(right, "right", task=task, model=name, n=model.n, seed=seed)]
    if name == Model(model.n).label:
        labels = [row["label"] for row in rows]
        majority = mode(labels)
        is_majority = [label == majority for label in labels]
        found.append(answer_row(is_majority, "right", task=task, model=MAJORITY, n=model.n, seed=seed))
        texts = [open_dataset(path / "valid") for path in task_folder(task, model.n, inputs).glob("input[01]")]
        # A text ends with </s>, and fairseq's task adds a token before it.
        is_long = sum(text.sizes + 1 for text in texts) > model.n // LONG
        found.append(answer_row(is_long, "long", task=task, n=model.n, seed=seed))
    return found


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
    learned = [check([task], roberta, random, 0.0) for task in tasks]
    near = [check([task], each, roberta, -POINT) for task in tasks for each in (quarter, windowed)]
    more = [check([task], windowed, control, 0.0) for task in tasks]
    claims: tuple[tuple[str, str, list[Check], list[Check]], ...] = (
        ("pretraining", "Pretraining a small RoBERTa raises the accuracy after finetuning.", learned, []),
        ("small", "Pretrained for as long, k = n / 4 is at most a point below RoBERTa.", near, learned),
        ("E and F, small", "Next to a local window, E and F raise the accuracy.", more, learned),
    )
    return [Verdict(name, claim, checks if is_measured else [], needed) for name, claim, checks, needed in claims]


def check_answers(
    rows: Rows,
    tasks: Sequence[str],
    a: str,
    b: str,
    limit: float,
    chosen: np.ndarray | None = None,
    metric: str = "right",
) -> Check:
    """Points by which the accuracy of a is above that of b, mean over tasks, on all rows or on those ``chosen``; at
    least the limit, or above it if it is 0."""
    where = f"{tasks[0] if len(tasks) == 1 else 'mean over tasks'}: {a} minus {b}"
    answers = partial(answers_of, rows, metric)
    pairs = [(answers(task=task, model=a), answers(task=task, model=b)) for task in tasks]
    if any(ours.shape != theirs.shape or len(ours) < MIN_SEEDS for ours, theirs in pairs):
        return Check(UNDECIDED, f"{where} needs {MIN_SEEDS} seeds, and the same rows")
    if chosen is not None:
        pairs = [(ours[:, chosen], theirs[:, chosen]) for ours, theirs in pairs]
        where += f" on {chosen.sum():,} of {len(chosen):,} rows"
        if not chosen.any():
            return Check(UNDECIDED, f"{where}: nothing to compare")
    change = difference(pairs, f"{where}, points")
    return change.at_least(limit) if limit else change.more_than(limit)


def paper_verdicts(rows: Rows) -> list[Verdict]:
    """All claims need a RoBERTa that is above chance."""
    quarter, half, longer = ([model.label for model in models] for models in (QUARTER, HALF, LONGER))
    roberta, (*others, layerwise) = Model(512).label, half
    check = partial(check_answers, rows)
    above_chance = [check([task], roberta, MAJORITY, ABOVE_CHANCE) for task in NAMES]
    near = [check([task], model, roberta, -POINT) for task in NAMES for model in quarter]
    best = [check(NAMES, layerwise, other, 0.0) for other in others]
    similar = [check(NAMES, a, b, -POINT) for each in zip(longer, half) for a, b in permutations(each)]
    claims = (
        ("comparable", "Finetuned, the Linformer is comparable to RoBERTa.", near),
        ("k", "At k = n / 2 the Linformer slightly outperforms RoBERTa.", [check(NAMES, layerwise, roberta, 0.0)]),
        ("sharing", "Of the three ways to share E and F, layerwise sharing has the best accuracy.", best),
        ("n", "Pretrained at twice the n, a Linformer of the same k has similar results.", similar),
    )
    return [Verdict(name, claim, checks if rows else [], above_chance) for name, claim, checks in claims]


def encoder_verdicts(rows: Rows, scale: str) -> list[Verdict]:
    """The claims on each task, on its long rows."""
    transformer, quarter, windowed, control, short = encoder_models(scale)
    kept = "Distilled, on long rows of {}, k = n / 4{} is at most a point below its Transformer."
    more = "Next to a local window, E and F raise the accuracy on long rows of {}."
    found = []
    for task in ENCODER_SIZES[scale]["batch_sizes"]:
        long = rows.find("long", task=task)
        check = partial(check_answers, rows, [task], chosen=unpack(long) if long else None)
        near, window, alone = (check(each, transformer, -POINT) for each in (quarter, windowed, control))
        above = [check(windowed, other, 0.0) for other in (control, short)]
        claims: tuple[tuple[str, str, list[Check], list[Check]], ...] = (
            ("quarter", kept.format(task, ""), [near], []),
            ("window", kept.format(task, " with a local window"), [window], [alone]),
            ("E and F", more.format(task), above, []),
        )
        for name, claim, checks, reported in claims:
            remarks = [each.text for each in reported if long]
            found.append(Verdict(f"{name}, {task}", claim, checks if long else [], remarks=remarks))
    return found


# Table


def tables(results: Sequence[Result]) -> list[Table]:
    """Accuracies on all rows and on long ones; at the paper's scale also those of the paper."""
    rows = join(results)
    long = {row.task: unpack(row) for row in rows.select("long")}
    title = "Accuracy in percent{}, median over seeds [lowest, highest]"
    found = answer_table(rows, title.format(""))
    if results[0].scale == "paper":
        printed = paper_numbers.TABLE_2.items()
        cells = [[str(n), str(k or ""), name, *map(str, values.values())] for (n, k, name), values in printed]
        return [*found, Table("The paper's", ["n", "k", "model or sharing", *NAMES], cells)]
    if long:
        numbers = ", ".join(f"{mask.sum():,} of {len(mask):,} of {task}" for task, mask in long.items())
        found += answer_table(rows, title.format(f" on long rows ({numbers})"), long)
    return found


def answer_table(rows: Rows, title: str, chosen: Mapping[str, np.ndarray] | None = None) -> list[Table]:
    """None without answers. ``chosen``: the rows that count of each task, for all if there are any."""
    shares: dict[tuple[str, str], list[float]] = {}
    for row in rows.select("right"):
        answers = unpack(row) if chosen is None else unpack(row)[chosen.get(row.task, [])]
        if answers.size:
            shares.setdefault((row.model, row.task), []).append(100 * float(answers.mean()))
    found = [Row(metric="right", model=m, task=task, **repeated(values)) for (m, task), values in shares.items()]
    return pivot(title, found, "model", "task", partial(in_words, digits=4))
