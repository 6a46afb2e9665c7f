"""``fairseq-linformer finetune``: from a checkpoint of fairseq and the name of a task to scores."""

import argparse
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from ..evaluation.rows import is_prepared
from ..launching.arguments import BASE, make_training
from ..launching.run_folder import DONE, check_run
from ..launching.slurm import submit_array
from ..launching.training import Training
from ..task_data.table import Task
from . import data, run
from .recipe import CONFIGS, Recipe, check_overrides, run_names
from .start import Start, open_start


@dataclass(frozen=True)
class Job:
    """A checkpoint to finetune on a task.

    Attributes:
        task: of the table.
        checkpoint: path.
        recipes: one, or those of a grid.
        name: of the run folder, in ``runs``; those of a grid are in it.
        data: folder of the task.
        max_positions: n; None for that of the checkpoint.
        from_scratch: do not load the pretrained weights.
        device: ``gpu`` or ``cpu``.
        overrides: more of fairseq-hydra-train.
        prepare: ``source``, ``gpt2``, ``sentencepiece`` and ``cut``, of ``data.ready``.
    """

    task: Task
    checkpoint: str
    recipes: Sequence[Recipe]
    name: str
    data: str
    runs: str = "runs"
    max_positions: Optional[int] = None
    from_scratch: bool = False
    device: str = "cpu"
    overrides: Tuple[str, ...] = ()
    prepare: Dict[str, Any] = field(default_factory=dict)

    def start(self) -> Start:
        """Open the checkpoint and make sure of the data; ValueError as ``open_start`` and ``data.ready``."""
        start = open_start(self.checkpoint, self.runs, self.max_positions)
        for line in data.ready(self.task, self.data, start, **self.prepare):
            print(line, file=sys.stderr)
        return start

    def trainings(self, start: Start) -> List[Training]:
        """A run for each recipe."""
        check_overrides(self.overrides, start)
        trainings = []
        for name, recipe in zip(run_names(self.name, self.recipes), self.recipes):
            overrides = [*recipe.overrides(self.task, start, self.data, self.from_scratch), *self.overrides]
            config = str(CONFIGS / "base.yaml")
            options = dict(config=config, device=self.device, runs=self.runs, name=name, overrides=overrides)
            trainings.append(make_training(argparse.Namespace(**options), processes=1))
        return trainings

    def facts(self, recipe: Recipe, start: Start) -> Dict[str, Any]:
        """The fields of a result beside its scores."""
        return {
            "model": {
                "checkpoint": start.given.name,
                "max_positions": start.max_positions,
                "projected_dim": start.projected_dim,
                "sharing": start.sharing,
                "projection": start.projection,
                "from_scratch": self.from_scratch,
                "pretraining": start.provenance,
            },
            "data": data.described(self.data),
            "recipe": {**asdict(recipe), "overrides": list(self.overrides), "device": self.device},
        }


def finetune(job: Job, until: Optional[float] = None) -> List[Dict[str, Any]]:
    """Train and evaluate what is not done yet, one run after the other.

    Args:
        until: as of ``run.finetune``.

    Returns:
        the result of each run; of the first ones, if the time was up.

    Raises:
        ValueError, OSError, KeyboardInterrupt: as ``run.finetune``; all runs are checked before the first begins.
    """
    missing = [name for name in run_names(job.name, job.recipes) if not Path(job.runs, name, DONE).exists()]
    if missing and job.device == "gpu" and not torch.cuda.is_available():
        raise ValueError(
            f"{len(missing)} of {len(job.recipes)} runs of {job.name} are not trained yet, and PyTorch sees no GPU; "
            "wait for their jobs, or use --device cpu"
        )
    start = job.start()
    trainings = job.trainings(start)
    for training in trainings:
        if not (training.folder / run.RESULT).exists():
            check_run(training)
    results = []
    for i, (recipe, training) in enumerate(zip(job.recipes, trainings), 1):
        if len(trainings) > 1:
            print(f"run {i} of {len(trainings)}: {recipe.name}", file=sys.stderr)
        if (result := run.finetune(job.task, training, job.facts(recipe, start), until)) is None:
            break
        results.append(result)
    return results


def submit(job: Job, sbatch_options: Sequence[str], dry_run: bool) -> str:
    """The runs that are not trained yet as an array of Slurm, one GPU each; ``finetune`` then evaluates and reports.

    Raises:
        ValueError: as ``launching.slurm.submit_array``; or all are trained, or a dry run would have to prepare data.
    """
    if dry_run and not is_prepared(job.data):
        command = f"fairseq-linformer prepare {job.task.name}"
        raise ValueError(f"{job.data} is not prepared yet, and --dry-run writes nothing; run `{command}` first")
    start = job.start()
    pairs = [pair for pair in zip(job.recipes, job.trainings(start)) if not (pair[1].folder / DONE).exists()]
    if not pairs:
        raise ValueError(f"all runs of {job.name} are trained; rerun without --slurm to report them")
    members = []
    for recipe, training in pairs:
        if not dry_run:
            run.remember_origin(training, job.facts(recipe, start))
        members.append([f"--config={training.config}", f"--name={training.name}", *training.overrides])
    options = argparse.Namespace(
        config=BASE, name="", overrides=[], device=job.device, runs=job.runs, nodes=1, ntasks_per_node=1,
        dry_run=dry_run, array="finetune-" + job.name.replace("/", "-"), list=None,
    )  # fmt: skip
    return submit_array(options, members, sbatch_options)


def default_name(task: Task, checkpoint: str, from_scratch: bool) -> str:
    """Of a run: task and checkpoint."""
    path = Path(checkpoint)
    folder = path.parent.parent.name if path.parent.name == "checkpoints" else path.parent.name
    stem = folder if path.stem.startswith("checkpoint") and folder else path.stem
    return f"finetune/{task.name}-{stem}" + ("-from-scratch" if from_scratch else "")
