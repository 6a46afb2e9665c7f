"""Masked LM of a pretrained Transformer with a new head, and of the Linformers converted from it.

RUNS/SCALE/models/transformer/                  the Transformer, see ``encoder_models.py``
RUNS/SCALE/encoder-perplexity/head.pt           the same with a head, trained while the encoder is frozen
RUNS/SCALE/encoder-perplexity/head.json         its options, and checksums of its inputs and weights
RUNS/SCALE/encoder-perplexity/start-MODEL-H.pt  a model with the head whose weights have the checksum H
RUNS/SCALE/encoder-perplexity/MODEL-seedS/      as in ``launching/run_folder.py``, with the perplexity of ``scoring.py``
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from ..checkpoints.files import read_checkpoint, replace_checkpoint, write_checkpoint
from ..checkpoints.roberta import from_roberta
from ..files import read_json, write_lines
from ..finetuning.initial_checkpoint import open_initial_checkpoint
from ..launching import local, run_folder
from ..launching.training_job import PATH_OPTIONS, TrainingJob, quote
from ..resources import CONFIGS
from . import scoring
from .encoder_models import EncoderModel
from .masked_head import HeadTraining, hash_head, train_head
from .scoring import FinishedRun
from .shared_work import LOCKS, Unit, lock
from .text import checksums, digest, find_only_shard

FOLDER, HEAD, LOG, CONFIG = "encoder-perplexity", "head.pt", "masked_lm.txt", CONFIGS / "pretrain" / "base.yaml"
WARMUP = 0.1
"""Share of the updates with learning rate warmup; then it decays linearly to zero."""
VALIDATIONS, VALID_BATCHES = 5, 4
"""Number of points of a validation curve, and of batches that each is measured on."""


@dataclass(frozen=True)
class Sizes:
    """
    Attributes:
        n: of the models.
        window: W of those with a local window.
        models: the Transformer first.
        head: how the head is trained.
        updates, batch_size: number of updates of each model, and blocks of n tokens per update.
        lr: peak learning rate.
        amp: train in mixed precision.
        seeds: of the runs of each model.
    """

    n: int
    window: int
    models: tuple[EncoderModel, ...]
    head: HeadTraining
    updates: int
    batch_size: int
    lr: float
    amp: bool
    seeds: tuple[int, ...]


def models_at(n: int, window: int) -> tuple[EncoderModel, ...]:
    """The Transformer; k = n / 4 with and without the window; n / 2, n / 8; and k = 1 with the window."""
    linformers = [(n // 4, window), (n // 4, 0), (n // 2, 0), (n // 8, 0), (1, window)]
    return (EncoderModel(n), *(EncoderModel(n, k, local_window=w) for k, w in linformers))


@dataclass(frozen=True)
class MaskedRuns:
    """The head, and the runs of all models.

    Attributes:
        transformer: checkpoint of the Transformer without a head.
        text: folder of ``prepare pretraining``.
        scale_folder: RUNS/SCALE.
    """

    sizes: Sizes
    transformer: Path
    text: str | Path
    scale_folder: Path

    @property
    def folder(self) -> Path:
        return self.scale_folder / FOLDER

    @property
    def head(self) -> Path:
        return self.folder / HEAD

    def units(self, models: Sequence[EncoderModel]) -> list[Unit]:
        """The head, and the runs of these models with each seed."""
        has_head = self._head_origin.is_file
        units = [Unit("head", has_head, self._write_head)]
        for model in models:
            for seed in self.sizes.seeds:
                run = partial(self._train, model, seed)
                units.append(Unit(_name(model, seed), partial(self._is_done, model, seed), run, has_head))
        return units

    def are_finished(self, model: EncoderModel) -> list[bool]:
        """Whether the run of each seed is finished."""
        return [self._is_done(model, seed) for seed in self.sizes.seeds]

    def runs(self, model: EncoderModel) -> list[FinishedRun]:
        """The run of each seed. Raises as ``check_trained``."""
        self.check_trained([model])
        return [self._run(model, seed) for seed in self.sizes.seeds]

    def write_start(self, model: EncoderModel) -> Path:
        """The Transformer with its head, or the Linformer converted from it, which is written unless it exists.

        Raises:
            ValueError: the head was trained with other options, or on another text.
        """
        start = self.folder / f"start-{model.name}-{self.head_sha256[:12]}.pt"
        # Processes that begin runs of two seeds at the same time would both write the file.
        with lock(self.folder / LOCKS / start.stem, wait=True):
            if not start.exists():
                checkpoint = read_checkpoint(self.head)
                write_checkpoint(checkpoint if model.k is None else from_roberta(checkpoint, **model.options), start)
        return start

    @property
    def head_sha256(self) -> str:
        """The checksum of the head's weights; ValueError if it was trained with other options, or on another text."""
        stored = read_json(self._head_origin) if self._head_origin.is_file() else {}
        expected = {**self._describe_head(), "weights": stored.get("weights", "none")}
        if differing := [key for key in expected if stored.get(key) != expected[key]]:
            raise ValueError(
                f"{self.head} was trained with other inputs ({differing[0]} differs); delete {self.folder}, or use "
                "another --runs"
            )
        return str(stored["weights"])

    def check_trained(self, models: Sequence[EncoderModel]) -> None:
        """Raise ValueError if a trained run had another configuration, or started from another head."""
        advice = "move it away, or use another --runs"
        for model, seed in product(models, self.sizes.seeds):
            training = self._job(model, seed)
            if not (training.folder / run_folder.DONE).exists():
                continue
            run_folder.is_new(training, PATH_OPTIONS, advice)
            started = Path(run_folder.read_config(training.folder).checkpoint.finetune_from_model).name
            if started != self.write_start(model).name:
                raise ValueError(f"{training.folder} started from another head, {started}; {advice}")

    def _run(self, model: EncoderModel, seed: int) -> FinishedRun:
        return FinishedRun(self.folder / _name(model, seed), self.sizes.n, self.sizes.updates, self.write_start(model))

    def _is_done(self, model: EncoderModel, seed: int) -> bool:
        """Whether its run is finished and scored."""
        folder = self.folder / _name(model, seed)
        return (folder / run_folder.DONE).exists() and (folder / scoring.PERPLEXITY).exists()

    def _write_head(self, until: float | None) -> None:
        """Train and write the head; ``until`` is ignored, because this takes minutes."""
        checkpoint = train_head(read_checkpoint(self.transformer), find_only_shard(self.text), self.sizes.head)
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_checkpoint(checkpoint, self.head)  # a process may have been killed before it wrote the origin
        origin = {**self._describe_head(), "weights": hash_head(checkpoint)}
        write_lines(self._head_origin, [json.dumps(origin, indent=1)])

    @property
    def _head_origin(self) -> Path:
        return self.head.with_suffix(".json")

    def _describe_head(self) -> dict[str, Any]:
        """Inputs of the head, and its checksum."""
        inputs = {"options": asdict(self.sizes.head), "text": checksums(self.text)}
        return {**inputs, "transformer": digest(self.transformer), "head": digest(self.head)}

    def _train(self, model: EncoderModel, seed: int, until: float | None) -> None:
        if local.train(self._job(model, seed), LOG, self.sizes.updates, until):
            scoring.measure_perplexity(self._run(model, seed), self.text, "cpu")

    def _job(self, model: EncoderModel, seed: int) -> TrainingJob:
        sizes, start = self.sizes, open_initial_checkpoint(self.write_start(model), self.folder)
        overrides = (
            f"common.seed={seed}",
            "common.fp16=false",
            f"common.amp={str(sizes.amp).lower()}",
            "common.log_interval=10",
            f"task.data={quote(str(find_only_shard(self.text).resolve()))}",
            f"task.tokens_per_sample={sizes.n}",
            f"checkpoint.finetune_from_model={quote(str(start.path))}",
            f"checkpoint.save_interval_updates={max(1, sizes.updates // VALIDATIONS)}",
            *start.overrides,
            f"++model.max_positions={start.max_positions}",
            "model.dropout=0.0",
            "model.attention_dropout=0.0",
            f"dataset.batch_size={sizes.batch_size}",
            f"dataset.batch_size_valid={2 * sizes.batch_size}",
            f"dataset.max_valid_steps={VALID_BATCHES}",
            "dataset.required_batch_size_multiple=1",
            "dataset.num_workers=0",
            "optimizer._name=fused_adam",
            f"lr_scheduler.warmup_updates={round(WARMUP * sizes.updates)}",
            "optimization.update_freq=[1]",
            "optimization.clip_norm=1.0",
            f"optimization.lr=[{sizes.lr!r}]",
            f"optimization.max_update={sizes.updates}",
        )
        return TrainingJob(str(CONFIG), overrides, 1, "cpu", str(self.folder.absolute()), _name(model, seed))


def _name(model: EncoderModel, seed: int) -> str:
    return f"{model.name}-seed{seed}"
