"""Finetuned on SST-2, IMDB, QNLI and QQP, a Linformer is as accurate as RoBERTa, by n, k and sharing.

**Small models** are pretrained here: a RoBERTa, and Linformers converted from it; one of each kind is finetuned from
scratch too. n is that of RoBERTa, 512 in the paper. **comparable**: on each task the Linformer of k = n / 4, with each
sharing, is at most 1 point below RoBERTa. **k**: the mean over tasks of a Linformer of k = n / 2, with one of the
sharings, is above RoBERTa's (the paper's is with layerwise sharing, 92.30 to 92.25, and not with the others).
**sharing**: at k = n / 2 layerwise sharing has a higher mean than headwise and key-value sharing. **n**: at twice n
and the same k the mean is within 1 point. **pretraining** (ours): RoBERTa and the Linformer are better on each task
pretrained than from scratch. Each holds if the runs of the two models do not overlap, in the claimed direction, and
fails if they do not overlap in the other one.

Tasks are those with a model 5 points above the most frequent class, by the lower end of its 95 % interval (Wilson).
Not enough evidence with fewer than three seeds, which are of finetuning alone, or if RoBERTa pretrained does not have
a higher mean than from scratch, because then only labels are compared; the paper's scale, where no model is finetuned
from scratch, lacks this control. E and F of layerwise sharing start differently from the others', which may explain a
difference. The paper does not name QQP's metric; ASSUMED to be accuracy.

**Distilled encoders**: a pretrained encoder and Linformers distilled from it, finetuned for one epoch with three
seeds. By medians: with each sharing **half** (k = n / 2) keeps at least 99 % of the encoder's mean accuracy,
**quarter** (n / 4) 98 %; **window**: k = n / 4 with W = 16 keeps 99 % and reaches 89 % on SST-2; otherwise they do not
hold. **E and F**: on IMDB, which has the longest inputs, every run of k = n / 4 with W = 16 is above every run of k = 1
with that window. **graded**: on QNLI, whose inputs are short, every run of the model with graded windows is above every
run of the one with staggered windows. These two do not hold if no run is above any of the other model. (*graded* was
written when staggered accuracies were known, the others before the first measurement.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...checkpoints.files import MODEL, read_checkpoint, replace_checkpoint
from ...data.tasks import TASKS
from ...training.finetune import FinetuningJob, finetune, open_job
from ...training.job import TrainingJob
from ...training.recipe import GRID_LRS, Recipe, build_grid, run_names
from ...training.restore import LAST
from ...training.run_folder import CHECKPOINTS, DONE
from .. import paper
from ..display import Table
from ..encoder import GRADED, STAGGERED, Distillation, EncoderModel, describe, distill, write_transformer
from ..finetuned import Accuracies, near_chance, result_of, task_folder
from ..result import Inputs, Result, Rows, in_words, join
from ..run import CONFIG, Model, Run, Runs
from ..scales import SCALES, Scale
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


@dataclass(frozen=True)
class Sizes:
    """Sizes of the small models.

    Attributes:
        stages: (n, updates) of RoBERTa, from scratch and then growing; the last n is its own.
        last: updates of each model after the stages, with the learning rate decaying to zero.
        lr: of pretraining.
        linformers: the first one and RoBERTa are also finetuned from scratch.
        rate, batch_size, epochs: of finetuning; epochs by task.
    """

    stages: tuple[tuple[int, int], ...]
    last: int
    lr: float
    linformers: tuple[Model, ...]
    rate: float
    batch_size: int
    epochs: dict[str, int]

    def runs(self, scale: Scale) -> dict[str, Run]:
        """The pretrained models by label, of one seed; those of one n have the same number of updates."""
        seed, (n, updates), *growth = scale.seeds[0], *self.stages
        base = Run(Model(n), seed, "scratch", updates)
        for n, updates in growth:
            base = Run(Model(n), seed, "grown", updates, base)
        found = {ROBERTA: Run(base.model, seed, "continued", self.last, base, decays=True)}
        for model in self.linformers:
            start = base if model.n == base.model.n else Run(Model(model.n), seed, "grown", scale.grown, base)
            found[label(model)] = Run(model, seed, "converted", self.last, start, decays=True)
        return found


def label(model: Model) -> str:
    return ROBERTA if model.k is None else f"n={model.n}, k={model.k}, {model.sharing}"


def _linformers(n: int, ks: tuple[int, int], longer_k: int) -> tuple[Model, ...]:
    """The paper's models: two k with each sharing, and one model of twice the n."""
    return (*(Model(n, k, sharing) for k in ks for sharing in SHARINGS), Model(2 * n, longer_k))


