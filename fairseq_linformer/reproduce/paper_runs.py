"""What Slurm has trained of the paper's figures and Table 2, read back into entries of the ledger."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List

import torch
from omegaconf import OmegaConf

from ..finetuning.finetune import finetune
from ..launching.run_folder import DONE, read_config
from ..planning.configs import compose_config
from . import finetuned, trained
from .ledger import Entry
from .paper_scale import FIGURES, finetunings, is_trained
from .run_of_plan import CONFIG
from .text import shards_of
from .trained import Trained

SCALE = "paper"
_MODEL = ("_name", "encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads", "projected_dim", "sharing", "projection")


def all_trained(experiment: str, runs, tasks, device: str) -> bool:
    """Is there nothing left to submit?

    Raises:
        ValueError: as ``finetunings``, of table-2.
    """
    if experiment in FIGURES:
        return all(is_trained(runs, run) for run in FIGURES[experiment].values())
    return all((training.folder / DONE).exists() for job in finetunings(runs, tasks, device) for training in job.trainings(job.start()))


def measure(experiment: str, runs, text, tasks, device: str, command: str) -> List[Entry]:
    """Judge what is trained.

    Args:
        text: that the runs of a figure were trained on; of table-2 the tasks.

    Raises:
        ValueError: a run was trained on something else or is another model, its configuration cannot be read, or its curve is cut short.
    """
    return [_figure(experiment, Path(runs), text, device, command)] if experiment in FIGURES else _table_2(runs, tasks, device, command)


def remember_rules(array: str, runs) -> None:
    """Of every figure or table that an array is for, when it is submitted."""
    for experiment in FIGURES if array == "pretraining" else (array,):
        trained.remembered(experiment, Path(runs) / SCALE)


def _rules(experiment: str, runs: Path) -> Dict[str, Any]:
    """Those from before the runs; nothing of runs that were submitted one by one, for the rules of today are not from before them."""
    there = trained.rules_file(experiment, runs / SCALE).exists()
    return {"rules": trained.remembered(experiment, runs / SCALE)} if there else {}


def _figure(experiment: str, runs: Path, text, device: str, command: str) -> Entry:
    configured = {name: _checked(runs / run, run) for name, run in FIGURES[experiment].items()}
    models = {name: [_trained(runs / run, configured[name], text)] for name, run in FIGURES[experiment].items()}
    told = {"runs": {name: _described(cfg) for name, cfg in configured.items()}, **_rules(experiment, runs)}
    # What a GPU of a cluster has trained may be judged where there is none.
    device = "gpu" if device == "gpu" and torch.cuda.is_available() else "cpu"
    return trained.entry_of(experiment, SCALE, models, [run for of_seed in models.values() for run in of_seed], text, device, told, command)


def _checked(folder: Path, run: str) -> Dict[str, Any]:
    """The configuration of a folder, which was perhaps given its name by hand.

    Raises:
        ValueError: it is not of the n and the model of ``configs/pretrain/run``.
    """
    cfg, wanted = (OmegaConf.to_container(c) for c in (read_config(folder), compose_config(str(CONFIG), [f"+run={run}", "task.data=any"])))
    for section, keys in (("task", ("tokens_per_sample",)), ("model", _MODEL)):
        for key in keys:
            if (there := cfg[section].get(key)) != wanted[section].get(key):
                raise ValueError(f"{folder} was trained with {section}.{key}={there}, and {run} has {wanted[section].get(key)}; give another --runs")
    return cfg


def _trained(folder: Path, cfg: Dict[str, Any], text) -> Trained:
    """
    Raises:
        ValueError: it was trained on something else than ``text``.
    """
    there, here = ([str(path) for path in paths] for paths in (cfg["task"]["data"].split(os.pathsep), map(Path.absolute, shards_of(text))))
    if [*map(os.path.realpath, there)] != [*map(os.path.realpath, here)]:
        raise ValueError(f"{folder} was trained on {os.pathsep.join(there)}, and --text has {os.pathsep.join(here)}")
    return Trained(folder, cfg["task"]["tokens_per_sample"], cfg["optimization"]["max_update"])


def _described(cfg: Dict[str, Any]) -> Dict[str, Any]:
    """What a reader of the entry wants to know of a run."""
    model = {key: cfg["model"].get(key) for key in ("_name", "projected_dim", "sharing")}
    return {"n": cfg["task"]["tokens_per_sample"], **model, "updates": cfg["optimization"]["max_update"], "lr": cfg["optimization"]["lr"],
            "seed": cfg["common"]["seed"], "made": "scratch"}  # fmt: skip


def _table_2(runs, tasks, device: str, command: str) -> List[Entry]:
    entries = []
    for job in finetunings(runs, tasks, device):
        _, run, task = job.name.split("/")
        entry = finetuned.entry_of(job.task, finetune(job), f"{task}-{run}-{SCALE}", command)
        told = {"experiment": "table-2", **_rules("table-2", Path(runs))}
        entries.append(replace(entry, scale=SCALE, configuration={**entry.configuration, **told}))
    return entries
