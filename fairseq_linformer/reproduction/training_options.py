"""The configuration of trained runs in a record: every option of fairseq that their training depends on."""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

SECTIONS = ("model", "task", "criterion", "optimizer", "lr_scheduler", "optimization", "dataset", "common")
WORLD_SIZE = "distributed_training.distributed_world_size"
_ELSEWHERE = re.compile(
    r"task\.data|common\.(seed|plasma_path|user_dir|log_.*|tensorboard_logdir|no_progress_bar)"
    r"|dataset\.(num_workers|data_buffer_size)"
)
"""Options that a record has in other fields, paths, and options of logging and loading."""


def training_options(cfg: DictConfig) -> dict[str, Any]:
    """The options of a run, by ``section.name``, as JSON holds them."""
    sections = {name: OmegaConf.to_container(cfg[name], enum_to_str=True) for name in SECTIONS if cfg.get(name)}
    flat = {
        f"{section}.{option}": value
        for section, options in sections.items()
        for option, value in cast(dict[str, Any], options).items()
        if not _ELSEWHERE.fullmatch(f"{section}.{option}")
    }
    flat[WORLD_SIZE] = OmegaConf.select(cfg, WORLD_SIZE)
    return json.loads(json.dumps(flat))


def pack(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Options of several runs: ``shared``, those on which all agree, and ``runs``, the others by run."""
    first = next(iter(runs.values()))
    shared = {
        name: value
        for name, value in first.items()
        if all(name in options and options[name] == value for options in runs.values())
    }
    own = {run: {name: v for name, v in options.items() if name not in shared} for run, options in runs.items()}
    return {"shared": shared, "runs": own}


def unpack(packed: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The inverse of ``pack``."""
    return {run: {**packed["shared"], **own} for run, own in packed["runs"].items()}
