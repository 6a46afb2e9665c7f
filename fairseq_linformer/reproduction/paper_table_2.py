"""Table 2 at the paper's scale: Slurm finetunes each pretrained model of ``configs/pretrain/run`` with a grid."""

from pathlib import Path

from ..evaluation.encoded_rows import is_prepared
from ..finetuning import data, finetune
from ..finetuning.recipe import GRID_LRS, build_grid
from ..launching.checkpoints import LAST
from ..launching.run_folder import CHECKPOINTS, DONE
from ..task_data.tasks import TASKS
from .experiment import Experiment, PaperScale
from .finetuning_records import record_of
from .inputs import Inputs
from .paper_scale import SCALE, is_trained
from .records import Record


class PaperTable2(PaperScale):
    """The rows of Table 2 that are pretrained here, each finetuned with a grid of hyperparameters."""

    reads = ("tasks",)
    rows = {
        "n512-roberta": "512, RoBERTa-base",
        "n512-k128-headwise": "512, Linformer, 128",
        "n512-k128-key-value": "512, Linformer, 128, shared kv",
        "n512-k128-layerwise": "512, Linformer, 128, shared kv, layer",
        "n512-k256-headwise": "512, Linformer, 256",
        "n512-k256-key-value": "512, Linformer, 256, shared kv",
        "n512-k256-layerwise": "512, Linformer, 256, shared kv, layer",
        "n1024-k256-headwise": "1024, Linformer, 256",
        "n1024-k256-key-value": "1024, Linformer, 256, shared kv",
        "n1024-k256-layerwise": "1024, Linformer, 256, shared kv, layer",
    }
    """Row by run of ``configs/pretrain/run``. Assumed: rows that name no sharing are headwise."""
    pretraining = tuple((f"+run={run}",) for run in rows)
    tasks = ("sst-2", "imdb", "qnli", "qqp")
    rates, batches, seeds = GRID_LRS, (16, 32), (1, 2, 3)
    """RoBERTa's grid for GLUE (Liu et al. 2019, Table 10): ASSUMED, as the paper does not describe its finetuning."""

    def __init__(self, experiment: Experiment):
        self.experiment = experiment

    def jobs(self, runs, tasks, device: str = "cuda") -> list[finetune.FinetuningJob]:
        """A grid per row and task.

        Args:
            runs: folder of the pretrainings, under the names that ``submit`` gives them.
            tasks: folder of the tasks. A model of n = 1,024 reads ``imdb-n1024`` if it exists, and so on.

        Raises:
            ValueError: a pretraining is unfinished, or a task is missing.
        """
        for name in self.rows:
            if not is_trained(runs, [f"+run={name}"]):
                raise ValueError(f"{Path(runs) / name} must be a finished pretraining, but it has no file {DONE}")
        return [self._job(name, task, Path(runs), Path(tasks), device) for name in self.rows for task in self.tasks]

    def _job(self, name: str, task: str, runs: Path, tasks: Path, device: str) -> finetune.FinetuningJob:
        n = name.split("-")[0].removeprefix("n")
        if not is_prepared(folder := data.task_folder(tasks, task, n)):
            raise ValueError(f"--tasks {tasks} has no {task}; `fairseq-linformer prepare {task}` writes it")
        checkpoint, recipes = runs / name / CHECKPOINTS / LAST, build_grid(self.rates, self.batches, self.seeds)
        return finetune.FinetuningJob(
            TASKS[task], str(checkpoint), recipes, f"table-2/{name}/{task}", str(folder), str(runs), device=device
        )

    def members(self, runs, tasks, device: str) -> list[list[str]]:
        trainings = [
            training for job in self.jobs(runs, tasks, device) for training in job.build_trainings(job.prepare())
        ]
        return [
            [f"--config={training.config}", f"--name={training.name}", *training.overrides] for training in trainings
        ]

    def is_trained(self, runs, tasks, device: str) -> bool:
        jobs = self.jobs(runs, tasks, device)
        return all((training.folder / DONE).exists() for job in jobs for training in job.build_trainings(job.prepare()))

    def measure(self, inputs: Inputs, device: str, command: str) -> list[Record]:
        records = []
        for job in self.jobs(inputs.folder, inputs.tasks, device):
            _, name, task = job.name.split("/")
            record = record_of(job.task, finetune.finetune(job), f"{task}-{name}-{SCALE}", command)
            records.append(record.copy_with(made_by="reproduce", scale=SCALE))
        return records