SIZES = {
    "smoke": Sizes(((8, 3), (16, 3)), 4, 1e-3, (Model(16, 8),), 1e-3, 8, dict.fromkeys(NAMES, 1)),
    "cpu": Sizes(
        ((16, 2000), (32, 400), (64, 4000), (128, 5000)),
        1500,
        2e-3,
        _linformers(128, (64, 32), 64),
        5e-4,
        32,
        {"sst-2": 1, "imdb": 1, "qnli": 1, "qqp": 2},
    ),
    "gpu": Sizes(
        ((128, 20000), (256, 1000), (512, 4000)),
        2000,
        1e-3,
        _linformers(512, (256, 128), 256),
        2e-5,
        32,
        dict.fromkeys(NAMES, 3),
    ),
}
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


# Distilled encoders


@dataclass(frozen=True)
class EncoderSizes:
    """
    Attributes:
        models: the encoder first.
        longer: models that are also finetuned on IMDB with twice the n, by resizing.
        distillation: of each Linformer that is not staggered.
        staggered: of the others, which were distilled before.
        recipes: learning rate, batch size and epochs of finetuning, by task.
    """

    models: tuple[EncoderModel, ...]
    longer: tuple[EncoderModel, ...]
    distillation: Distillation
    staggered: Distillation
    recipes: dict[str, tuple[float, int, int]]
    seeds: tuple[int, ...]

    @property
    def n(self) -> int:
        return self.models[0].n

    def distillation_of(self, model: EncoderModel) -> Distillation:
        return self.staggered if model.start == STAGGERED else self.distillation

    def members(self) -> dict[str, tuple[EncoderModel, int]]:
        """Model and n by part."""
        found = {f"{task}: {model.label}": (model, self.n) for model in self.models for task in self.recipes}
        n = 2 * self.n
        return found | {f"imdb: {model.label}, n = {n}": (model, n) for model in self.longer}


_ENCODER, QUARTER, CONTROL = (EncoderModel(512, k, local_window=16 if k else 0) for k in (None, 128, 1))
_SHARED = tuple(EncoderModel(512, k, sharing) for sharing in SHARINGS for k in (256, 128))
_SMALL = EncoderModel(32, 8, local_window=4)
ENCODER_SIZES = {
    "smoke": EncoderSizes(
        (EncoderModel(32), _SMALL),
        (),
        Distillation(2, 2, 2e-4, False),
        Distillation(2, 2, 2e-4, False),
        {"imdb": (1e-3, 8, 1)},
        (1,),
    ),
    "encoder": EncoderSizes(
        (_ENCODER, QUARTER, CONTROL, *_SHARED, *(replace(each, start=STAGGERED) for each in (QUARTER, CONTROL))),
        (_ENCODER, QUARTER),
        Distillation(1000, 4, 2e-4, True),
        Distillation(1000, 4, 4e-4, True, short_seq_prob=0.0),
        {"sst-2": (1e-4, 32, 1), "imdb": (1e-4, 16, 1), "qnli": (1e-4, 32, 1), "qqp": (1e-4, 32, 1)},
        (1, 2, 3),
    ),
}
HALF_KEEPS, QUARTER_KEEPS, WINDOW_KEEPS, SST_2 = 0.99, 0.98, 0.99, 89.0
_NO_DROPOUT = ("model.dropout=0.0", "model.attention_dropout=0.0")
"""A single epoch needs none, and without it attention is several times faster on a CPU."""


