"""What shall be trained, by how many processes, and where it goes: checked before anybody waits for it."""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Dict, List, Tuple

from omegaconf import DictConfig, OmegaConf

from ..planning.configs import compose_config, split_config

DEVICES: Dict[str, Dict[str, Any]] = {
    "gpu": {},
    "cpu": {"common.cpu": True, "common.fp16": False, "distributed_training.distributed_backend": "gloo",
            "distributed_training.ddp_backend": "legacy_ddp"},
}  # fmt: skip
"""Overrides for each kind of machine; a GPU is what configs/ are written for."""
PATHS = ("task.data", "checkpoint.finetune_from_model")
# In no name of a run: where and how it runs, not what it is.
_NAMELESS = re.compile(r"[+~]*(gpus|distributed_training\..*|common\.(?!seed).*|checkpoint\..*|task\.data|dataset\.num_workers|optimization\.update_freq)")
# A job that is stopped goes on from its own, whole checkpoint_last.pt: what stands against that.
_REFUSED = {
    "checkpoint.no_save": False, "checkpoint.no_last_checkpoints": False, "checkpoint.no_save_optimizer_state": False,
    "checkpoint.write_checkpoints_asynchronously": False, "checkpoint.save_dir": "checkpoints", "checkpoint.restore_file": "checkpoint_last.pt",
    "checkpoint.continue_once": None, "checkpoint.checkpoint_suffix": "", "checkpoint.reset_optimizer": False,
    "checkpoint.reset_lr_scheduler": False, "checkpoint.reset_meters": False, "checkpoint.reset_dataloader": False,
    "distributed_training.use_sharded_state": False,
}  # fmt: skip
# What a task reads at first, and the command that writes it.
_FILES = {
    "masked_lm": (("dict.txt", "train.idx", "train.bin"), "pretraining"),
    "sentence_prediction": (("input0/dict.txt", "input0/train.idx", "input0/train.bin"), "sst-2"),
}
_FOLDER = re.compile(r"[\w.,=+@/ -]+")


@dataclass(frozen=True)
class Training:
    """
    Attributes:
        config: a YAML for fairseq-hydra-train, or an override of the ``base.yaml`` above it.
        overrides: as hydra's. Paths in them may be relative to the current folder.
        processes: one a GPU.
        device: one of ``DEVICES``.
        runs: the folder that holds the run folders.
        name: of the run folder; empty for one made of what ``config`` and ``overrides`` say.
    """

    config: str
    overrides: Tuple[str, ...] = ()
    processes: int = 1
    device: str = "gpu"
    runs: str = "runs"
    name: str = ""

    @cached_property
    def folder(self) -> Path:
        """The run folder.

        Raises:
            ValueError: Slurm, hydra or a shell would take its name for something else; or ``config`` is not there.
        """
        folder = Path(self.runs).absolute() / (self.name or name_of(self.config, self.overrides))
        if not _FOLDER.fullmatch(str(folder)):
            raise ValueError(f"the run folder would be {str(folder)!r}; it may have letters, digits, blanks and . , = + - _ @ / in it")
        return folder

    @cached_property
    def asked(self) -> DictConfig:
        """The configuration without regard to the processes.

        Raises:
            ValueError: as ``compose_config``.
        """
        return compose_config(self.config, self.overrides)

    def derived(self) -> Dict[str, Any]:
        """The overrides that follow from processes, device and folder.

        An update keeps its tokens: ``update_freq`` times the number of processes stays what the configuration has.

        Raises:
            ValueError: the processes do not divide it; or as ``compose_config``.
        """
        paths = {key: value for key in PATHS if (value := _absolute(self.asked, key))}
        freq = [self._share(count) for count in _micro_batches(self.asked)]
        return {**paths, **DEVICES[self.device], "distributed_training.distributed_world_size": self.processes, "optimization.update_freq": freq}

    def _share(self, micro_batches: int) -> int:
        if micro_batches % self.processes == 0:
            return micro_batches // self.processes
        possible = ", ".join(str(p) for p in range(1, micro_batches + 1) if micro_batches % p == 0)
        size = self.asked.dataset.batch_size or 1
        hint = ""
        if size % 2 == 0 and 2 * micro_batches % self.processes == 0:
            hint = f"; smaller ones can be divided: dataset.batch_size={size // 2} optimization.update_freq=[{2 * micro_batches}]"
        raise ValueError(f"{self.processes} processes do not divide the {micro_batches} micro-batches of an update (update_freq x "
                         f"distributed_world_size of the configuration); {possible} do{hint}")  # fmt: skip

    @cached_property
    def composed(self) -> DictConfig:
        """The configuration as it will be run.

        Raises:
            ValueError: it cannot be run, or could not be gone on with later; one sentence.
        """
        for section, name in (key.split(".") for key in PATHS):
            if OmegaConf.is_missing(self.asked[section], name):
                raise ValueError(f"{section}.{name} is not given; {section}.{name}=PATH is wanted")
        cfg = self.asked.copy()
        for key, value in self.derived().items():
            OmegaConf.update(cfg, key, value)
        n = OmegaConf.select(cfg, "model.max_positions")
        if cfg.task._name == "sentence_prediction" and n not in (None, cfg.task.max_positions):
            raise ValueError(f"model.max_positions is {n}; fairseq's sentence_prediction makes it task.max_positions, which is {cfg.task.max_positions}")
        _check_paths(cfg)
        for key, allowed in _REFUSED.items():
            value = OmegaConf.select(cfg, key)
            if value != allowed:
                raise ValueError(f"{key} is {value}; a job goes on from the checkpoint_last.pt in its run folder, leave it out "
                                 "(checkpoint.finetune_from_model starts from another)")  # fmt: skip
        return cfg

    def command_line(self, **more: Any) -> List[str]:
        """The arguments of ``fairseq-hydra-train``, with ``more`` overrides."""
        base, chosen = split_config(self.config)
        return ["--config-dir", str(base.parent.absolute()), "--config-name", base.stem, *chosen, *self.overrides,
                *(f"{key}={quoted(value)}" for key, value in {**self.derived(), **more}.items())]  # fmt: skip


