"""How to finetune: RoBERTa's published settings (Liu et al. 2019, table 10), and the grids over them."""

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from fairseq.data.indexed_dataset import MMapIndexedDataset

from ..launching.training import quoted
from ..task_data.table import Task
from .start import Start

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "finetune"
LR, BATCH_SIZE, EPOCHS, SEED, WARMUP = 1e-5, 32, 10, 1, 0.06
GRID_LRS, GRID_SEEDS = (1e-5, 2e-5, 3e-5), (1, 2, 3, 4, 5)
"""RoBERTa's rates for GLUE; it reports the median over five seeds."""

INSTEAD = {
    "task": "TASK",
    "common.seed": "--seed",
    "task.data": "--data",
    "task.max_positions": "--max-positions",
    "model.max_positions": "--max-positions",
    "checkpoint.finetune_from_model": "CHECKPOINT",
    "dataset.batch_size": "--batch-size",
    "optimization.lr": "--lr",
    "optimization.max_epoch": "--epochs",
}
"""What an override must not set, because an option does."""
FIXED = (
    "model._name", "lr_scheduler.total_num_update", "lr_scheduler.warmup_updates", "optimization.max_update",
    "optimization.update_freq", "lr_scheduler._name", "distributed_training.distributed_world_size",
    "dataset.max_tokens", "model.resize_checkpoint", "dataset.disable_validation",
    "checkpoint.best_checkpoint_metric", "checkpoint.maximize_best_checkpoint_metric",
)  # fmt: skip
"""What it must not set, because the recipe and the result would be another."""


def check_overrides(overrides: Sequence[str], start: Optional[Start] = None) -> None:
    """Raise ValueError if an override contradicts the recipe, or the model of ``start``."""
    model_keys = {_key(word) for word in start.overrides} if start else ()
    for word in overrides:
        key = _key(word)
        if key in model_keys:
            raise ValueError(f"{word} is given; the checkpoint defines the model")
        if key in INSTEAD:
            raise ValueError(f"{word} is given; use {INSTEAD[key]}")
        if key in FIXED:
            raise ValueError(f"{word} is given; it is part of the recipe")


def _key(word: str) -> str:
    return word.lstrip("+~").partition("=")[0]


@dataclass(frozen=True)
class Recipe:
    """
    Attributes:
        lr: peak learning rate; it rises over ``WARMUP`` of the updates and falls to 0.
        batch_size: sentences or pairs per update.
        epochs: over the training data.
        seed: of the head, the dropout and the order.

    Raises:
        ValueError: one is out of range.
    """

    lr: float = LR
    batch_size: int = BATCH_SIZE
    epochs: int = EPOCHS
    seed: int = SEED

    def __post_init__(self):
        if not 0 < self.lr < math.inf:
            raise ValueError(f"--lr is {self.lr}; it must be above 0")
        for name, value in (("batch-size", self.batch_size), ("epochs", self.epochs)):
            if value < 1:
                raise ValueError(f"--{name} is {value}; it must be at least 1")
        if not 0 <= self.seed < 1 << 32:
            raise ValueError(f"--seed is {self.seed}; it must be from 0 to {(1 << 32) - 1}")

    @property
    def name(self) -> str:
        """Of a run of a grid.

        >>> Recipe(2e-5, 16, seed=3).name
        'lr2e-05-batch16-seed3'
        """
        return f"lr{self.lr!r}-batch{self.batch_size}-seed{self.seed}"

    def updates(self, rows: int) -> Tuple[int, int]:
        """For a training set: all updates, and those of the warm-up."""
        total = math.ceil(rows / self.batch_size) * self.epochs
        return total, round(WARMUP * total)

    def overrides(self, task: Task, start: Start, data, from_scratch: bool = False) -> List[str]:
        """Of configs/finetune/base.yaml, for fairseq-hydra-train.

        Args:
            data: folder of the task.
            from_scratch: the same model, without its pretrained weights.
        """
        updates, warmup = self.updates(len(MMapIndexedDataset(str(Path(data) / "input0" / "train"))))
        return [
            f"+task={task.name}",
            f"common.user_dir={quoted(str(CONFIGS.parents[1] / 'fairseq_linformer'))}",
            f"common.seed={self.seed}",
            f"task.data={quoted(str(Path(data).absolute()))}",
            f"task.max_positions={start.max_positions}",
            f"checkpoint.finetune_from_model={'null' if from_scratch else quoted(str(start.path))}",
            *start.overrides,
            f"dataset.batch_size={self.batch_size}",
            f"optimization.lr=[{self.lr!r}]",
            f"optimization.max_epoch={self.epochs}",
            f"lr_scheduler.total_num_update={updates}",
            f"lr_scheduler.warmup_updates={warmup}",
        ]


def run_names(name: str, recipes: Sequence[Recipe]) -> List[str]:
    """The run of each recipe: ``name`` itself for one, a folder in it for each of several.

    >>> run_names("g", [Recipe(seed=1)]), run_names("g", [Recipe(1e-5, 16, seed=1), Recipe(1e-5, 16, seed=2)])
    (['g'], ['g/lr1e-05-batch16-seed1', 'g/lr1e-05-batch16-seed2'])
    """
    return [f"{name}/{recipe.name}" for recipe in recipes] if len(recipes) > 1 else [name]


def grid(lrs: Sequence[float], batch_sizes: Sequence[int], seeds: Sequence[int], epochs: int = EPOCHS) -> List[Recipe]:
    """Every combination; ValueError if a value is out of range or given twice."""
    for name, values in (("lr", lrs), ("batch-size", batch_sizes), ("seed", seeds)):
        if len(set(values)) < len(values):
            raise ValueError(f"--{name} has a value twice: {', '.join(map(str, values))}")
    return [Recipe(lr, batch_size, epochs, seed) for lr, batch_size, seed in itertools.product(lrs, batch_sizes, seeds)]