def small_parts(scale: str) -> list[str]:
    """Parts of the small models, first of the two that are also finetuned from scratch."""
    labels = [ROBERTA, *map(label, SIZES[scale].linformers)]
    both = [each + scratch for each in labels[:2] for scratch in ("", SCRATCH)]
    return [f"{task}: {each}" for each in [*both, *labels[2:]] for task in SIZES[scale].epochs]


_ON_TEXT, _ON_ENCODER = ("data", "tasks"), ("data", "tasks", "encoder")
PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "smoke": dict.fromkeys(small_parts("smoke"), _ON_TEXT)
    | dict.fromkeys(ENCODER_SIZES["smoke"].members(), _ON_ENCODER),
    "cpu": dict.fromkeys(small_parts("cpu"), _ON_TEXT),
    "encoder": dict.fromkeys(ENCODER_SIZES["encoder"].members(), _ON_ENCODER),
    "gpu": dict.fromkeys(small_parts("gpu"), _ON_TEXT),
    "paper": {f"{task}: {each}": ("tasks",) for each in PAPER_MODELS for task in NAMES},
}
"""Each is named by its task and its model."""


# Runs


def run(part: str, scale: str, inputs: Inputs) -> Result:
    (task, _, name), on_encoder = part.partition(": "), "encoder" in PARTS[scale][part]
    configuration: dict[str, Any] = {}
    if on_encoder:
        model, n = ENCODER_SIZES[scale].members()[part]
        configuration = describe(model, ENCODER_SIZES[scale].distillation_of(model))
        job = encoder_job(task, model, n, scale, inputs)
    elif scale == "paper":
        job = paper_job(task, PAPER_MODELS[name], inputs, "cuda")
    else:
        configuration = {key: getattr(SIZES[scale], key) for key in ("stages", "last", "lr")}
        job = small_job(task, name, scale, inputs)
    results = finetune(job)
    if on_encoder:
        for folder, result in zip(run_names(job.name, job.recipes), results):
            delete_unscored(Path(job.runs, folder, result["checkpoint"]))
    return result_of(part, scale, task, name, results, inputs, configuration)


def small_job(task: str, name: str, scale: str, inputs: Inputs) -> FinetuningJob:
    """The finetuning of a model with each seed; it is pretrained first unless it is."""
    sizes, folder = SIZES[scale], inputs.runs / scale / "table_2"
    runs = Runs(replace(SCALES[scale], lr=sizes.lr), folder, inputs.text)
    pretraining = sizes.runs(SCALES[scale])[name.removesuffix(SCRATCH)]
    data = task_folder(task, pretraining.model.n, inputs)
    slug = name.replace(", ", "-").replace("=", "").replace(" ", "")
    return FinetuningJob(
        TASKS[task],
        str(runs.train(pretraining)[pretraining].checkpoint),
        [Recipe(sizes.rate, sizes.batch_size, sizes.epochs[task], seed) for seed in SCALES[scale].seeds],
        f"finetuned/{task}-{slug}",
        str(data),
        str(folder),
        from_scratch=name.endswith(SCRATCH),
        device=SCALES[scale].device,
        overrides=("dataset.num_workers=0",),
    )


def encoder_job(task: str, model: EncoderModel, n: int, scale: str, inputs: Inputs) -> FinetuningJob:
    """The finetuning of a model with each seed; it is distilled first unless it is."""
    sizes, folder = ENCODER_SIZES[scale], inputs.runs.absolute() / scale / "table_2"
    data, checkpoint = task_folder(task, n, inputs), write_transformer(inputs.encoder, sizes.n, folder)
    if model.k is not None:
        checkpoint = distill(model, sizes.distillation_of(model), inputs.data, folder)[0] / MODEL
    lr, batch_size, epochs = sizes.recipes[task]
    return FinetuningJob(
        TASKS[task],
        str(checkpoint),
        [Recipe(lr, batch_size, epochs, seed) for seed in sizes.seeds],
        f"finetuned/{task}-{model.name}" + f"-n{n}" * (n != sizes.n),
        str(data),
        str(folder),
        n if n != sizes.n else None,
        overrides=(
            f"common.amp={str(sizes.distillation.amp).lower()}",
            "dataset.num_workers=0",
            "optimizer._name=fused_adam",
            *_NO_DROPOUT,
        ),
    )


