"""Training runs in their folders.

RUNS/SCALE/NAME/seedS/              a run folder of ``launching``
RUNS/SCALE/NAME/seedS/.origin.json  its inputs: plans of the run and its predecessors, text, initial checkpoint
RUNS/SCALE/starts/NAME/seedS.pt     its initial checkpoint, if it was grown or converted
"""

import json
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.files import read_checkpoint, write_checkpoint
from ..checkpoints.resize import resize
from ..files import open_atomic, read_json
from ..launching import local, run_folder
from ..launching.checkpoints import LAST
from ..launching.training_job import PATH_OPTIONS, TrainingJob, quote
from ..machine import DIRTY
from . import scoring
from .experiment import Unfinished
from .runs import CONFIG, Run, convert, fill_defaults
from .scales import VALID_BATCHES, Scale
from .scoring import FinishedRun
from .shared_work import Unit, describe_unfinished, work_through
from .text import checksums, describe_text, digest, find_shards
from .training_options import pack, training_options

LOG, ORIGIN = "reproduce.txt", ".origin.json"
WORKERS = 4
"""Processes that mask the text for a run on a GPU. On an AMD EPYC core one masks 0.1 (n = 32) to 1.1 (n = 512) million
tokens per second."""


class RunFolder:
    """A run in its folder.

    Args:
        runs: folder of the runs of a scale.
        text: folder written by ``prepare pretraining``.
    """

    def __init__(self, run: Run, scale: Scale, runs: Path, text):
        self.run, self.scale, self.runs, self.text = run, scale, Path(runs).absolute(), text

    @property
    def path(self) -> Path:
        return self.runs / self.run.name

    @property
    def last_checkpoint(self) -> Path:
        """Its last checkpoint."""
        return self.path / run_folder.CHECKPOINTS / LAST

    @property
    def is_done(self) -> bool:
        return (self.path / run_folder.DONE).exists()

    @property
    def _is_configured(self) -> bool:
        return (self.path / run_folder.CONFIG).exists()

    @property
    def predecessor(self) -> "RunFolder | None":
        run = self.run.predecessor
        return None if run is None else RunFolder(run, self.scale, self.runs, self.text)

    @property
    def initial_checkpoint(self) -> Path | None:
        """The checkpoint that it starts from, which may not exist yet; None if it starts from scratch."""
        predecessor = self.predecessor
        if predecessor is None:
            return None
        if self.run.model == predecessor.run.model:
            return predecessor.last_checkpoint
        return self.runs / "starts" / f"{self.run.name}.pt"

    def training(self) -> TrainingJob:
        """Its configuration."""
        run, scale, start = self.run, self.scale, self.initial_checkpoint
        data = ":".join(str(path.resolve()) for path in find_shards(self.text))
        warmup = scale.warmup if run.predecessor is None else min(scale.warmup, run.updates // 10)
        overrides = (
            f"common.seed={run.seed}",
            f"common.log_interval={min(100, scale.validate)}",
            "common.fp16=false",
            f"common.bf16={str(scale.precision == 'bf16').lower()}",
            f"task.data={quote(data)}",
            f"task.tokens_per_sample={run.model.n}",
            f"checkpoint.finetune_from_model={'null' if start is None else quote(str(start))}",
            f"checkpoint.save_interval_updates={scale.validate}",
            f"dataset.batch_size={scale.tokens // run.model.n}",
            f"dataset.batch_size_valid={2 * scale.tokens // run.model.n}",
            f"dataset.max_valid_steps={VALID_BATCHES}",
            "dataset.required_batch_size_multiple=1",
            f"dataset.num_workers={0 if scale.device == 'cpu' else WORKERS}",
            "dataset.data_buffer_size=0",
            f"lr_scheduler._name={'polynomial_decay' if run.decays else 'fixed'}",
            f"lr_scheduler.warmup_updates={warmup}",
            f"optimization.lr=[{scale.lr!r}]",
            f"optimization.max_update={run.updates}",
            "optimization.update_freq=[1]",
            "optimization.clip_norm=1.0",
            *self._model_options(),
        )
        return TrainingJob(str(CONFIG), overrides, 1, scale.device, str(self.runs), run.name)

    def _model_options(self) -> list[str]:
        model, scale = self.run.model, self.scale
        options: dict[str, Any] = {
            "encoder_layers": scale.layers,
            "encoder_embed_dim": scale.width,
            "encoder_ffn_embed_dim": 4 * scale.width,
            "encoder_attention_heads": scale.heads,
            "encoder_normalize_before": "true",
            "dropout": 0.0,
            "attention_dropout": 0.0,
        }
        if model.k is None:
            options |= {"_name": "roberta", "projected_dim": "null", "sharing": "null"}
        else:
            options |= {"_name": "linformer_roberta", "projected_dim": model.k, "sharing": model.sharing}
            options |= {"projection": model.projection}
            options |= {} if model.start is None else {"projection_init": model.start}
            options |= {} if model.rate is None else {"projection_lr_scale": model.rate}
            options |= {"local_window": model.local_window} if model.local_window else {}
            options |= {"window_sizes": model.window_sizes} if model.window_sizes else {}
        return [f"++model.{key}={value}" for key, value in options.items()]

    def write_initial_checkpoint(self) -> None:
        """Write ``initial_checkpoint`` by growing or converting the last checkpoint of the predecessor, unless it and a
        checkpoint of the run exist."""
        run, predecessor, start = self.run, self.predecessor, self.initial_checkpoint
        if predecessor is None or start is None or run.model == predecessor.run.model:
            return
        if start.exists() and self.last_checkpoint.exists():
            return
        last = read_checkpoint(predecessor.last_checkpoint)
        new = resize(last, run.model.n) if run.made.startswith("grown") else convert(last, run.model, run.seed)
        start.parent.mkdir(parents=True, exist_ok=True)
        start.unlink(missing_ok=True)  # left by a run that was moved away, or stopped before its first checkpoint
        write_checkpoint(new, start)

    def describe_inputs(self) -> dict[str, Any]:
        """Its inputs besides the configuration: plan, and checksums of the text and of the initial checkpoint."""
        start = None if self.predecessor is None else digest(self.predecessor.last_checkpoint)
        return json.loads(json.dumps({"plan": self.run.plan(), "text": checksums(self.text), "start": start}))

    def check(self) -> None:
        """Check the folder before anything is trained.

        Raises:
            ValueError: it has a different configuration or inputs.
        """
        if self.initial_checkpoint is None or self.initial_checkpoint.exists():
            self._check_configuration()
        self.check_inputs()

    def _check_configuration(self) -> None:
        # The inputs of a finished run may have moved: its origin has the checksums of the text and of the checkpoint.
        advice = "move it away" + ", restore its inputs" * (not self.is_done) + ", or use another --runs"
        run_folder.is_new(self.training(), PATH_OPTIONS if self.is_done else (), advice)

    def check_inputs(self) -> None:
        """
        Raises:
            ValueError: the run was started with different inputs.
        """
        if not self._is_configured:
            return
        try:
            stored = read_json(self.path / ORIGIN)
            stored["plan"], stored["text"], stored["start"]
            stored["plan"] = fill_defaults(stored["plan"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(
                f"{self.path / ORIGIN}, which has the inputs of the run, is missing or damaged; "
                f"move {self.path} away and rerun the command to train it again"
            ) from None
        if (predecessor := self.predecessor) is not None and not predecessor.is_done:
            raise ValueError(
                f"{self.path} was started, but its predecessor {predecessor.path} is not finished; "
                f"move {self.path} away and rerun the command to train it again"
            )
        for key, current in self.describe_inputs().items():
            if stored[key] != current:
                raise ValueError(f"{self.path} was trained with a different {key}; move it away, or use another --runs")

    def train(self, until: float | None) -> bool:
        """Train, or resume.

        Args:
            until: value of ``time.monotonic()`` at which to stop; None for no limit.

        Returns:
            Whether training is complete.

        Raises:
            ValueError: the folder has a different configuration, or training failed; the message names its log.
            KeyboardInterrupt: this process was stopped; the same call resumes.
        """
        self.write_initial_checkpoint()
        self._check_configuration()
        if not self._is_configured:
            # Replaces the origin of a run on another text that was stopped before its first update.
            with open_atomic(self.path / ORIGIN) as file:
                json.dump(self.describe_inputs(), file, indent=1)
        return local.train(self.training(), LOG, self.run.updates, until)


def finished_run(folder: RunFolder) -> FinishedRun:
    """The finished run in a folder."""
    return FinishedRun(folder.path, folder.run.model.n, folder.run.updates, folder.initial_checkpoint)


def training_of(folders: Sequence[RunFolder]) -> dict[str, Any]:
    """The options of runs, for a record: of one seed, by the name of the run."""
    jobs = {folder.run.name.rpartition("/")[0]: folder.training() for folder in reversed(folders)}
    return pack({name: _options(job) for name, job in reversed(jobs.items())})


@cache
def _options(job: TrainingJob) -> dict[str, Any]:
    """The training options of a job, cached because composing a configuration takes a third of a second."""
    return training_options(job.requested_cfg)


def check_folders(folders: Sequence[RunFolder], text) -> None:
    """Check device, text and run folders before anything is trained.

    Raises:
        ValueError: there is no GPU, the text is damaged, or a run folder has other inputs or is damaged.
    """
    if folders and folders[0].scale.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--scale gpu needs a GPU, but PyTorch finds none")
    describe_text(text)  # reads its manifest
    for folder in folders:
        folder.check()
        if folder.is_done:
            scoring.check_finished_run(finished_run(folder), text)


def check_clean_runs(folders: Sequence[RunFolder], scale: str) -> None:
    """Check, before other runs are trained, that finished ones have the clean commits that their record needs.

    Raises:
        ValueError: one was trained with uncommitted changes, above the scale ``smoke``.
    """
    for folder in folders if scale != "smoke" else ():
        if folder.is_done and DIRTY in (commit := scoring.provenance([folder.path])["commit"]):
            raise ValueError(
                f"{folder.path} needs a clean commit at scale {scale}, got {commit}; move it away or use another --runs"
            )


def train(folders: Sequence[RunFolder], what: str, until: float | None) -> None:
    """Train the unfinished runs, each after its predecessor. Several processes share them: start the same command once
    per core, or several times on a GPU. At least one run makes an update, so that reruns make progress.

    Raises:
        Unfinished: the time budget is spent, or other processes are training the rest.
        ValueError: a training failed.
    """
    for folder in folders:
        if folder.initial_checkpoint is not None and folder.is_done and not folder.initial_checkpoint.exists():
            folder.write_initial_checkpoint()  # it was removed; the record needs the training time stored in it
    units = [
        Unit(each.run.name, partial(_is_done, each), each.train, partial(_is_done, each.predecessor))
        for each in folders
    ]
    if units and (left := work_through(units, folders[0].runs, until)):
        raise Unfinished(f"{what}: {describe_unfinished(left, units)}")


def _is_done(folder: RunFolder | None) -> bool:
    return folder is None or folder.is_done
