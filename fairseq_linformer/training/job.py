"""A training job: its configuration, composed as fairseq does and checked, once, by whoever starts it.

``run_folder.py`` writes it to RUN/config.yaml, which is all that a worker reads. Composing executes nothing of it.
"""

import logging
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.initialize import add_defaults, hydra_init
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from ..checkpoints.identify import LAST
from ..data.tokenizer_files import DICTIONARY
from ..models.datasets import check_dataset
from ..resources import CONFIGS, PLUGIN

SECTIONS = [name for name in FairseqConfig.__dataclass_fields__ if name != "_name"]
"""The sections of fairseq's configuration."""
DEVICES: dict[str, dict[str, Any]] = {
    "cuda": {},
    "cpu": {
        "common.cpu": True,
        "common.fp16": False,
        "distributed_training.distributed_backend": "gloo",
        "distributed_training.ddp_backend": "legacy_ddp",
    },
}
"""Options for each device. The files in configs/ are for GPUs."""
PATH_OPTIONS = (
    "task.data",
    *(f"checkpoint.{name}" for name in ("finetune_from_model", "continue_once", "restore_file")),
    "criterion.teacher",
)
"""Options that are paths, which become absolute and must exist."""
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
_TRAINING_SETS = {"masked_lm": "train", "sentence_prediction": "input0/train"}
"""Prefix of the files of a task's training set, next to which its dictionary is."""


