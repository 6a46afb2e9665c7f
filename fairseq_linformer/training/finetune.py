"""``fairseq-linformer finetune``: a single run or a grid, here or through Slurm.

RUN/              as in training/run_folder.py
RUN/checkpoints/  checkpoint_best.pt (of a task without development set checkpoint_last.pt), with dictionary, labels and
                  tokenizer: ready to use
RUN/valid.jsonl   label and prediction of each row of the development set; one file per such set
RUN/result.json   scores, recipe and provenance; a run is finished once it exists
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.files import finish_checkpoint, training_seconds
from ..checkpoints.identify import BEST, LAST, RESULT, Kind, ModelPath
from ..checkpoints.provenance import finetuned_origins
from ..data.manifest import read_manifest
from ..data.prepare_task import describe_skipped, prepare_task
from ..data.task_sources import TaskFiles, open_source
from ..data.tasks import OWN, TRUNCATIONS, Task
from ..data.tokenizer import load_tokenizer
from ..data.tokenizer_files import DICTIONARY
from ..evaluation.encoded_rows import is_prepared
from ..evaluation.evaluate import evaluate
from ..evaluation.fairseq_classifier import FairseqClassifier, read_prepared_rows
from ..files import check_can_be_written, check_data_path, check_same, lock, read_json, write_json
from ..models.datasets import open_dataset
from ..models.dictionaries import check_dictionary
from ..resources import CONFIGS
from . import local, slurm
from .data import check_folder, copy_companions, describe_data, find_tokenizer
from .initial_checkpoint import InitialCheckpoint, open_initial_checkpoint
from .job import TrainingJob, compose_config, quote
from .recipe import SCORED, Recipe
from .run_folder import CHECKPOINTS, CONFIG, DONE, check_run_folder, read_config, training_provenance

FINETUNING_YAML = CONFIGS / "finetune" / "base.yaml"
WARMUP = 0.06
"""Share of the updates in which the learning rate rises to its peak."""
FIXED = """
    task criterion checkpoint.best_checkpoint_metric checkpoint.maximize_best_checkpoint_metric dataset.valid_subset
    dataset.max_tokens dataset.validate_interval dataset.validate_after_updates
    distributed_training.distributed_world_size model.max_positions
    checkpoint.no_last_checkpoints checkpoint.no_save checkpoint.save_interval checkpoint.checkpoint_suffix
""".split()
"""Options that depend on the task, on which --batch-size or the scored checkpoint relies, or that fairseq ignores here,
besides the recipe's own."""


@dataclass(frozen=True)
class FinetuningJob:
    """A job of ``finetune``: a checkpoint, a task, and a recipe or a grid of them.

    Attributes:
        task: the task, which ``data`` must be of.
        checkpoint: a fairseq checkpoint, or a model of ``transformers``.
        recipes: one recipe, or those of a grid.
        name: name of the run folder in ``runs``; for a grid, of the folder that contains the run folders.
        data: folder of the task; prepared unless it exists.
        runs: folder of the run folders.
        from_scratch: train the same model without pretrained weights.
        device: ``cuda`` or ``cpu``.
        overrides: further overrides of fairseq-hydra-train.
        source: as for ``open_source``; existing data are used whatever their source and tokenizer were. Or a user's
            files, which existing data must have been prepared from.
        tokenizer: its path; None for the one next to the checkpoint.
        truncation: how rows longer than n are truncated, also in existing data; None for ``head`` in new data.
    """

    task: Task
    checkpoint: ModelPath
    recipes: Sequence[Recipe]
    name: str
    data: str
    runs: str = "runs"
    from_scratch: bool = False
    device: str = "cpu"
    overrides: tuple[str, ...] = ()
    source: str | TaskFiles = "hub"
    tokenizer: Path | None = None
    truncation: str | None = None


def finetune(job: FinetuningJob, dry_run: bool = False) -> list[dict[str, Any]]:
    """Train and evaluate the unfinished runs, one after the other. All are checked before the first starts.

    Args:
        dry_run: check the runs, but write and train nothing.

    Returns:
        The results of the finished runs, which are all of them unless this is a dry run.

    Raises:
        KeyboardInterrupt: training was stopped by a signal; call again to resume.
    """
    checkpoint, trainings = open_job(job, dry_run)
    for training in trainings:
        check_run_folder(training)
        check_result(training.folder / RESULT, job, checkpoint)
    # What is trained comes first, since jobs of Slurm may still train the others.
    runs = sorted(zip(job.recipes, trainings), key=lambda run: not (run[1].folder / DONE).exists())
    for i, (recipe, training) in enumerate(runs, 1):
        if (training.folder / RESULT).exists():
            print(f"{training.name}: finished before", file=sys.stderr)
        elif not dry_run:
            if len(trainings) > 1:
                print(f"run {i} of {len(trainings)}: {recipe.name}", file=sys.stderr)
            local.train(training)
            result = build_result(job, recipe, checkpoint, training)
            for saved in (training.folder / CHECKPOINTS).glob("*.pt"):
                finish_checkpoint(saved, finetuned_origins(result["model"]))
            write_json(training.folder / RESULT, result)
    return [read_json(path) for training in trainings if (path := training.folder / RESULT).exists()]


