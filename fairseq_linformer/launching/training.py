"""A training as fairseq gets it: configuration, processes, device and run folder, checked before it is queued."""

import os
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Dict, List, Tuple

import torch
from fairseq.models import build_model
from fairseq.optim import build_optimizer
from fairseq.optim.lr_scheduler import build_lr_scheduler
from omegaconf import DictConfig, OmegaConf
from torch._subclasses import FakeTensorMode

from ..errors import first_line
from ..models.bare_task import BareTask
from ..planning.configs import VOCABULARY, compose_config, split_config

DEVICES: Dict[str, Dict[str, Any]] = {
    "gpu": {},
    "cpu": {
        "common.cpu": True, "common.fp16": False, "distributed_training.distributed_backend": "gloo",
        "distributed_training.ddp_backend": "legacy_ddp",
    },
}  # fmt: skip
"""Overrides for each device; configs/ are written for GPUs."""
PATH_OPTIONS = ("task.data", "checkpoint.finetune_from_model")
# Options that do not name a run: they say where and how it runs.
_NOT_IN_NAME = re.compile(r"[+~]*(gpus|distributed_training\..*|common\.(?!seed).*|checkpoint\..*|task\.data"
                          r"|dataset\.num_workers|optimization\.update_freq)")  # fmt: skip
# Options in which two configurations of the same run may differ.
_NOT_IN_IDENTITY = re.compile(r"distributed_training\..*|common\.(log_.*|user_dir|tensorboard_logdir|no_progress_bar)"
                              r"|dataset\.(num_workers|data_buffer_size)|checkpoint\.(save_interval.*|keep_.*)"
                              r"|common_eval\..*")  # fmt: skip
# A job that was stopped resumes from its own, intact checkpoint_last.pt; other values would prevent that.
_REQUIRED = {
    "checkpoint.no_save": False, "checkpoint.no_last_checkpoints": False, "checkpoint.no_save_optimizer_state": False,
    "checkpoint.write_checkpoints_asynchronously": False, "checkpoint.save_dir": "checkpoints",
    "checkpoint.restore_file": "checkpoint_last.pt", "checkpoint.continue_once": None,
    "checkpoint.checkpoint_suffix": "", "checkpoint.reset_optimizer": False, "checkpoint.reset_lr_scheduler": False,
    "checkpoint.reset_meters": False, "checkpoint.reset_dataloader": False,
    "distributed_training.use_sharded_state": False,
}  # fmt: skip
# The files that a task reads first, and the command that writes them.
_DATA_FILES = {
    "masked_lm": (("dict.txt", "train.idx", "train.bin"), "pretraining"),
    "sentence_prediction": (("input0/dict.txt", "input0/train.idx", "input0/train.bin"), "sst-2"),
}
_FOLDER = re.compile(r"[\w.,=+@/ -]+")


@dataclass(frozen=True)
class Training:
    """
    Attributes:
        config: a YAML for fairseq-hydra-train, or an override of the ``base.yaml`` above it.
        overrides: hydra's. Paths in them may be relative to the current folder.
        processes: one per GPU.
        device: one of ``DEVICES``.
        runs: the folder that holds the run folders.
        name: of the run folder; empty to derive it from ``config`` and ``overrides``.
    """

    config: str
    overrides: Tuple[str, ...] = ()
    processes: int = 1
    device: str = "gpu"
    runs: str = "runs"
    name: str = ""

    @cached_property
    def folder(self) -> Path:
        """The run folder. ValueError if Slurm, hydra or a shell would misread its name, or ``config`` is missing."""
        folder = Path(self.runs).absolute() / (self.name or run_name(self.config, self.overrides))
        if not _FOLDER.fullmatch(str(folder)):
            raise ValueError(f"the run folder would be {str(folder)!r}; it may have letters, digits, spaces, .,=+-_@/")
        return folder

    @cached_property
    def requested(self) -> DictConfig:
        """The configuration before the overrides for processes, device and paths. ValueError as ``compose_config``."""
        return compose_config(self.config, self.overrides)

    def job_overrides(self) -> Dict[str, Any]:
        """The overrides for processes, device and paths.

        The tokens per update do not change: ``update_freq`` times the number of processes is as in the configuration.
        ValueError if the processes do not divide that, or as ``compose_config``.
        """
        return {
            **{key: _absolute(str(paths)) for key in PATH_OPTIONS if (paths := OmegaConf.select(self.requested, key))},
            **DEVICES[self.device],
            "distributed_training.distributed_world_size": self.processes,
            "optimization.update_freq": [self._share(count) for count in _micro_batches(self.requested)],
        }

    def _share(self, micro_batches: int) -> int:
        if micro_batches % self.processes == 0:
            return micro_batches // self.processes
        possible = ", ".join(str(p) for p in range(1, micro_batches + 1) if micro_batches % p == 0)
        size = self.requested.dataset.batch_size or 1
        hint = ""
        if size % 2 == 0 and 2 * micro_batches % self.processes == 0:
            hint = f"; or halve them: dataset.batch_size={size // 2} optimization.update_freq=[{2 * micro_batches}]"
        raise ValueError(f"{self.processes} processes do not divide the {micro_batches} micro-batches of an update "
                         f"(update_freq x distributed_world_size of the configuration); {possible} do{hint}")

    @cached_property
    def composed(self) -> DictConfig:
        """The configuration of the job. ValueError, one sentence, if it cannot run or could not be resumed."""
        cfg = self.requested.copy()
        for section, name in (key.split(".") for key in PATH_OPTIONS):
            if OmegaConf.is_missing(cfg[section], name):
                raise ValueError(f"{section}.{name} is missing; add {section}.{name}=PATH")
        for key, value in self.job_overrides().items():
            OmegaConf.update(cfg, key, value)
        n = OmegaConf.select(cfg, "model.max_positions")
        if cfg.task._name == "sentence_prediction" and n not in (None, cfg.task.max_positions):
            raise ValueError(f"model.max_positions is {n}; it must be task.max_positions, {cfg.task.max_positions}, "
                             "by which fairseq's sentence_prediction replaces it")  # fmt: skip
        _check_paths(cfg)
        for key, required in _REQUIRED.items():
            if (value := OmegaConf.select(cfg, key)) != required:
                raise ValueError(f"{key} is {value}; leave it out: a job resumes from its own checkpoint_last.pt "
                                 "(checkpoint.finetune_from_model starts from another)")  # fmt: skip
        return cfg

    def command_line(self, **more: Any) -> List[str]:
        """The arguments of ``fairseq-hydra-train``, with ``more`` overrides."""
        base, chosen = split_config(self.config)
        more = [f"{key}={quoted(value)}" for key, value in {**self.job_overrides(), **more}.items()]
        base = ["--config-dir", str(base.parent.absolute()), "--config-name", base.stem]
        return [*base, *chosen, *self.overrides, *more]