@dataclass(frozen=True)
class TrainingJob:
    """A training job; its configuration is composed and checked when it is first read.

    Attributes:
        config: YAML for fairseq-hydra-train; may be an override of the ``base.yaml`` in a parent folder.
        overrides: hydra overrides; paths may be relative to the current folder.
        processes: number of processes, one per GPU, for which it is checked; it may run with another number.
        device: one of ``DEVICES``.
        runs: folder of the run folders.
        name: of the run folder; empty to derive it from ``config`` and ``overrides``.
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

    @cached_property
    def cfg(self) -> DictConfig:
        """The configuration, with absolute paths. ValueError if it could not run: an option is invalid, a file is
        missing, or the processes do not divide an update."""
        cfg = compose_config(self.config, self.overrides)
        for key in PATH_OPTIONS:
            section, name = key.split(".")
            if cfg[section] is not None and OmegaConf.is_missing(cfg[section], name):
                raise ValueError(f"{key} is not set; add {key}=PATH")
            if (value := OmegaConf.select(cfg, key)) and value != LAST:  # the default of restore_file
                paths = [Path(path).absolute() for path in (value.split(os.pathsep) if key == "task.data" else [value])]
                if key != "task.data" and not paths[0].is_file():
                    raise ValueError(f"{key} must be an existing file, got {paths[0]}")
                OmegaConf.update(cfg, key, os.pathsep.join(map(str, paths)))
        for key, value in {**DEVICES[self.device], "common.user_dir": str(PLUGIN)}.items():
            OmegaConf.update(cfg, key, value)
        distribute(cfg, self.processes)
        _check_files(cfg)
        return cfg


def compose_config(config: str | Path, overrides: Sequence[str] = ()) -> DictConfig:
    """Compose a configuration; ValueError in one sentence if a file, a key or a value is invalid."""
    base, choice = _split_config(config)
    for word in overrides:
        if "=" not in word and not word.startswith("~"):
            raise ValueError(f"an override must be KEY=VALUE or ~KEY, got {word}; commas separate values of an option")
        key = word.lstrip("+~").partition("=")[0]
        section = key.partition(".")[0].partition("/")[0]
        if section not in (*SECTIONS, "hydra") and not (base.parent / section).is_dir():
            raise ValueError(f"{section} in {word} is not a section of {base.name}; choose from {', '.join(SECTIONS)}")
    logging.getLogger("hydra").setLevel(logging.WARNING)
    _register_schema(base.stem)
    GlobalHydra.instance().clear()
    try:
        # hydra warns about how fairseq registers its schema, and about version_base, which fairseq needs
        with (
            warnings.catch_warnings(action="ignore"),
            initialize_config_dir(str(base.parent.absolute()), version_base="1.1"),
        ):
            cfg = compose(base.stem, [*choice, *overrides])
        if cfg.model is None:
            raise ValueError("it has no model; set model._name")
        add_defaults(cfg)
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError, RecursionError, OSError) as error:
        cause = error.__cause__ if isinstance(error, HydraException) else None
        text, _, files = f"{error}\n{cause or ''}".partition("Available options in ")  # of an unknown +run=NAME
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if files:
            lines.append(f"choose from {', '.join(files.partition('Config search path')[0].split()[1:])}")
        raise ValueError(f"{config}: {'; '.join(lines[:2])[:700] or type(error).__name__}") from None
    return cfg


_register_schema = cache(hydra_init)  # a fifth of the time of a composition


def _split_config(config: str | Path) -> tuple[Path, list[str]]:
    """Split a path into the base YAML and, for a file in a folder of overrides next to it, the override's choice.
    ValueError if there is no such file.

    A path in ``configs/`` is the package's, unless the current folder has such a file.
    """
    path = Path(config)
    if path.parts[:1] == (CONFIGS.name,) and not path.exists():
        path = CONFIGS.parent / path
    if not path.is_file() or path.suffix != ".yaml":
        known = sorted(p.name for p in path.parent.glob("*.yaml")) or ["configs/pretrain/base.yaml"]
        raise ValueError(f"configuration {config} does not exist; choose from {', '.join(known)}")
    base = path.parent.parent / "base.yaml"
    if path.name != "base.yaml" and base.is_file():
        return base, [f"+{path.parent.name}={path.stem}"]
    return path, []


def run_name(config: str | Path, overrides: Sequence[str]) -> str:
    """Derive the name of a run from its configuration and the overrides that define it.

    >>> run_name("configs/pretrain/base.yaml", ["+run=n512-k128-headwise", "+gpus=x64", "model.dropout=0"])
    'n512-k128-headwise,dropout=0'
    """
    base, chosen = _split_config(config)
    words = [override.lstrip("+~") for override in (*chosen, *overrides)]
    pairs = [
        word.partition("=")[::2]
        for word in words
        if not word.startswith(_NOT_IN_NAME) or word.startswith("common.seed=")
    ]
    groups = [value for key, value in pairs if "." not in key]  # files, such as +run=NAME
    values = [f"{key.rpartition('.')[2]}={value}" for key, value in pairs if "." in key]
    return re.sub(r"[^\w.,=+-]+", "_", ",".join([*(groups or [base.stem]), *values]))[:200]


def micro_batches(cfg: DictConfig) -> list[int]:
    """Micro-batches per update over all processes, for each epoch as in ``update_freq``."""
    return [freq * cfg.distributed_training.distributed_world_size for freq in cfg.optimization.update_freq]


def distribute(cfg: DictConfig, processes: int) -> None:
    """Set the number of processes, with the same micro-batches per update; ValueError if it does not divide them."""
    counts = micro_batches(cfg)
    for count in counts:
        if count % processes:
            possible = ", ".join(str(p) for p in range(1, count + 1) if count % p == 0)
            raise ValueError(
                f"the number of processes must divide the {count} micro-batches per update (update_freq x "
                f"distributed_world_size of the configuration), got {processes}; choose from {possible}, or "
                "in a new run halve dataset.batch_size and double optimization.update_freq"
            )
    OmegaConf.update(cfg, "distributed_training.distributed_world_size", processes)
    OmegaConf.update(cfg, "optimization.update_freq", [count // processes for count in counts])


def _check_files(cfg: DictConfig) -> None:
    if (got := cfg.checkpoint.save_dir) != "checkpoints":
        raise ValueError(f"checkpoint.save_dir must be checkpoints, which is in the run folder, got {got}")
    if name := _TRAINING_SETS.get(cfg.task._name):
        prefixes = [Path(folder, name) for folder in cfg.task.data.split(os.pathsep)]
        if not (dictionary := prefixes[0].with_name(DICTIONARY)).is_file():
            raise ValueError(f"task.data needs {dictionary}, which does not exist")
        for prefix in prefixes:
            check_dataset(prefix)


def quote(value: Any) -> str:
    """Format a value in the grammar of hydra's overrides."""
    if isinstance(value, str):
        # A backslash is literal unless a quote follows.
        escaped = re.sub(r"(\\*)('|$)", lambda match: 2 * match[1] + (match[2] and "\\'"), value)
        return f"'{escaped}'"
    return "null" if value is None else str(value).replace(" ", "")
