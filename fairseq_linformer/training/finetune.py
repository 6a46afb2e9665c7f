"""``fairseq-linformer finetune`` for fairseq checkpoints: a single run or a grid, here or through Slurm."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..evaluation.encoded_rows import is_prepared
from ..files import check_can_be_written
from ..task_data.tasks import Task
from . import single_run
from .arguments import BASE, check_run_name
from .data import DataOptions, describe_data, prepare_data
from .initial_checkpoint import InitialCheckpoint, open_initial_checkpoint
from .job import TrainingJob
from .recipe import CONFIG, Recipe, check_overrides, run_names
from .run_folder import DONE
from .slurm import submit_array


@dataclass(frozen=True)
class FinetuningJob:
    """A checkpoint to finetune on a task.

    Attributes:
        task: the task, which ``data`` must be of.
        checkpoint: path of the checkpoint.
        recipes: one recipe, or those of a grid.
        name: name of the run folder in ``runs``; for a grid, of the folder that contains the run folders.
        data: folder of the task.
        runs: folder of the run folders.
        max_positions: n; None for the checkpoint's.
        from_scratch: train the same model without pretrained weights.
        device: ``cuda`` or ``cpu``.
        overrides: further overrides of fairseq-hydra-train.
        data_options: how to prepare ``data``.
    """

    task: Task
    checkpoint: str
    recipes: Sequence[Recipe]
    name: str
    data: str
    runs: str = "runs"
    max_positions: int | None = None
    from_scratch: bool = False
    device: str = "cpu"
    overrides: tuple[str, ...] = ()
    data_options: DataOptions = DataOptions()

    def prepare(self, dry_run: bool = False) -> InitialCheckpoint:
        """Open the checkpoint and prepare the data.

        Raises:
            ValueError, OSError: as ``open_initial_checkpoint`` and ``prepare_data``; or a dry run would prepare data.
        """
        check_run_name(self.name, self.runs)
        check_can_be_written(self.runs)
        if dry_run and not is_prepared(self.data):
            command = f"fairseq-linformer prepare {self.task.name} {self.data}"
            raise ValueError(f"{self.data} is not prepared, and --dry-run writes nothing; run `{command}` first")
        checkpoint = open_initial_checkpoint(self.checkpoint, self.runs, self.max_positions, dry_run)
        if not is_prepared(self.data):  # which may take an hour
            self._check_overrides(checkpoint)
        print(prepare_data(self.task, Path(self.data), checkpoint, self.data_options), file=sys.stderr)
        return checkpoint

    def _check_overrides(self, checkpoint: InitialCheckpoint) -> None:
        """Raise ValueError if the configuration of a run would not be valid, before there are data."""
        check_overrides(self.overrides, checkpoint)
        words = (*self.recipes[0].overrides(self.task, checkpoint, self.data, self.from_scratch, 1), *self.overrides)
        TrainingJob(str(CONFIG), words, 1, self.device, self.runs, self.name)

    def build_trainings(self, checkpoint: InitialCheckpoint) -> list[TrainingJob]:
        """Build a training job per recipe; ValueError if the name or an override is not allowed."""
        check_run_name(self.name, self.runs)
        check_overrides(self.overrides, checkpoint)
        trainings = []
        for name, recipe in zip(run_names(self.name, self.recipes), self.recipes):
            overrides = (*recipe.overrides(self.task, checkpoint, self.data, self.from_scratch), *self.overrides)
            trainings.append(TrainingJob(str(CONFIG), overrides, 1, self.device, self.runs, name))
        return trainings

    def result_fields(self, recipe: Recipe, checkpoint: InitialCheckpoint) -> dict[str, Any]:
        """The fields ``model``, ``data`` and ``recipe`` of a result."""
        return {
            "model": {
                "checkpoint": checkpoint.original.name,
                "max_positions": checkpoint.max_positions,
                "projected_dim": checkpoint.projected_dim,
                "sharing": checkpoint.sharing,
                "projection": checkpoint.projection,
                "from_scratch": self.from_scratch,
                "pretraining": checkpoint.provenance,
            },
            "data": describe_data(self.data),
            "recipe": {**asdict(recipe), "overrides": list(self.overrides), "device": self.device},
        }


def finetune(job: FinetuningJob, until: float | None = None) -> list[dict[str, Any]]:
    """Train and evaluate the unfinished runs, one after the other. All are checked before the first starts.

    Args:
        until: value of ``time.monotonic()`` at which to stop; call again to resume.

    Returns:
        The results of all runs, or of those that were finished before ``until``.

    Raises:
        ValueError, OSError, KeyboardInterrupt: as ``single_run.finetune``.
    """
    runs, results = _prepare_and_check(job), []
    for i, (recipe, (training, fields)) in enumerate(zip(job.recipes, runs), 1):
        if len(runs) > 1:
            print(f"run {i} of {len(runs)}: {recipe.name}", file=sys.stderr)
        if (result := single_run.finetune(job.task, training, fields, until)) is None:
            break
        results.append(result)
    return results


def check(job: FinetuningJob) -> str:
    """Check everything that ``finetune`` checks before the first run starts, but write nothing.

    Returns:
        A line with the number of unfinished runs.

    Raises:
        ValueError, OSError: as ``finetune``; or the data are not prepared.
    """
    runs = _prepare_and_check(job, dry_run=True)
    unfinished = sum(not single_run.is_finished(training.folder) for training, _ in runs)
    return f"{job.name}: valid; unfinished runs: {unfinished} of {len(runs)}; nothing was written"


def _prepare_and_check(job: FinetuningJob, dry_run: bool = False) -> list[tuple[TrainingJob, dict[str, Any]]]:
    """Prepare a job and check all its runs; returns the training and the fields of the result of each."""
    untrained = [name for name in run_names(job.name, job.recipes) if not Path(job.runs, name, DONE).exists()]
    if untrained and job.device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"{len(untrained)} of {len(job.recipes)} runs of {job.name} are untrained, and PyTorch finds no GPU; wait "
            "for their Slurm jobs, or use --device cpu"
        )
    checkpoint = job.prepare(dry_run)
    trainings = job.build_trainings(checkpoint)
    runs = [(training, job.result_fields(recipe, checkpoint)) for recipe, training in zip(job.recipes, trainings)]
    for run in runs:
        single_run.check(*run)
    return runs


def submit(job: FinetuningJob, sbatch_options: Sequence[str], dry_run: bool) -> str:
    """Submit the untrained runs to Slurm as an array, one GPU each. ``finetune`` then evaluates and reports them.

    Raises:
        ValueError: as ``training.slurm.submit_array``; all runs are trained; or a dry run would prepare data.
    """
    checkpoint = job.prepare(dry_run)
    pairs = [pair for pair in zip(job.recipes, job.build_trainings(checkpoint)) if not (pair[1].folder / DONE).exists()]
    if not pairs:
        raise ValueError(f"all runs of {job.name} are trained; rerun without --slurm to report them")
    members = []
    for recipe, training in pairs:
        check_or_record = single_run.check if dry_run else single_run.record_origin
        check_or_record(training, job.result_fields(recipe, checkpoint))
        members.append([f"--config={training.config}", f"--name={training.name}", *training.overrides])
    options = argparse.Namespace(
        config=BASE,
        name="",
        overrides=[],
        device=job.device,
        runs=job.runs,
        nodes=1,
        ntasks_per_node=1,
        dry_run=dry_run,
        array="finetune-" + job.name.replace("/", "-"),
    )
    return submit_array(options, members, sbatch_options)


def default_name(task: Task, checkpoint: str, from_scratch: bool) -> str:
    """Name of a run: the task, and the checkpoint's folder if its file is ``checkpoint*`` or ``model.pt``; otherwise
    its file name."""
    path = Path(checkpoint)
    folder = path.parent.parent.name if path.parent.name == "checkpoints" else path.parent.name
    stem = path.stem if path.suffix == ".pt" else path.name
    if folder and (stem == "model" or stem.startswith("checkpoint")):
        stem = folder
    return f"finetune/{task.name}-{stem}" + ("-from-scratch" if from_scratch else "")
