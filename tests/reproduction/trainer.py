"""A stand-in for training: it leaves what a training leaves, at once. Fixtures are imported from here."""

import json
import shutil
import time
from argparse import Namespace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.models.roberta import RobertaModel
from omegaconf import OmegaConf

from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.checkpoints.models import build_model
from fairseq_linformer.evaluation.perplexity import Perplexity
from fairseq_linformer.launching import run_folder
from fairseq_linformer.launching.training_job import _REQUIRED
from fairseq_linformer.models import LinformerRobertaModel
from fairseq_linformer.models.stub_task import StubTask
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.resources import PLUGIN

from .. import fairseq_commands

ROBERTA, CONTINUED = "roberta-n16-scratch/seed1", "roberta-n16-continued/seed1"
LINFORMER = "linformer-n16-k8-headwise-default"
ORDER = [
    ROBERTA,
    CONTINUED,
    f"{LINFORMER}-converted/seed1",
    f"{LINFORMER}-scratch/seed1",
    f"{LINFORMER}-continued/seed1",
]
"""Runs of warm-start at the smoke scale, in the order of training."""
SECONDS = 10.0
"""That every training takes."""
HARDWARE, VERSIONS, DATE = {"processor": "slow one", "cores": 2}, {"torch": "1.2.3"}, "2024-05-06"


def compose_quickly(config, overrides=()):
    """``compose_config`` without hydra: the file and the overrides alone, no defaults."""
    return _composed(str(config), tuple(overrides))


@cache
def _composed(config: str, overrides: tuple[str, ...]):
    cfg = OmegaConf.create(_container(config))
    options = {**_REQUIRED, **dict(override.split("=", 1) for override in overrides)}
    for key, value in {"common.user_dir": str(PLUGIN), **options}.items():
        OmegaConf.update(cfg, key.lstrip("+"), _parsed(value), force_add=True)
    return cfg


@cache
def _container(path: str):
    return OmegaConf.to_container(OmegaConf.load(path))


def _parsed(value):
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value.strip("'")


class Trainer:
    """Takes the place of ``launching.local.train``.

    Attributes:
        trained: names of the trainings, in turn.
        before: called with the training before each.
        now: its clock, in seconds; a training takes ``SECONDS``.
        notices: it looks at the clock; else every training that begins is finished.
        commits: by a part of the name.
    """

    def __init__(self):
        self.trained, self.now, self.notices, self.commits = [], 0.0, True, {}
        self.before = lambda job: None

    def monotonic(self) -> float:
        return self.now

    def __call__(self, job, log, updates, until=None) -> bool:
        if (job.folder / run_folder.DONE).exists():
            return True
        self.before(job)
        run_folder.create_or_resume(job)
        self.trained.append(job.name)
        if self.notices and until is not None and self.now >= until:
            (job.folder / run_folder.STOPPED).touch()
            return False
        self.now += SECONDS
        finish(job.folder, job.cfg, updates, next((c for part, c in self.commits.items() if part in job.name), "abc"))
        return True


def finish(folder: Path, cfg, updates: int, commit: str = "abc") -> None:
    """Fill a run folder that has its configuration."""
    start, seed = cfg.checkpoint.finetune_from_model, cfg.common.seed
    options: Any = OmegaConf.to_container(cfg.model, resolve=True, enum_to_str=True)
    taken = SECONDS
    if start is None:
        words = len(Path(cfg.task.data.split(":")[0], "dict.txt").read_text().splitlines()) + 5
        build = RobertaModel if cfg.model._name == "roberta" else LinformerRobertaModel
        torch.manual_seed(seed)
        model = build.build_model(Namespace(**options), StubTask(words, cfg.task.tokens_per_sample)).state_dict()
    else:
        before = read_checkpoint(start)
        taken += before["extra_state"]["previous_training_time"]
        model, generator = build_model(before), torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
        model = model.state_dict()
    cfg = OmegaConf.to_container(cfg, enum_to_str=True, resolve=True)
    extra = {"previous_training_time": taken}
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir(exist_ok=True, parents=True)
    torch.save(
        {"cfg": cfg, "model": model, "optimizer_history": [{"num_updates": updates}], "extra_state": extra},
        checkpoints / "checkpoint_last.pt",
    )
    every = cfg["checkpoint"]["save_interval_updates"]
    points = [u for u in range(1, updates + 1) if u % every == 0 or u == updates]
    (folder / "logs").mkdir(exist_ok=True)
    log(folder, [(update, 9 - update / 10) for update in points])
    attempt = {"commit": commit, "hardware": HARDWARE, "versions": VERSIONS, "date": DATE, "processes": 1}
    (folder / "attempts.jsonl").write_text(json.dumps(attempt) + "\n")
    (folder / "done").touch()


