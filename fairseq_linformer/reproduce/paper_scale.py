"""The paper's runs by the figure or table that they are for, as arguments of ``fairseq-linformer submit``."""

from pathlib import Path
from typing import Dict, List

from ..evaluation.rows import is_prepared
from ..finetuning.data import folder_of
from ..finetuning.finetune import Job
from ..finetuning.recipe import GRID_LRS, grid
from ..launching.checkpoints import LAST
from ..launching.run_folder import CHECKPOINTS, DONE
from ..task_data.table import TASKS

FIGURES: Dict[str, Dict[str, str]] = {
    "figure-3a": {"roberta": "n512-roberta", "k=64": "n512-k64-headwise", "k=128": "n512-k128-headwise", "k=256": "n512-k256-headwise"},
    "figure-3b": {"roberta": "n1024-roberta", "k=128": "n1024-k128-headwise", "k=256": "n1024-k256-headwise", "k=512": "n1024-k512-headwise"},
    "figure-3c": {"headwise": "n512-k256-headwise", "key-value": "n512-k256-key-value", "layerwise": "n512-k256-layerwise"},
    "figure-3d": {f"n={n}": f"n{n}-k256-headwise" for n in (512, 1024, 2048, 4096)},
}
"""Files of configs/pretrain/run/ by figure and model, in its order."""

TABLE_2 = {
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
"""The rows of table 2 that are pretrained here, by the run they are of. (Headwise where it says nothing of sharing: assumed.)"""

COLUMNS = ("sst-2", "imdb", "qnli", "qqp")
"""Of table 2."""
RATES, BATCHES, SEEDS = GRID_LRS, (16, 32), (1, 2, 3)
"""Rates and batches of RoBERTa for GLUE (Liu et al. 2019, table 10): ASSUMED, the paper does not say how it finetuned. Three seeds of
each, as a verdict wants."""

ARRAYS = (*FIGURES, "pretraining", "table-2")


def pretraining_runs(name: str) -> List[List[str]]:
    """The members of an array: of a figure, or ``pretraining`` for every run of figure 3 and table 2."""
    runs = FIGURES[name].values() if name in FIGURES else dict.fromkeys([run for figure in FIGURES.values() for run in figure.values()] + list(TABLE_2))
    return [[f"+run={run}"] for run in runs]


def finetunings(runs, tasks, device: str = "gpu") -> List[Job]:
    """The cells of table 2 that are finetuned here, row by row: each a grid of rates, batches and seeds.

    Args:
        runs: folder of the pretraining runs, under the names that ``submit`` gives them.
        tasks: folder with the tasks, as ``fairseq-linformer prepare sst-2 FOLDER/sst-2`` writes them. A model of
            n = 1,024 takes ``imdb-n1024`` if that is there, and so on.

    Raises:
        ValueError: a model is not trained to its end, or a task is missing.
    """
    for run in TABLE_2:
        if not is_trained(runs, run):
            raise ValueError(f"{Path(runs) / run} is not trained to its end, for there is no `{DONE}` in it; table 2 finetunes what is")
    return [_finetuning(run, task, Path(runs), Path(tasks), device) for run in TABLE_2 for task in COLUMNS]


def is_trained(runs, run: str) -> bool:
    """To its end."""
    return (Path(runs) / run / DONE).exists()


def finetuning_grid(runs, tasks, device: str = "gpu") -> List[List[str]]:
    """The members of the array of table 2.

    Raises:
        ValueError: as ``finetunings``; or a checkpoint and a task do not fit.
    """
    trainings = [training for job in finetunings(runs, tasks, device) for training in job.trainings(job.start())]
    return [[f"--config={training.config}", f"--name={training.name}", *training.overrides] for training in trainings]


def _finetuning(run: str, task: str, runs: Path, tasks: Path, device: str) -> Job:
    n = run.split("-")[0].removeprefix("n")
    if not is_prepared(folder := folder_of(tasks, task, n)):
        raise ValueError(f"--tasks is {tasks}; there is no {task} in it, as `fairseq-linformer prepare {task}` writes it")
    return Job(TASKS[task], str(runs / run / CHECKPOINTS / LAST), grid(RATES, BATCHES, SEEDS), f"table-2/{run}/{task}", str(folder), str(runs), device=device)