def delete_unscored(scored: Path) -> None:
    """Delete a run's other checkpoints, and the optimizer state of the scored one: there are over a hundred runs."""
    checkpoint = read_checkpoint(scored)
    if checkpoint.pop("last_optimizer_state", None) is not None:
        replace_checkpoint(checkpoint, scored)
    for path in scored.parent.glob("*.pt*"):
        if path != scored:
            path.unlink()


def paper_job(task: str, model: Model, inputs: Inputs, device: str) -> FinetuningJob:
    """The grid of a model that ``submit --array pretraining`` has trained."""
    pretraining = inputs.runs / figure_3.config_name(model)
    if not (pretraining / DONE).exists():
        raise ValueError(f"{pretraining} must be a finished pretraining, but it has no file {DONE}")
    return FinetuningJob(
        TASKS[task],
        str(pretraining / CHECKPOINTS / LAST),
        GRID,
        f"table-2/{pretraining.name}/{task}",
        str(task_folder(task, model.n, inputs)),
        str(inputs.runs),
        device=device,
    )


def slurm_jobs(runs, tasks, device: str) -> list[TrainingJob]:
    """The Slurm array of all grids."""
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
    on_encoder = "Transformer" in {row.model for row in rows}
    if on_encoder:
        return encoder_verdicts(rows, results[0].scale)
    return small_verdicts(rows, has_scratch=bool(rows) and results[0].scale != "paper")