def check_result(path: Path, job: FinetuningJob, checkpoint: InitialCheckpoint) -> None:
    """Raise ValueError if a run has finished on other data, or from another checkpoint, in files of the same names. The
    name of a converted model of ``transformers`` has the checksum of its weights."""
    if path.exists():
        result = read_json(path)
        before, now = {"data": result["data"]}, {"data": describe_data(job.data)}
        if job.checkpoint.kind is Kind.FAIRSEQ:
            before["checkpoint"] = result["model"]["pretraining"]["sha256"]
            now["checkpoint"] = checkpoint.description["pretraining"]["sha256"]
        check_same(path.parent, before, now)


def submit(job: FinetuningJob, sbatch_options: Sequence[str] = (), dry_run: bool = False) -> str:
    """Submit the untrained runs to Slurm, one GPU each. ``finetune`` then evaluates and reports them."""
    _, trainings = open_job(job, dry_run)
    if not trainings:
        raise ValueError(f"{job.data} is not prepared, and --dry-run writes nothing; run `fairseq-linformer prepare`")
    return slurm.submit(trainings, [*slurm.layout(1, 1, job.device), *sbatch_options], dry_run)


def open_job(job: FinetuningJob, dry_run: bool = False) -> tuple[InitialCheckpoint, list[TrainingJob]]:
    """Open the checkpoint, prepare the data, and build the training of each recipe; a dry run has none before the data
    are prepared."""
    check_can_be_written(job.runs)
    data = Path(job.data)
    checkpoint = open_initial_checkpoint(job.checkpoint, job.runs, dry_run)
    # Preparing may take an hour, so wrong overrides are rejected first.
    cfg = compose_config(FINETUNING_YAML, build_trainings(job, checkpoint, rows=1)[0].overrides)
    update_freq = list(cfg.optimization.update_freq)
    if len(update_freq) != 1 or update_freq[0] < 1:
        raise ValueError(f"optimization.update_freq must be one number of at least 1 in brackets, got {update_freq}")
    if dry_run and not is_prepared(data):
        find_tokenizer(checkpoint, job.tokenizer)
        return checkpoint, []
    prepare_data(job, checkpoint)
    print(f"{data}: {describe_data(data)}", file=sys.stderr)
    for split, counts in read_manifest(data).get("splits", {}).items():
        if counts.get("first_skipped"):  # which version 0.2 did not write
            print(f"{split}: {describe_skipped(counts)}", file=sys.stderr)
    rows = len(open_dataset(data / "input0" / "train"))
    return checkpoint, build_trainings(job, checkpoint, rows, update_freq[0])


def prepare_data(job: FinetuningJob, checkpoint: InitialCheckpoint) -> None:
    """Prepare a job's data unless the folder exists, and check that it matches the job and the checkpoint."""
    folder, dictionary = Path(job.data), checkpoint.companions / DICTIONARY
    check_data_path(folder, "--data")
    if not is_prepared(folder):
        path = find_tokenizer(checkpoint, job.tokenizer)
        tokenizer = load_tokenizer(path, dictionary if dictionary.is_file() else None)
        source = job.source if isinstance(job.source, TaskFiles) else open_source(job.task, job.source)
        truncation = job.truncation or TRUNCATIONS[0]
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock(folder.parent):  # another process may prepare it now
            if not is_prepared(folder):
                prepare_task(job.task, folder, source, tokenizer, checkpoint.max_positions, truncation)
    own = job.source.description if isinstance(job.source, TaskFiles) else None
    check_folder(job.task, folder, checkpoint.max_positions, own, job.truncation)
    words = folder / "input0" / DICTIONARY
    check_dictionary(words, checkpoint.vocab_size, checkpoint.path, "prepare the data again", same_as=[dictionary])