def quoted(value: Any) -> str:
    """As hydra reads it, whatever signs are in it."""
    if isinstance(value, str):
        # A backslash is one unless a quote follows.
        return "'" + re.sub(r"(\\*)('|$)", lambda found: 2 * found[1] + (found[2] and "\\'"), value) + "'"
    return "null" if value is None else str(value).replace(" ", "")


def name_of(config, overrides) -> str:
    """A run is named by its configuration and by those overrides that make it another one.

    >>> name_of("configs/pretrain/base.yaml", ["+run=n512-k128-headwise", "+gpus=x64", "model.dropout=0"])
    'n512-k128-headwise,dropout=0'
    """
    base, chosen = split_config(config)
    told = [override.lstrip("+~").partition("=") for override in (*chosen, *overrides) if not _NAMELESS.fullmatch(override.partition("=")[0])]
    choices = [value for key, _, value in told if "." not in key]  # of a file, such as +run=NAME
    values = [f"{key.rpartition('.')[2]}={value}" for key, _, value in told if "." in key]
    return re.sub(r"[^\w.,=+-]+", "_", ",".join([*(choices or [base.stem]), *values]))[:200]


def identity(cfg: DictConfig) -> Dict[str, Any]:
    """What makes two configurations the same run, flat: all but where it runs and what it prints.

    ``update_freq`` counts the micro-batches of an update over all processes.
    """
    flat = dict(_flat(OmegaConf.to_container(cfg, enum_to_str=True)))
    flat["optimization.update_freq"] = _micro_batches(cfg)
    free = re.compile(r"distributed_training\..*|common\.(log_.*|user_dir|tensorboard_logdir|no_progress_bar)|dataset\.(num_workers|data_buffer_size)"
                      r"|checkpoint\.(save_interval.*|keep_.*)|common_eval\..*")  # fmt: skip
    return {key: value for key, value in flat.items() if not free.fullmatch(key)}


def _flat(tree: Any, above: str = ""):
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from _flat(value, f"{above}.{key}" if above else str(key))
    else:
        yield above, tree


def _micro_batches(cfg: DictConfig) -> List[int]:
    world = cfg.distributed_training.distributed_world_size
    counts = [freq * world for freq in cfg.optimization.update_freq]
    if not counts or min(counts) < 1:
        raise ValueError(f"optimization.update_freq is {list(cfg.optimization.update_freq)} and distributed_world_size {world}; both must be at least 1")
    return counts


def _absolute(cfg: DictConfig, key: str) -> str:
    """A path as every process finds it, whatever folder it works in; empty if none is given."""
    section, name = key.split(".")
    if OmegaConf.is_missing(cfg[section], name) or cfg[section].get(name) in (None, ""):
        return ""
    return os.pathsep.join(str(Path(part).absolute()) for part in str(cfg[section][name]).split(os.pathsep))


def _check_paths(cfg: DictConfig) -> None:
    parts = str(cfg.task.data).split(os.pathsep)
    for part in parts:
        if not Path(part).is_dir():
            raise ValueError(f"task.data is {cfg.task.data}; there is no folder {part}")
    wanted, command = _FILES.get(cfg.task.get("_name"), ((), ""))
    missing = [name for name in wanted if not (Path(parts[0]) / name).is_file()]
    if missing:
        raise ValueError(f"task.data is {cfg.task.data}; there is no {missing[0]} in {parts[0]}, as `fairseq-linformer prepare {command}` writes it")
    path = cfg.checkpoint.finetune_from_model
    if path and not Path(path).is_file():
        raise ValueError(f"checkpoint.finetune_from_model is {path}; there is no such file")