def small_verdicts(rows: Rows, has_scratch: bool) -> list[Verdict]:
    found, skipped = Accuracies(rows), near_chance(rows, NAMES)
    tasks = [task for task in NAMES if task not in skipped]
    n = min((row.n for row in rows), default=0)
    sizes = ((n, n // 4), (n, n // 2), (2 * n, n // 2))
    quarter, half, longer = ([label(Model(*size, sharing)) for sharing in SHARINGS] for size in sizes)
    comparable = [
        check_difference(found, ROBERTA, model, [task], lambda each: each.at_most(POINT))
        for task in tasks
        for model in quarter
    ]
    outperforms = [check_difference(found, model, ROBERTA, tasks) for model in half]
    layerwise = [check_difference(found, half[2], other, tasks) for other in half[:2]]
    similar = [
        check_difference(found, long, short, tasks, lambda each: each.within(-POINT, POINT))
        for long, short in zip(longer, half)
        if long in found.models
    ]
    pretraining = [
        check_difference(found, model, model + SCRATCH, [task], name=f"{model}, pretrained minus from scratch")
        for task in NAMES
        for model in (ROBERTA, half[0])
        if has_scratch
    ]
    claims = (
        ("comparable", "Finetuned, the Linformer is comparable to RoBERTa.", comparable),
        ("k", "At k = n / 2 the Linformer slightly outperforms RoBERTa.", check_any(outperforms)),
        ("sharing", "Of the three ways to share E and F, layerwise sharing has the best accuracy.", layerwise),
        ("n", "Pretrained at twice the n, a Linformer of the same k has similar results.", similar),
    )
    learned = [check_difference(found, ROBERTA, ROBERTA + SCRATCH, tasks)] if has_scratch else []
    remarks = [f"{task} is skipped because it is near chance: {best}" for task, best in skipped.items()]
    return [
        *(Verdict(name, claim, checks if rows else [], learned, remarks) for name, claim, checks in claims),
        Verdict("pretraining", "Pretraining raises the accuracy of every model on every task.", pretraining),
    ]


def check_any(checks: Sequence[Check]) -> list[Check]:
    """Those with the best outcome, which decide if one that holds is enough."""
    best = min((check.outcome for check in checks), key=(HOLDS, UNDECIDED, FAILS).index)
    return [check for check in checks if check.outcome == best]


def check_difference(
    found: Accuracies,
    a: str,
    b: str,
    tasks: Sequence[str],
    check: Callable[[Estimate], Check] = lambda difference: difference.more_than(0.0),
    name: str = "",
) -> Check:
    """The check of a difference, which has a name or is a minus b, of mean accuracies over tasks."""
    text = f"{tasks[0] if len(tasks) == 1 else 'mean'}: {name or f'{a} minus {b}'}"
    ours, theirs = found.mean(a, tasks), found.mean(b, tasks)
    return check(difference_of_extremes(ours, theirs, text)) if ours and theirs else _unmeasured(text, tasks)


def check_kept(found: Accuracies, model: str, tasks: Sequence[str], bound: float) -> Check:
    """The check of the model's mean accuracy over the encoder's, by medians."""
    text, ours, theirs = f"{model} / Transformer", found.mean(model, tasks), found.mean("Transformer", tasks)
    if ours is None or theirs is None:
        return _unmeasured(text, tasks)
    share = ratio_of_extremes(ours, theirs, text)
    numbers = f"{share.value:.4f} [{share.low:.4f}, {share.high:.4f}]"
    return decide(share.value >= bound, f"{text}: {numbers}; needs ≥ {bound:g}")


def _unmeasured(text: str, tasks: Sequence[str]) -> Check:
    return Check(UNDECIDED, f"{text} needs {MIN_SEEDS} seeds on {', '.join(tasks) or 'a task above chance'}")


def encoder_verdicts(rows: Rows, scale: str) -> list[Verdict]:
    found, models, n = Accuracies(rows), ENCODER_SIZES[scale].models, ENCODER_SIZES[scale].n
    tasks = list(ENCODER_SIZES[scale].recipes)
    windowed = next(m for m in models if m.k == n // 4 and m.local_window and m.start == GRADED)
    control, staggered = replace(windowed, k=1), replace(windowed, start=STAGGERED)
    half, quarter = ([m.label for m in models if m.k == k and not m.local_window] for k in (n // 2, n // 4))
    window = [check_kept(found, windowed.label, tasks, WINDOW_KEEPS)]
    if sst_2 := found.find("sst-2", windowed.label):
        window.append(decide(sst_2.value >= SST_2, f"sst-2: {in_words(sst_2)} %; needs ≥ {SST_2:g}"))
    kept = "Distilled, a Linformer of k = n / {} is {}as accurate as its Transformer."
    claims = (
        ("half", kept.format(2, ""), [check_kept(found, model, tasks, HALF_KEEPS) for model in half]),
        ("quarter", kept.format(4, "almost "), [check_kept(found, model, tasks, QUARTER_KEEPS) for model in quarter]),
        ("window", kept.format("4 with a local window", ""), window),
        (
            "E and F",
            "Next to a local window, E and F raise the accuracy on long inputs.",
            [check_difference(found, windowed.label, control.label, ["imdb"])],
        ),
        (
            "graded",
            "Distilled, graded windows keep more accuracy on short inputs than staggered ones.",
            [check_difference(found, windowed.label, staggered.label, ["qnli"])],
        ),
    )
    return [Verdict(name, claim, checks) for name, claim, checks in claims]


# Table


def tables(results: Sequence[Result]) -> list[Table]:
    """Every model with its accuracies, and the paper's."""
    rows = join(results)
    found, skipped = Accuracies(rows), near_chance(rows, NAMES)
    n = min(row.n for row in rows)
    cells = []
    for model in found.models:
        row = next(row for row in rows if row.model == model)
        key = (row.n * 512 // n, row.k and row.k * 512 // n, row.sharing or "RoBERTa-base")
        printed = {} if model.endswith(SCRATCH) else paper.TABLE_2.get(key, {})
        ours = {task: in_words(found.find(task, model), 4) for task in NAMES}
        mean = found.mean(model, [task for task in NAMES if task not in skipped])
        cells.append(
            [
                model,
                *(ours[task] + (f" (paper {printed[task]})" if printed else "") for task in NAMES),
                f"{mean.value:.2f}" if mean else "-",
            ]
        )
    without = f", without {', '.join(skipped)}, near chance" if skipped else ""
    title = (
        f"Accuracy in percent, median over seeds [lowest, highest]; mean over tasks{without}; in parentheses "
        "that of the paper's model of base size with the same sharing, and k and n in proportion to 512"
    )
    return [Table(title, ["model", *NAMES, "mean"], cells)]