def build_trainings(
    job: FinetuningJob, checkpoint: InitialCheckpoint, rows: int, update_freq: int = 1
) -> list[TrainingJob]:
    """Build a training job per recipe for ``rows`` of training data; ValueError if an override is not allowed."""
    trainings = []
    for recipe in job.recipes:
        own = build_overrides(job, checkpoint, recipe, rows, update_freq)
        keys = [*FIXED, *(each.lstrip("+").partition("=")[0] for each in own)]
        for word in job.overrides:
            key = word.lstrip("+~").partition("=")[0]
            if any(f"{each}.".startswith(f"{key}.") or f"{key}.".startswith(f"{each}.") for each in keys):
                raise ValueError(
                    f"{word} cannot be overridden: TASK, CHECKPOINT and the options of the command set it or rely on it"
                )
        name = f"{job.name}/{recipe.name}" if len(job.recipes) > 1 else job.name
        trainings.append(TrainingJob(str(FINETUNING_YAML), (*own, *job.overrides), 1, job.device, job.runs, name))
    return trainings


def build_overrides(
    job: FinetuningJob, checkpoint: InitialCheckpoint, recipe: Recipe, rows: int, update_freq: int = 1
) -> list[str]:
    """Overrides of ``FINETUNING_YAML`` for data of that many training rows; an update has ``update_freq`` batches."""
    updates = math.ceil(rows / (recipe.batch_size * update_freq)) * recipe.epochs
    task = job.task
    name = SCORED if task.name == OWN else task.name
    return [
        f"task.num_classes={len(task.classes)}" if task.name == OWN and task.classes else f"+task={name}",
        f"common.seed={recipe.seed}",
        f"task.data={quote(str(Path(job.data).absolute()))}",
        f"task.max_positions={checkpoint.max_positions}",
        f"checkpoint.finetune_from_model={'null' if job.from_scratch else quote(str(checkpoint.path))}",
        *checkpoint.overrides,
        f"dataset.batch_size={recipe.batch_size}",
        f"dataset.disable_validation={str(task.valid_is_test).lower()}",  # no epoch is selected on it
        f"optimization.lr=[{recipe.lr!r}]",
        f"optimization.max_epoch={recipe.epochs}",
        f"lr_scheduler.total_num_update={updates}",
        f"lr_scheduler.warmup_updates={round(WARMUP * updates)}",
    ]


def build_result(
    job: FinetuningJob, recipe: Recipe, checkpoint: InitialCheckpoint, training: TrainingJob
) -> dict[str, Any]:
    """Evaluate the best checkpoint of a trained run (the last one, if there is no development set or no best one)."""
    data, name = Path(job.data), f"{CHECKPOINTS}/{BEST}"
    # Without a best one, the correlation was not defined in any epoch: scores or predictions are constant.
    if job.task.valid_is_test or not (job.task.classes or (training.folder / name).exists()):
        name = f"{CHECKPOINTS}/{LAST}"
    copy_companions(data, training.folder / CHECKPOINTS)
    # A run trained on a cluster's GPU may be evaluated on a machine without one.
    device = "cuda" if job.device == "cuda" and torch.cuda.is_available() else "cpu"
    classifier = FairseqClassifier(training.folder / name, device, dictionary=data / "input0" / DICTIONARY)
    scored = {
        split: evaluate(
            classifier, *read_prepared_rows(classifier, data, split), str(training.folder / f"{split}.jsonl")
        )
        for split in job.task.splits
        if split != "train"
    }
    kind, path = job.checkpoint
    return {
        "model": {
            "checkpoint": Path(path).name if kind is Kind.FAIRSEQ else path,
            **checkpoint.description,
            "from_scratch": job.from_scratch,
        },
        "data": describe_data(data),
        "recipe": {**asdict(recipe), "overrides": list(job.overrides), "device": job.device},
        "task": job.task.name,
        "splits": scored,
        "checkpoint": name,
        # Without the seconds of the pretraining.
        "seconds": training_seconds(training.folder / CHECKPOINTS / LAST, training.cfg.checkpoint.finetune_from_model),
        **training_provenance(training.folder),
    }


def choose_device(folder: Path) -> str:
    """The device of an existing run or grid, which a machine without a GPU may report, too; otherwise a GPU if there is
    one."""
    for path in (folder / CONFIG, *sorted(folder.glob(f"*/{CONFIG}"))):
        if path.is_file():
            return "cpu" if read_config(path.parent).common.cpu else "cuda"
    return "cuda" if torch.cuda.is_available() else "cpu"


def default_name(data: str, checkpoint: str) -> str:
    """Name of a run: that of the task or data, and the checkpoint's folder if its file is ``checkpoint*`` or
    ``model.pt``; otherwise its file name."""
    path = Path(checkpoint)
    folder = path.parent.parent.name if path.parent.name == "checkpoints" else path.parent.name
    stem = path.stem if path.suffix == ".pt" else path.name
    if folder and (stem == "model" or stem.startswith("checkpoint")):
        stem = folder
    return f"{data}-{stem}"
