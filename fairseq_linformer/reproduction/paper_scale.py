"""The paper's own scale: Slurm arrays, turned into records once they are trained.

    fairseq-linformer reproduce figure-3a --scale paper --data TEXT

submits the runs that are not trained yet; once all are trained, the same command writes the record. As the rules need
several seeds, each model is trained with ``SEEDS``, the first seed of every model first.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from ..launching.run_folder import DONE, read_config
from ..launching.training_job import run_name
from ..planning.configs import compose_config
from .experiment import Experiment, PaperScale
from .inputs import Inputs
from .records import TRAINING, Record
from .registry import experiments
from .runs import CONFIG, Model
from .scoring import FinishedRun
from .text import find_shards
from .training_options import pack, training_options

SCALE, PRETRAINING = "paper", "pretraining"
SEEDS = (1, 2, 3)
_COMPARED_MODEL_OPTIONS = """
    _name encoder_layers encoder_embed_dim encoder_ffn_embed_dim encoder_attention_heads projected_dim sharing
    projection projection_init projection_lr_scale local_window window_sizes
""".split()


class PaperFigure(PaperScale):
    """A figure whose curves are pretrainings.

    Args:
        build_record: ``TrainingExperiment.record`` of the experiment.
        runs: overrides of ``configs/pretrain/base.yaml``, by model.
    """

    def __init__(self, experiment: Experiment, build_record: Callable[..., Record], runs: Mapping[str, Sequence[str]]):
        self.experiment, self.build_record = experiment, build_record
        self.runs = {model: [_with_seed(overrides, seed) for seed in SEEDS] for model, overrides in runs.items()}
        """Overrides by model, one per seed."""
        self.pretraining = tuple(run for seed_runs in zip(*self.runs.values()) for run in seed_runs)

    def members(self, runs, tasks, device: str) -> list[list[str]]:
        return [list(overrides) for overrides in self.pretraining]

    def is_trained(self, runs, tasks, device: str) -> bool:
        return all(is_trained(runs, overrides) for overrides in self.pretraining)

    def measure(self, inputs: Inputs, device: str, command: str) -> list[Record]:
        configured = {run: _read_checked_config(_folder(inputs.folder, run), run) for run in self.pretraining}
        finished = {
            run: _finished_run(_folder(inputs.folder, run), cfg, inputs.data) for run, cfg in configured.items()
        }
        models = {model: [finished[run] for run in seed_runs] for model, seed_runs in self.runs.items()}
        described = {model: _describe_run(configured[seed_runs[0]]) for model, seed_runs in self.runs.items()}
        options = {model: training_options(OmegaConf.create(configured[r[0]])) for model, r in self.runs.items()}
        configuration = {"seeds": list(SEEDS), "runs": described, TRAINING: pack(options)}
        # Runs trained on a cluster's GPUs may be scored on a machine without one.
        device = "cuda" if device == "cuda" and torch.cuda.is_available() else "cpu"
        every = list(finished.values())
        return [self.build_record(SCALE, models, every, inputs.data, device, configuration, command)]


def _with_seed(overrides: Sequence[str], seed: int) -> tuple[str, ...]:
    """Overrides with a seed; seed 1 is that of the configuration."""
    return (*overrides, *[f"common.seed={seed}"] * (seed != 1))


def arrays() -> dict[str, list[Experiment]]:
    """Experiments by the names of ``submit --array``: one name each, and ``pretraining`` for all runs they need."""
    found = [each for each in experiments() if each.paper_scale]
    return {**{each.name: [each] for each in found}, PRETRAINING: found}


def array_members(name: str, runs, tasks, device: str) -> list[list[str]]:
    """Arguments of ``fairseq-linformer submit`` for each member of an array.

    Raises:
        ValueError: the array is unknown; ``tasks`` is missing, or set but not read; or as ``PaperScale.members``.
    """
    if name not in arrays():
        raise ValueError(f"unknown --array {name!r}; choose from {', '.join(arrays())}")
    scales = [each.paper_scale for each in arrays()[name] if each.paper_scale]
    reads_tasks = name != PRETRAINING and "tasks" in scales[0].reads
    if reads_tasks != (tasks is not None):
        raise ValueError(
            f"--array {name} needs --tasks" if reads_tasks else f"--array {name} takes no --tasks, got {tasks}"
        )
    if name == PRETRAINING:
        return [list(run) for run in dict.fromkeys(run for each in scales for run in each.pretraining)]
    return scales[0].members(runs, tasks, device)


def is_trained(runs, overrides: Sequence[str]) -> bool:
    """Whether the pretraining with these overrides is finished in the folder ``runs``."""
    return (_folder(runs, overrides) / DONE).exists()


def _folder(runs, overrides: Sequence[str]) -> Path:
    """The run folder, as ``submit`` names it."""
    return Path(runs) / run_name(CONFIG, overrides)


def _read_checked_config(folder: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """The configuration of a run folder, which the user may have named by hand.

    Raises:
        ValueError: its n, model or seed is not that of the overrides.
    """
    config, wanted = (
        dict[str, Any](OmegaConf.to_container(c))  # type: ignore[arg-type]
        for c in (read_config(folder), compose_config(str(CONFIG), [*overrides, "task.data=any"]))
    )
    for section, keys in (("task", ("tokens_per_sample",)), ("model", _COMPARED_MODEL_OPTIONS), ("common", ("seed",))):
        for key in keys:
            if (stored := config[section].get(key)) != wanted[section].get(key):
                raise ValueError(
                    f"{folder} must have {section}.{key} = {wanted[section].get(key)} of {' '.join(overrides)}, "
                    f"got {stored}; use another --runs"
                )
    return config


def _finished_run(folder: Path, config: Mapping[str, Any], text) -> FinishedRun:
    """
    Raises:
        ValueError: it was trained on another text.
    """
    trained_on = config["task"]["data"].split(os.pathsep)
    shards = [str(path.absolute()) for path in find_shards(text)]
    if [*map(os.path.realpath, trained_on)] != [*map(os.path.realpath, shards)]:
        raise ValueError(
            f"{folder} was trained on {os.pathsep.join(trained_on)}, not on --data {os.pathsep.join(shards)}"
        )
    return FinishedRun(folder, config["task"]["tokens_per_sample"], config["optimization"]["max_update"])


def _describe_run(config: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a run in a record."""
    n, options = config["task"]["tokens_per_sample"], config["model"]
    model = Model(n)
    if options.get("projected_dim") is not None:
        start, rate = options.get("projection_init"), options.get("projection_lr_scale")
        kind = options.get("projection") or Model.projection
        model = Model(n, int(options["projected_dim"]), options["sharing"], kind, start, rate)
    return {
        "model": {**model.describe(), "_name": options["_name"]},
        "updates": config["optimization"]["max_update"],
        "lr": config["optimization"]["lr"],
        "made": "scratch",
    }
