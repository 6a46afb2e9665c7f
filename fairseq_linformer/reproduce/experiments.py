"""The paper's runs by the figure or table that they are for, as arguments of ``fairseq-linformer submit``."""

from functools import lru_cache
from pathlib import Path
from typing import Dict, List, Tuple

from ..launching.checkpoints import LAST
from ..launching.folder import CHECKPOINTS, DONE
from ..planning.configs import compose_config

FIGURES: Dict[str, Tuple[str, ...]] = {
    "figure-3a": ("n512-roberta", "n512-k64-headwise", "n512-k128-headwise", "n512-k256-headwise"),
    "figure-3b": ("n1024-roberta", "n1024-k128-headwise", "n1024-k256-headwise", "n1024-k512-headwise"),
    "figure-3c": ("n512-k256-headwise", "n512-k256-key-value", "n512-k256-layerwise"),
    "figure-3d": ("n512-k256-headwise", "n1024-k256-headwise", "n2048-k256-headwise", "n4096-k256-headwise"),
}
"""Files of configs/pretrain/run/ by figure, in its order."""

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

TASKS = ("sst-2", "imdb", "qnli", "qqp")
"""The columns of table 2."""
RATES, BATCHES = ("1e-05", "2e-05", "3e-05"), (16, 32)
"""The grid of RoBERTa for GLUE (Liu et al. 2019, table 10): ASSUMED, the paper does not say how it finetuned."""

ARRAYS = (*FIGURES, "pretraining", "table-2")


def pretraining_runs(name: str) -> List[List[str]]:
    """The members of an array: of a figure, or ``pretraining`` for every run of figure 3 and table 2."""
    runs = FIGURES.get(name) or dict.fromkeys([run for figure in FIGURES.values() for run in figure] + list(TABLE_2))
    return [[f"+run={run}"] for run in runs]


def finetuning_grid(runs: str, tasks: str) -> List[List[str]]:
    """The members of table 2: each pretrained model on each task, with each rate and batch.

    Args:
        runs: folder of the pretraining runs, under the names that ``submit`` gives them.
        tasks: folder with the tasks, as ``fairseq-linformer prepare sst-2 FOLDER/sst-2`` writes them. A model of
            n = 1,024 takes ``imdb-n1024`` if that is there, and so on.

    Raises:
        ValueError: a model is not trained to its end.
    """
    for run in TABLE_2:
        if not (Path(runs) / run / DONE).exists():
            raise ValueError(f"{Path(runs) / run} is not trained to its end, for there is no `{DONE}` in it; table 2 finetunes what is")
    return [_finetuning(run, task, rate, batch, Path(runs), Path(tasks)) for run in TABLE_2 for task in TASKS for rate in RATES for batch in BATCHES]


def _finetuning(run: str, task: str, rate: str, batch: int, runs: Path, tasks: Path) -> List[str]:
    pretrained = _composed(f"configs/pretrain/run/{run}.yaml")
    n, model = pretrained.task.tokens_per_sample, pretrained.model
    schedule = _composed("configs/finetune/base.yaml", f"+task={task}")
    epochs = schedule.dataset.batch_size / batch  # a smaller batch has more updates
    longer = tasks / f"{task}-n{n}"
    return [
        "--config=configs/finetune/base.yaml",
        f"--name=table-2/{run}/{task}-lr{rate}-batch{batch}",
        f"+task={task}",
        f"task.data={longer if longer.is_dir() else tasks / task}",
        f"task.max_positions={n}",
        f"checkpoint.finetune_from_model={runs / run / CHECKPOINTS / LAST}",
        f"model._name={model._name}",
        *(f"model.{key}={'null' if model[key] is None else model[key]}" for key in ("projected_dim", "sharing")),
        f"dataset.batch_size={batch}",
        f"optimization.lr=[{rate}]",
        *(f"lr_scheduler.{key}={round(schedule.lr_scheduler[key] * epochs)}" for key in ("total_num_update", "warmup_updates")),
    ]


@lru_cache
def _composed(config: str, *overrides: str):
    return compose_config(config, overrides)
