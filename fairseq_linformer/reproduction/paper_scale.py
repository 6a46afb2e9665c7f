"""The paper's own scale: arrays of Slurm jobs, read back into records once they are trained.

    fairseq-linformer reproduce figure-3a --scale paper --text TEXT

submits the runs not trained yet; once all are trained, the same command writes the record.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from ..launching.run_folder import DONE, read_config
from ..planning.configs import compose_config
from . import scoring
from .records import Record
from .registry import Experiment, Inputs, experiments
from .runs import CONFIG
from .scoring import Trained
from .text import shards_of

SCALE, PRETRAINING = "paper", "pretraining"
_MODEL = ("_name", "encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads", "projected_dim",
          "sharing", "projection")  # fmt: skip


class PaperScale(ABC):
    """How an experiment is trained at the paper's scale.

    Attributes:
        reads: the inputs it needs.
        pretraining: names of the runs in ``configs/pretrain/run`` that it needs.
    """

    reads: tuple[str, ...] = ("text",)
    pretraining: tuple[str, ...] = ()

    @abstractmethod
    def members(self, runs, tasks, device: str) -> list[list[str]]:
        """The array: arguments of ``fairseq-linformer submit`` for each member.

        Raises:
            ValueError: something it needs is not trained or not prepared.
        """

    @abstractmethod
    def is_trained(self, runs, tasks, device: str) -> bool:
        """Whether nothing is left to submit."""

    @abstractmethod
    def measure(self, inputs: Inputs, device: str, command: str) -> list[Record]:
        """Score what is trained.

        Raises:
            ValueError: a run is of another model or text, or its configuration or curve is damaged.
        """


class PaperFigure(PaperScale):
    """A figure whose curves are pretrainings.

    Args:
        runs: of ``configs/pretrain/run``, by model.
    """

    def __init__(self, experiment: Experiment, runs: Mapping[str, str]):
        self.experiment, self.runs, self.pretraining = experiment, runs, tuple(runs.values())

    def members(self, runs, tasks, device: str) -> list[list[str]]:
        return [[f"+run={run}"] for run in self.pretraining]

    def is_trained(self, runs, tasks, device: str) -> bool:
        return all(is_trained(runs, run) for run in self.pretraining)

    def measure(self, inputs: Inputs, device: str, command: str) -> list[Record]:
        experiment, folder = self.experiment, inputs.folder
        configured = {model: _checked(folder / run, run) for model, run in self.runs.items()}
        models = {model: [_trained(folder / run, configured[model], inputs.text)] for model, run in self.runs.items()}
        configuration = {"runs": {model: _described(cfg) for model, cfg in configured.items()}}
        # What the GPUs of a cluster trained may be scored where there is none.
        device = "gpu" if device == "gpu" and torch.cuda.is_available() else "cpu"
        every = [run for of_seed in models.values() for run in of_seed]
        rules = rules_of_submission(experiment, folder)
        return [experiment.record(SCALE, models, every, inputs.text, device, configuration, command, rules)]


def arrays() -> dict[str, list[Experiment]]:
    """The names of ``submit --array``, with the experiments that each is for: their own, and ``pretraining`` for every run they need."""
    found = [each for each in experiments() if each.paper_scale]
    return {**{each.name: [each] for each in found}, PRETRAINING: found}


def array_members(name: str, runs, tasks, device: str) -> list[list[str]]:
    """Arguments of ``fairseq-linformer submit`` for each member of an array.

    Raises:
        ValueError: there is no such array; ``tasks`` is missing, or given and not read; or as ``PaperScale.members``.
    """
    if name not in arrays():
        raise ValueError(f"--array is {name}; choose from {', '.join(arrays())}")
    for_array = arrays()[name]
    reads_tasks = name != PRETRAINING and "tasks" in for_array[0].paper_scale.reads
    if reads_tasks != (tasks is not None):
        raise ValueError(f"--array {name} {'needs --tasks FOLDER' if reads_tasks else f'does not read --tasks, which is {tasks}'}")
    if name == PRETRAINING:
        return [[f"+run={run}"] for run in dict.fromkeys(run for each in for_array for run in each.paper_scale.pretraining)]
    return for_array[0].paper_scale.members(runs, tasks, device)


def is_trained(runs, run: str) -> bool:
    """Whether the pretraining ``run`` in the folder ``runs`` is finished."""
    return (Path(runs) / run / DONE).exists()


def keep_rules(array: str, runs) -> None:
    """Write down today's rules when an array is submitted."""
    for each in arrays()[array]:
        if array != PRETRAINING or isinstance(each.paper_scale, PaperFigure):
            scoring.rules_before_runs(each.name, each.claims, Path(runs) / SCALE)


def rules_of_submission(experiment: Experiment, runs: Path) -> dict[str, str] | None:
    """Those that ``keep_rules`` wrote; None for runs that were submitted one by one: today's are not from before them."""
    if not scoring.rules_file(experiment.name, runs / SCALE).exists():
        return None
    return scoring.rules_before_runs(experiment.name, experiment.claims, runs / SCALE)


def _checked(folder: Path, run: str) -> dict[str, Any]:
    """The configuration of a run folder, whose name may have been given by hand.

    Raises:
        ValueError: its n or model is not that of ``configs/pretrain/run``.
    """
    config, wanted = (OmegaConf.to_container(c) for c in (read_config(folder), compose_config(str(CONFIG), [f"+run={run}", "task.data=any"])))
    for section, keys in (("task", ("tokens_per_sample",)), ("model", _MODEL)):
        for key in keys:
            if (there := config[section].get(key)) != wanted[section].get(key):
                raise ValueError(f"{folder} was trained with {section}.{key}={there}, and {run} has {wanted[section].get(key)}; "
                                 f"give another --runs")  # fmt: skip
    return config


def _trained(folder: Path, config: Mapping[str, Any], text) -> Trained:
    """
    Raises:
        ValueError: it was trained on another text.
    """
    there = config["task"]["data"].split(os.pathsep)
    here = [str(path.absolute()) for path in shards_of(text)]
    if [*map(os.path.realpath, there)] != [*map(os.path.realpath, here)]:
        raise ValueError(f"{folder} was trained on {os.pathsep.join(there)}, and --text has {os.pathsep.join(here)}")
    return Trained(folder, config["task"]["tokens_per_sample"], config["optimization"]["max_update"])


def _described(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of a run."""
    model = {key: config["model"].get(key) for key in ("_name", "projected_dim", "sharing")}
    return {"n": config["task"]["tokens_per_sample"], **model, "updates": config["optimization"]["max_update"],
            "lr": config["optimization"]["lr"], "seed": config["common"]["seed"], "made": "scratch"}  # fmt: skip