def log(folder: Path, points, name: str = "reproduce.txt") -> Path:
    """Write fairseq's lines of a validation curve."""
    lines = [{"epoch": 1, "valid_loss": f"{loss}", "valid_num_updates": f"{update}"} for update, loss in points]
    path = folder / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"2024-01-01 | INFO | valid | {json.dumps(line)}\n" for line in lines))
    return path


@pytest.fixture
def trainer(monkeypatch):
    """Nothing is trained: a ``Trainer`` finishes every run at once, and its clock is that of the time budget."""
    trainer = Trainer()
    monkeypatch.setattr("fairseq_linformer.launching.local.train", trainer)
    monkeypatch.setattr("fairseq_linformer.launching.training_job.compose_config", compose_quickly)
    for module in ("inputs", "experiments.figure_1"):
        clock = Namespace(**{**vars(time), "monotonic": trainer.monotonic})
        monkeypatch.setattr(f"fairseq_linformer.reproduction.{module}.time", clock)
    return trainer


class Scores:
    """Takes the place of ``evaluation.perplexity``.

    Attributes:
        bits: by a part of the checkpoint's path; 3 for others.
        scored: paths of the checkpoints, in turn.
    """

    def __init__(self):
        self.bits, self.scored = {}, []

    def __call__(self, checkpoint, data, seed, device) -> Perplexity:
        self.scored.append(checkpoint)
        bits = next((bits for part, bits in self.bits.items() if part in str(checkpoint)), 3.0)
        return Perplexity(2**bits, bits, accuracy=0.5, masked=4, tokens=32, positions=16, seconds=0.1)


@pytest.fixture
def scores(monkeypatch):
    """No checkpoint is scored."""
    scores = Scores()
    monkeypatch.setattr("fairseq_linformer.reproduction.scoring.compute_perplexity", scores)
    return scores


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A prepared text of one shard, with its manifest."""
    folder = tmp_path_factory.mktemp("prepared") / "text"
    fairseq_commands.masked_lm_data(folder / "shard0")
    source = {"files": [{"path": "/corpora/wiki/train.txt", "sha256": 64 * "e"}]}
    (folder / "manifest.json").write_text(json.dumps({"sources": [source]}))
    return folder


@pytest.fixture
def copied_text(text, tmp_path):
    return Path(shutil.copytree(text, tmp_path / "text"))


@pytest.fixture
def two_shards(copied_text):
    """A text of two shards, of which the first has the dictionary and the validation split that are read."""
    shutil.copytree(copied_text / "shard0", copied_text / "shard1")
    return copied_text


@pytest.fixture(scope="session")
def finished_runs(tmp_path_factory, text):
    """Runs of warm-start at the smoke scale, and their record: two from scratch, and three that start from these."""
    folder = tmp_path_factory.mktemp("finished") / "runs"
    with pytest.MonkeyPatch.context() as patches:
        trainer = Trainer()
        patches.setattr("fairseq_linformer.launching.local.train", trainer)
        patches.setattr("fairseq_linformer.launching.training_job.compose_config", compose_quickly)
        trainer.commits = {"k8": "def"}
        (record,) = find("warm-start").measure("smoke", Inputs(folder, text), "the command")
    return folder, record


@pytest.fixture
def runs(finished_runs, tmp_path):
    return Path(shutil.copytree(finished_runs[0], tmp_path / "runs"))


@pytest.fixture
def warm_start():
    return find("warm-start")


@pytest.fixture
def measure(trainer, scores, text, tmp_path, warm_start):
    """The record of warm-start in ``tmp_path / "runs"``."""

    def measure(minutes=None, text=text):
        (record,) = warm_start.measure("smoke", Inputs(tmp_path / "runs", text, minutes=minutes), "the command")
        return record

    return measure
