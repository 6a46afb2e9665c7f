"""A training job: its configuration, processes, device and run folder, checked before it starts."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..data.tokenizer_files import DICTIONARY
from ..models.datasets import check_dataset
from ..resources import PLUGIN
from .compose import compose_config, split_config

DEVICES: dict[str, dict[str, Any]] = {
    "cuda": {},
    "cpu": {
        "common.cpu": True,
        "common.fp16": False,
        "distributed_training.distributed_backend": "gloo",
        "distributed_training.ddp_backend": "legacy_ddp",
    },
}
"""Overrides for each device. The files in configs/ are for GPUs."""
PATH_OPTIONS = ("task.data", "checkpoint.finetune_from_model", "checkpoint.continue_once", "criterion.teacher")
_NOT_IN_NAME = (
    "gpus",
    "distributed_training.",
    "checkpoint.",
    "task.data",
    "dataset.num_workers",
    "common.",
    "optimization.update_freq",
)
"""Beginnings of options that do not appear in a run's name, except the seed: where and how it runs."""
_MAY_DIFFER = (
    *("distributed_training.", "common_eval.", "dataset.num_workers", "dataset.data_buffer_size"),
    *(f"common.{name}" for name in ("log_", "user_dir", "tensorboard_logdir", "no_progress_bar")),
    *(f"checkpoint.{name}" for name in ("save_interval", "keep_")),
)
"""Beginnings of options that may change between attempts of a run."""
_TRAINING_SETS = {"masked_lm": "train", "sentence_prediction": "input0/train"}
"""Prefix of the files of a task's training set, next to which its dictionary is."""


@dataclass(frozen=True)
class TrainingJob:
    """A training job; its configuration is checked when it is first read.

    Attributes:
        config: YAML for fairseq-hydra-train; may be an override of the ``base.yaml`` in a parent folder.
        overrides: hydra overrides; paths may be relative to the current folder.
        processes: number of processes, one per GPU.
        device: one of ``DEVICES``.
        runs: folder of the run folders.
        name: name of the run folder; empty to derive it from ``config`` and ``overrides``.
    """

    config: str
    overrides: tuple[str, ...] = ()
    processes: int = 1
    device: str = "cuda"
    runs: str = "runs"
    name: str = ""

    @cached_property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.runs).absolute() / (self.name or run_name(self.config, self.overrides))

    def arguments(self) -> list[str]:
        """The arguments of a worker that trains it."""
        options = {"config": self.config, "device": self.device, "runs": self.runs, "name": self.name}
        return [*(f"--{key}={value}" for key, value in options.items()), *self.overrides]

    @cached_property
    def cfg(self) -> DictConfig:
        """The configuration, with absolute paths and, for any number of processes, the same tokens per update.
        ValueError if it could not run: an option is invalid, a file is missing, or the processes do not divide an
        update."""
        cfg = compose_config(self.config, self.overrides)
        for key in PATH_OPTIONS:
            section, name = key.split(".")
            if cfg[section] is not None and OmegaConf.is_missing(cfg[section], name):
                raise ValueError(f"{key} is not set; add {key}=PATH")
            if value := OmegaConf.select(cfg, key):
                paths = value.split(os.pathsep) if key == "task.data" else [value]
                OmegaConf.update(cfg, key, os.pathsep.join(str(Path(path).absolute()) for path in paths))
        micro_batches = _micro_batches(cfg)
        for count in micro_batches:
            if count < 1 or count % self.processes:
                possible = ", ".join(str(p) for p in range(1, count + 1) if count % p == 0)
                raise ValueError(
                    f"the number of processes must divide the {count} micro-batches per update (update_freq x "
                    f"distributed_world_size of the configuration), got {self.processes}; choose from {possible}, or "
                    "halve dataset.batch_size and double optimization.update_freq"
                )
        options = {
            **DEVICES[self.device],
            "common.user_dir": str(PLUGIN),
            "distributed_training.distributed_world_size": self.processes,
            "optimization.update_freq": [count // self.processes for count in micro_batches],
        }
        for key, value in options.items():
            OmegaConf.update(cfg, key, value)
        _check_files(cfg)
        return cfg


def _check_files(cfg: DictConfig) -> None:
    if (got := cfg.checkpoint.save_dir) != "checkpoints":
        raise ValueError(f"checkpoint.save_dir must be checkpoints, which is in the run folder, got {got}")
    if name := _TRAINING_SETS.get(cfg.task._name):
        prefixes = [Path(folder, name) for folder in cfg.task.data.split(os.pathsep)]
        if not (dictionary := prefixes[0].with_name(DICTIONARY)).is_file():
            raise ValueError(f"task.data needs {dictionary}, which does not exist")
        for prefix in prefixes:
            check_dataset(prefix)
    for key in PATH_OPTIONS[1:]:
        if (file := OmegaConf.select(cfg, key)) and not Path(file).is_file():
            raise ValueError(f"{key} must be an existing file, got {file}")


def quote(value: Any) -> str:
    """Format a value in the grammar of hydra's overrides."""
    if isinstance(value, str):
        # A backslash is literal unless a quote follows.
        escaped = re.sub(r"(\\*)('|$)", lambda match: 2 * match[1] + (match[2] and "\\'"), value)
        return f"'{escaped}'"
    return "null" if value is None else str(value).replace(" ", "")


def run_name(config: str | Path, overrides: Sequence[str]) -> str:
    """Derive the name of a run from its configuration and the overrides that define it.

    >>> run_name("configs/pretrain/base.yaml", ["+run=n512-k128-headwise", "+gpus=x64", "model.dropout=0"])
    'n512-k128-headwise,dropout=0'
    """
    base, chosen = split_config(config)
    words = [override.lstrip("+~") for override in (*chosen, *overrides)]
    pairs = [
        word.partition("=")[::2]
        for word in words
        if not word.startswith(_NOT_IN_NAME) or word.startswith("common.seed=")
    ]
    groups = [value for key, value in pairs if "." not in key]  # files, such as +run=NAME
    values = [f"{key.rpartition('.')[2]}={value}" for key, value in pairs if "." in key]
    return re.sub(r"[^\w.,=+-]+", "_", ",".join([*(groups or [base.stem]), *values]))[:200]


def identity(cfg: DictConfig) -> dict[str, Any]:
    """The options that define a run, flattened: all but where it runs and what it logs.

    ``update_freq`` counts the micro-batches per update over all processes.
    """
    flat = dict(_flatten(OmegaConf.to_container(cfg, enum_to_str=True)))
    flat["optimization.update_freq"] = _micro_batches(cfg)
    return {key: value for key, value in flat.items() if not key.startswith(_MAY_DIFFER)}


def _flatten(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from _flatten(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, tree


def _micro_batches(cfg: DictConfig) -> list[int]:
    world_size = cfg.distributed_training.distributed_world_size
    return [freq * world_size for freq in cfg.optimization.update_freq]