def quoted(value: Any) -> str:
    """A value as hydra's grammar writes it, whatever characters it has."""
    if isinstance(value, str):
        # A backslash is literal unless a quote follows.
        escaped = re.sub(r"(\\*)('|$)", lambda match: 2 * match[1] + (match[2] and "\\'"), value)
        return f"'{escaped}'"
    return "null" if value is None else str(value).replace(" ", "")


def run_name(config, overrides) -> str:
    """A run is named by its configuration and by the overrides that make it a different run.

    >>> run_name("configs/pretrain/base.yaml", ["+run=n512-k128-headwise", "+gpus=x64", "model.dropout=0"])
    'n512-k128-headwise,dropout=0'
    """
    base, chosen = split_config(config)
    pairs = [override.lstrip("+~").partition("=")[::2] for override in (*chosen, *overrides)
             if not _NOT_IN_NAME.fullmatch(override.partition("=")[0])]  # fmt: skip
    groups = [value for key, value in pairs if "." not in key]  # files, such as +run=NAME
    values = [f"{key.rpartition('.')[2]}={value}" for key, value in pairs if "." in key]
    return re.sub(r"[^\w.,=+-]+", "_", ",".join([*(groups or [base.stem]), *values]))[:200]


def identity(cfg: DictConfig) -> Dict[str, Any]:
    """The options by which two configurations are the same run, flat: all but where it runs and what it prints.

    ``update_freq`` counts the micro-batches of an update over all processes.
    """
    flat = dict(_flatten(OmegaConf.to_container(cfg, enum_to_str=True)))
    flat["optimization.update_freq"] = _micro_batches(cfg)
    return {key: value for key, value in flat.items() if not _NOT_IN_IDENTITY.fullmatch(key)}


def _flatten(tree: Any, prefix: str = ""):
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from _flatten(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, tree


def _micro_batches(cfg: DictConfig) -> List[int]:
    world_size = cfg.distributed_training.distributed_world_size
    counts = [freq * world_size for freq in cfg.optimization.update_freq]
    if not counts or min(counts) < 1:
        freq = list(cfg.optimization.update_freq)
        problem = f"optimization.update_freq is {freq} and distributed_world_size {world_size}"
        raise ValueError(f"{problem}; both must be at least 1")
    return counts


def _absolute(paths: str) -> str:
    """Paths, joined by ``:``, that do not depend on a process's working directory."""
    return os.pathsep.join(str(Path(part).absolute()) for part in paths.split(os.pathsep))


def _check_paths(cfg: DictConfig) -> None:
    parts = str(cfg.task.data).split(os.pathsep)
    for part in parts:
        if not Path(part).is_dir():
            raise ValueError(f"task.data is {cfg.task.data}; there is no folder {part}")
    names, command = _DATA_FILES.get(cfg.task.get("_name"), ((), ""))
    for name in names:
        if not (Path(parts[0]) / name).is_file():
            raise ValueError(f"task.data is {cfg.task.data}; there is no {name} in {parts[0]}; "
                             f"`fairseq-linformer prepare {command}` writes it")  # fmt: skip
    path = cfg.checkpoint.finetune_from_model
    if path and not Path(path).is_file():
        raise ValueError(f"checkpoint.finetune_from_model is {path}; there is no such file")


def check_buildable(cfg: DictConfig) -> None:
    """Build the model without memory, the optimizer and the schedule. ValueError if fairseq cannot, with their values.

    Args:
        cfg: composed, of a task with one length.
    """
    _check_model(OmegaConf.to_yaml(cfg.model), cfg.task.get("tokens_per_sample") or cfg.task.get("max_positions"))
    try:
        optimizer = build_optimizer(cfg.optimizer, [torch.nn.Parameter(torch.zeros(1))])
        build_lr_scheduler(cfg.lr_scheduler, optimizer)
    except Exception as error:  # fairseq evaluates text, and asserts
        sections = ("optimizer", "lr_scheduler")
        values = [f"{section}.{key}={value}" for section in sections for key, value in cfg[section].items()]
        problem = f"{type(error).__name__}: {first_line(error)} ({', '.join(values)})"
        raise ValueError(f"fairseq cannot build the optimizer and its schedule: {problem}") from None


@lru_cache(maxsize=None)  # the members of an array have few different models
def _check_model(options: str, positions: int) -> None:
    model = OmegaConf.create(options)
    try:
        with FakeTensorMode():
            build_model(model, BareTask(VOCABULARY, positions))
    except ValueError:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {first_line(error)}"
        raise ValueError(f"fairseq cannot build the model {model._name}: {problem}") from None
