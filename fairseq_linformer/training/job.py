"""A training job: its configuration, processes, device and run folder, validated before it starts."""

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch
from fairseq.models import build_model
from fairseq.optim import build_optimizer
from fairseq.optim.lr_scheduler import build_lr_scheduler
from omegaconf import DictConfig, OmegaConf
from torch._subclasses import FakeTensorMode

from ..errors import first_line
from ..models.stub_task import VOCAB_SIZE, StubTask
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
PATH_OPTIONS = ("task.data", "checkpoint.finetune_from_model", "criterion.teacher")
# Options that do not appear in a run's name: where and how it runs.
_NOT_IN_NAME = re.compile(
    r"[+~]*(gpus|distributed_training\..*|common\.(?!seed).*|checkpoint\..*|task\.data"
    r"|dataset\.num_workers|optimization\.update_freq)"
)
# Options that may change between attempts of a run.
_NOT_IN_IDENTITY = re.compile(
    r"distributed_training\..*|common\.(log_.*|user_dir|tensorboard_logdir|no_progress_bar)"
    r"|dataset\.(num_workers|data_buffer_size)|checkpoint\.(save_interval.*|keep_.*)"
    r"|common_eval\..*"
)
# With other values a job could not resume from its own checkpoint_last.pt.
_REQUIRED = {
    "checkpoint.no_save": False,
    "checkpoint.no_last_checkpoints": False,
    "checkpoint.no_save_optimizer_state": False,
    "checkpoint.write_checkpoints_asynchronously": False,
    "checkpoint.save_dir": "checkpoints",
    "checkpoint.restore_file": "checkpoint_last.pt",
    "checkpoint.continue_once": None,
    "checkpoint.checkpoint_suffix": "",
    "checkpoint.reset_optimizer": False,
    "checkpoint.reset_lr_scheduler": False,
    "checkpoint.reset_meters": False,
    "checkpoint.reset_dataloader": False,
    "distributed_training.use_sharded_state": False,
}
_AT_LEAST = {
    "dataset.batch_size": 1,
    "dataset.max_tokens": 1,
    "optimization.max_update": 0,  # 0: no limit
    "optimization.max_epoch": 0,
    "optimization.clip_norm": 0,
    "lr_scheduler.warmup_updates": 0,
    "lr_scheduler.total_num_update": 1,
    "task.tokens_per_sample": 1,
    "common.log_interval": 1,
    "dataset.num_workers": 0,
    "checkpoint.save_interval_updates": 0,
}
"""Smallest values of options that fairseq accepts without a check, or checks with an assertion that names nothing."""
# Files that a task needs, and the argument of `prepare` that writes them.
_DATA_FILES = {
    "masked_lm": (("dict.txt", "train.idx", "train.bin"), "pretraining"),
    "sentence_prediction": (("input0/dict.txt", "input0/train.idx", "input0/train.bin"), "TASK"),
}
_FOLDER = re.compile(r"[\w.,=+@/ -]+")


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
        """The run folder. ValueError if Slurm, hydra or a shell could misread its path, or ``config`` is missing."""
        folder = Path(self.runs).absolute() / (self.name or run_name(self.config, self.overrides))
        if not _FOLDER.fullmatch(str(folder)):
            raise ValueError(
                f"the run folder may only contain letters, digits, spaces and .,=+-_@/, got {str(folder)!r}"
            )
        return folder

    @cached_property
    def requested_cfg(self) -> DictConfig:
        """The configuration before ``job_overrides``.

        Raises:
            ValueError: as ``compose_config``; or an override sets ``common.user_dir``, which is this plugin.
        """
        for word in self.overrides:
            if word.lstrip("+~").partition("=")[0] == "common.user_dir":
                raise ValueError(f"common.user_dir must be this plugin and cannot be overridden, got {word}")
        return compose_config(self.config, self.overrides)

    def job_overrides(self) -> dict[str, Any]:
        """Overrides for processes, device and paths.

        Tokens per update are preserved: ``update_freq`` times the number of processes is as in the configuration.
        ValueError if the number of processes does not divide that product, or as ``compose_config``.
        """
        return {
            **{
                key: _make_absolute(key, str(paths))
                for key in PATH_OPTIONS
                if (paths := OmegaConf.select(self.requested_cfg, key))
            },
            **DEVICES[self.device],
            "common.user_dir": str(PLUGIN),
            "distributed_training.distributed_world_size": self.processes,
            "optimization.update_freq": [self._share(count) for count in _micro_batches(self.requested_cfg)],
        }

    def _share(self, micro_batches: int) -> int:
        if micro_batches % self.processes == 0:
            return micro_batches // self.processes
        possible = ", ".join(str(p) for p in range(1, micro_batches + 1) if micro_batches % p == 0)
        size = self.requested_cfg.dataset.batch_size or 1
        hint = ""
        if size % 2 == 0 and 2 * micro_batches % self.processes == 0:
            halved = f"dataset.batch_size={size // 2} optimization.update_freq=[{2 * micro_batches}]"
            hint = f"; or halve the micro-batches: {halved}"
        raise ValueError(
            f"the number of processes must divide the {micro_batches} micro-batches per update (update_freq x "
            f"distributed_world_size of the configuration), got {self.processes}; choose from {possible}{hint}"
        )

    @cached_property
    def cfg(self) -> DictConfig:
        """The configuration of the job. ValueError if it could not run or resume."""
        cfg = self.requested_cfg.copy()
        for section, name in (key.split(".") for key in PATH_OPTIONS):
            if cfg[section] is not None and OmegaConf.is_missing(cfg[section], name):
                raise ValueError(f"{section}.{name} is not set; add {section}.{name}=PATH")
        for key, value in self.job_overrides().items():
            OmegaConf.update(cfg, key, value)
        if cfg.distributed_training.ddp_backend == "fully_sharded":
            raise ValueError("distributed_training.ddp_backend must not be fully_sharded, which needs fairscale")
        _check_numbers(cfg)
        n = OmegaConf.select(cfg, "model.max_positions")
        if cfg.task._name == "sentence_prediction" and n not in (None, cfg.task.max_positions):
            raise ValueError(
                f"model.max_positions must equal task.max_positions ({cfg.task.max_positions}), which fairseq's "
                f"sentence_prediction uses instead, got {n}"
            )
        _check_paths(cfg)
        for key, required in _REQUIRED.items():
            if (value := OmegaConf.select(cfg, key)) != required:
                raise ValueError(
                    f"{key} must be {required}, because jobs resume from their own checkpoint_last.pt, got {value}; "
                    "set checkpoint.finetune_from_model to start from another checkpoint"
                )
        return cfg

    def command_line(self, **overrides: Any) -> list[str]:
        """The arguments of ``fairseq-hydra-train``; ``overrides`` are further ones."""
        base, chosen = split_config(self.config)
        job = [f"{key}={quote(value)}" for key, value in {**self.job_overrides(), **overrides}.items()]
        return [
            *("--config-dir", str(base.parent.absolute()), "--config-name", base.stem),
            *(*chosen, *self.overrides, *job),
        ]


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
    pairs = [
        override.lstrip("+~").partition("=")[::2]
        for override in (*chosen, *overrides)
        if not _NOT_IN_NAME.fullmatch(override.partition("=")[0])
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
    return {key: value for key, value in flat.items() if not _NOT_IN_IDENTITY.fullmatch(key)}


def _flatten(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from _flatten(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, tree


def _micro_batches(cfg: DictConfig) -> list[int]:
    world_size = cfg.distributed_training.distributed_world_size
    counts = [freq * world_size for freq in cfg.optimization.update_freq]
    if not counts or min(counts) < 1:
        raise ValueError(
            "optimization.update_freq and distributed_world_size must be at least 1, got "
            f"{list(cfg.optimization.update_freq)} and {world_size}"
        )
    return counts


def _make_absolute(key: str, paths: str) -> str:
    """Make the path of an option absolute, or each in the ``:``-separated list of ``task.data``."""
    parts = paths.split(os.pathsep) if key == "task.data" else [paths]
    return os.pathsep.join(str(Path(part).absolute()) for part in parts)


def _check_numbers(cfg: DictConfig) -> None:
    for key, least in _AT_LEAST.items():
        value = OmegaConf.select(cfg, key)
        if isinstance(value, int | float) and not value >= least:
            raise ValueError(f"{key} must be at least {least}, got {value}")
    lrs = cfg.optimization.lr
    if not lrs or not all(0 < lr < math.inf for lr in lrs):
        raise ValueError(f"optimization.lr must be one or more numbers above 0, got {list(lrs)}")


def _check_paths(cfg: DictConfig) -> None:
    parts = str(cfg.task.data).split(os.pathsep)
    for part in parts:
        if not Path(part).is_dir():
            raise ValueError(f"task.data must name existing folders, got {part}")
    names, command = _DATA_FILES.get(cfg.task.get("_name"), ((), ""))
    for name in names:
        if not (Path(parts[0]) / name).is_file():
            raise ValueError(
                f"task.data must be a folder with {name}, as `fairseq-linformer prepare {command}` writes it, got "
                f"{parts[0]}"
            )
    for key in ("checkpoint.finetune_from_model", "criterion.teacher"):
        if (path := OmegaConf.select(cfg, key)) and not Path(path).is_file():
            raise ValueError(f"{key} must be an existing file, got {path}")


def check_buildable(cfg: DictConfig) -> None:
    """Build the model (with fake tensors), optimizer and schedule; ValueError with their options if fairseq fails."""
    positions = cfg.task.get("tokens_per_sample") or cfg.task.get("max_positions")
    _build_fake_model(OmegaConf.to_yaml(cfg.model), positions)
    try:
        optimizer = build_optimizer(cfg.optimizer, [torch.nn.Parameter(torch.zeros(1))])
        build_lr_scheduler(cfg.lr_scheduler, optimizer)
    except Exception as error:  # fairseq evaluates strings and uses assert
        sections = ("optimizer", "lr_scheduler")
        values = [f"{section}.{key}={value}" for section in sections for key, value in cfg[section].items()]
        problem = f"{type(error).__name__}: {first_line(error)} ({', '.join(values)})"
        raise ValueError(f"fairseq cannot build optimizer and lr_scheduler: {problem}") from None


@cache  # many members of an array share a model
def _build_fake_model(options: str, positions: int) -> torch.nn.Module:
    model = OmegaConf.create(options)
    try:
        with FakeTensorMode():
            built: torch.nn.Module = build_model(model, StubTask(VOCAB_SIZE, positions))
            return built
    except ValueError:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {first_line(error)}"
        raise ValueError(f"fairseq cannot build the model {model._name}: {problem}") from None
