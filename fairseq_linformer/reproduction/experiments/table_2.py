"""Finetuned on SST-2, IMDB, QNLI and QQP, a Linformer is as accurate as RoBERTa, by n, k and sharing.

**Small models** are pretrained here: a RoBERTa, which is finetuned from scratch too, and Linformers converted from
it; n is that of RoBERTa, 512 in the paper. **comparable**: on each task the Linformer of k = n / 4, with each
sharing, is at most 1 point below RoBERTa. **k**: the mean over tasks of a Linformer of k = n / 2, with one of the
sharings, is above RoBERTa's (the paper's is with layerwise sharing, 92.30 to 92.25, and not with the others).
**sharing**: at k = n / 2 layerwise sharing has a higher mean than headwise and key-value sharing. **n**: at twice n
and the same k the mean is within 1 point. Each holds if the runs of the two models do not overlap, in the claimed
direction, and fails if they do not overlap in the other one.

Tasks are those with a model 5 points above the most frequent class, by the lower end of its 95 % interval (Wilson).
Not enough evidence with fewer than three seeds, which are of finetuning alone, or if RoBERTa pretrained does not have
a higher mean than from scratch, because then only labels are compared; the paper's scale, where no model is finetuned
from scratch, lacks this control. E and F of layerwise sharing start differently from the others', which may explain a
difference. The paper does not name QQP's metric; ASSUMED to be accuracy.

**Distilled encoders**: a pretrained encoder and Linformers distilled from it, finetuned for one epoch with three
seeds. By medians: with each sharing **half** (k = n / 2) keeps at least 99 % of the encoder's mean accuracy,
**quarter** (n / 4) 98 %; **window**: k = n / 4 with W = 16 keeps 99 % and reaches 89 % on SST-2; otherwise they do not
hold. **E and F**: on IMDB, which has the longest inputs, every run of k = n / 4 with W = 16 is above every run of k = 1
with that window; it does not hold if no run is above any of the other model. (Written before the first measurement.)
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ...checkpoints.identify import LAST, MODEL, identify
from ...data.tasks import TASKS
from ...training.finetune import FinetuningJob, finetune, open_job
from ...training.job import TrainingJob
from ...training.recipe import GRID_LRS, Recipe, build_grid, run_names
from ...training.run_folder import CHECKPOINTS, DONE
from .. import paper
from ..display import Table
from ..encoder import EncoderModel, distill, open_encoder
from ..finetuned import mean_accuracy, near_chance, result_of, task_folder
from ..result import Inputs, Parts, Result, Rows, in_words, join
from ..run import CONFIG, Model, Run, train_runs
from ..scales import SCALES
from ..statistics import (
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
ROBERTA, SCRATCH = "roberta", ", from scratch"
POINT = 1.0
"""Of accuracy, in percent: "comparable", "similar"."""


def label(model: Model) -> str:
    return ROBERTA if model.k is None else f"n={model.n}, k={model.k}, {model.sharing}"


SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "stages": ((8, 3), (16, 3)),
        "last": 4,
        "lr": 1e-3,
        "linformers": (Model(16, 8),),
        "finetuning": (1e-3, 8),
        "epochs": dict.fromkeys(NAMES, 1),
    },
    "cpu": {
        "stages": ((16, 2000), (32, 400), (64, 4000), (128, 5000)),
        "last": 1500,
        "lr": 2e-3,
        "linformers": (*(Model(128, k, sharing) for k in (64, 32) for sharing in SHARINGS), Model(256, 64)),
        "finetuning": (5e-4, 32),
        "epochs": {"sst-2": 1, "imdb": 1, "qnli": 1, "qqp": 2},
    },
}
"""Of the small models. ``stages``: (n, updates) of RoBERTa, from scratch and then growing; the last n is its own.
``last``: updates of each model after the stages, with the learning rate decaying to zero. ``lr``: of pretraining.
``finetuning``: learning rate and batch size.
"""
PAPER_MODELS = {
    label(model): model
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
        "models": (EncoderModel(32), EncoderModel(32, 8, local_window=4)),
        "distillation": {"max_update": 2, "batch_size": 2, "lr": 2e-4},
        "lr": 1e-3,
        "batch_sizes": {"imdb": 8},
        "seeds": (1,),
    },
    "encoder": {
        "models": (
            EncoderModel(512),
            *(EncoderModel(512, k, local_window=16) for k in (128, 1)),
            *(EncoderModel(512, k, sharing) for sharing in SHARINGS for k in (256, 128)),
        ),
        "distillation": {"max_update": 1000, "batch_size": 4, "lr": 2e-4, "amp": True},
        "lr": 1e-4,
        "batch_sizes": {"sst-2": 32, "imdb": 16, "qnli": 32, "qqp": 32},
        "seeds": (1, 2, 3),
    },
}
"""Of the distilled encoders. ``models``: the encoder first. ``lr``, ``batch_sizes``: of finetuning, for one epoch."""
HALF_KEEPS, QUARTER_KEEPS, WINDOW_KEEPS, SST_2 = 0.99, 0.98, 0.99, 89.0


def small_parts(scale: str) -> dict[str, tuple[str, ...]]:
    labels = [ROBERTA, ROBERTA + SCRATCH, *map(label, SIZES[scale]["linformers"])]
    return {f"{task}: {each}": ("data", "tasks") for each in labels for task in NAMES}


def encoder_parts(scale: str) -> dict[str, Model]:
    """The model of each part."""
    sizes = ENCODER_SIZES[scale]
    return {f"{task}: {model.label}": model for model in sizes["models"] for task in sizes["batch_sizes"]}


_ON_ENCODER: Parts = {
    scale: dict.fromkeys(encoder_parts(scale), ("data", "tasks", "encoder")) for scale in ENCODER_SIZES
}
PARTS: Parts = {
    "smoke": small_parts("smoke") | _ON_ENCODER["smoke"],
    "cpu": small_parts("cpu"),
    "encoder": _ON_ENCODER["encoder"],
    "paper": {f"{task}: {each}": ("tasks",) for each in PAPER_MODELS for task in NAMES},
}
"""Each is named by its task and its model."""


# Runs


def run(part: str, scale: str, inputs: Inputs) -> Result:
    task, _, name = part.partition(": ")
    configuration: dict[str, Any] = {}
    if part in _ON_ENCODER.get(scale, ()):
        model = encoder_parts(scale)[part]
        configuration = {"model": asdict(model), "distillation": ENCODER_SIZES[scale]["distillation"]}
        results = finetune_encoder(task, model, scale, inputs)[1]
    elif scale == "paper":
        results = finetune(paper_job(task, PAPER_MODELS[name], inputs, "cuda"))
    else:
        configuration = {key: SIZES[scale][key] for key in ("stages", "last", "lr")}
        results = finetune(small_job(task, name, scale, inputs))
    return result_of(part, scale, task, name, results, inputs, configuration)


def pretraining_runs(scale: str) -> dict[str, Run]:
    """The pretrained small models by label, of one seed; those of one n have the same number of updates."""
    sizes, seed = SIZES[scale], SCALES[scale].seeds[0]
    (n, updates), *growth = sizes["stages"]
    base = Run(Model(n), seed, "scratch", updates)
    for n, updates in growth:
        base = Run(Model(n), seed, "grown", updates, base)
    found = {ROBERTA: Run(base.model, seed, "continued", sizes["last"], base, decays=True)}
    for model in sizes["linformers"]:
        start = base if model.n == base.model.n else Run(Model(model.n), seed, "grown", SCALES[scale].grown, base)
        found[label(model)] = Run(model, seed, "converted", sizes["last"], start, decays=True)
    return found


def small_job(task: str, name: str, scale: str, inputs: Inputs) -> FinetuningJob:
    """The finetuning of a model with each seed; it is pretrained first unless it is."""
    sizes, folder = SIZES[scale], inputs.runs / scale / "table_2"
    pretraining = pretraining_runs(scale)[name.removesuffix(SCRATCH)]
    data = task_folder(task, pretraining.model.n, inputs)
    trained = train_runs([pretraining], replace(SCALES[scale], lr=sizes["lr"]), folder, inputs.text)
    lr, batch_size = sizes["finetuning"]
    slug = name.replace(", ", "-").replace("=", "").replace(" ", "")
    return FinetuningJob(
        TASKS[task],
        identify(trained[pretraining].checkpoint),
        [Recipe(lr, batch_size, sizes["epochs"][task], seed) for seed in SCALES[scale].seeds],
        f"finetuned/{task}-{slug}",
        str(data),
        str(folder),
        from_scratch=name.endswith(SCRATCH),
        overrides=("dataset.num_workers=0",),
    )


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
    """The grid of a model that ``submit --array pretraining`` has trained."""
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


def slurm_jobs(runs, tasks, device: str) -> list[TrainingJob]:
    """The Slurm array of all grids."""
    if tasks is None:
        raise ValueError("--array table-2 needs --tasks")
    inputs = Inputs("", Path(runs), tasks=Path(tasks))
    jobs = [paper_job(task, model, inputs, device) for model in PAPER_MODELS.values() for task in NAMES]
    return [training for job in jobs for training in open_job(job)[1]]


def slurm_pretraining(runs, tasks, device: str) -> list[TrainingJob]:
    """The Slurm array of all pretrainings: of Figure 3, and of this table."""
    jobs = [job for array in figure_3.ARRAYS.values() for job in array(runs, tasks, device)]
    names = [figure_3.config_name(model) for model in PAPER_MODELS.values()]
    jobs += [TrainingJob(str(CONFIG), (f"+run={name}",), 1, device, str(runs)) for name in names]
    return list(dict.fromkeys(jobs))


ARRAYS = {"table-2": slurm_jobs, "pretraining": slurm_pretraining}


# Verdicts


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    rows = join(results)
    if rows.find("accuracy", model="Transformer"):
        return encoder_verdicts(rows, results[0].scale)
    return small_verdicts(rows, has_scratch=bool(rows) and results[0].scale != "paper")


def small_verdicts(rows: Rows, has_scratch: bool) -> list[Verdict]:
    skipped = near_chance(rows, NAMES)
    tasks = [task for task in NAMES if task not in skipped]
    n = min((row.n for row in rows), default=0)
    sizes = ((n, n // 4), (n, n // 2), (2 * n, n // 2))
    quarter, half, longer = ([label(Model(*size, sharing)) for sharing in SHARINGS] for size in sizes)
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
    learned = [check_difference(rows, ROBERTA, ROBERTA + SCRATCH, tasks)] if has_scratch else []
    remarks = [f"{task} is skipped because it is near chance: {best}" for task, best in skipped.items()]
    return [Verdict(name, claim, checks if rows else [], learned, remarks) for name, claim, checks in claims]


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
    models, tasks = ENCODER_SIZES[scale]["models"], list(ENCODER_SIZES[scale]["batch_sizes"])
    n = models[0].n
    windowed = next(m for m in models if m.k == n // 4 and m.local_window)
    half, quarter = ([m.label for m in models if m.k == k and not m.local_window] for k in (n // 2, n // 4))
    window = [check_kept(rows, windowed.label, tasks, WINDOW_KEEPS)]
    if sst_2 := rows.find("accuracy", task="sst-2", model=windowed.label):
        window.append(decide(sst_2.value >= SST_2, f"sst-2: {in_words(sst_2)} %; needs ≥ {SST_2:g}"))
    kept = "Distilled, a Linformer of k = n / {} is {}as accurate as its Transformer."
    more = "Next to a local window, E and F raise the accuracy on long inputs."
    return [
        Verdict("half", kept.format(2, ""), [check_kept(rows, model, tasks, HALF_KEEPS) for model in half]),
        Verdict("quarter", kept.format(4, "almost "), [check_kept(rows, m, tasks, QUARTER_KEEPS) for m in quarter]),
        Verdict("window", kept.format("4 with a local window", ""), window),
        Verdict("E and F", more, [check_difference(rows, windowed.label, replace(windowed, k=1).label, ["imdb"])]),
    ]


# Table


def tables(results: Sequence[Result]) -> list[Table]:
    """Every model with its accuracies, and the paper's."""
    rows = join(results)
    skipped, n, cells = near_chance(rows, NAMES), min(row.n for row in rows), []
    for model, row in {row.model: row for row in rows}.items():
        key = (row.n * 512 // n, row.k and row.k * 512 // n, row.sharing or "RoBERTa-base")
        printed = {} if model.endswith(SCRATCH) else paper.TABLE_2.get(key, {})
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
