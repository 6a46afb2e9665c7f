"""Linformers converted or distilled from an encoder of ``transformers``, and the folders that experiments share.

RUNS/SCALE/models/transformer/   the encoder as a fairseq checkpoint, with dictionary and tokenizer
RUNS/SCALE/models/NAME/          a Linformer, see ``linearization/linearize.py``
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.from_transformers import MODEL, read_transformers, write_model
from ..checkpoints.transformers_encoder import hash_weights
from ..files import new_folder, read_json, write_lines
from ..linearization.linearize import REPORT, RUN, linearize
from ..linearization.options import Linearization
from .shared_work import LOCKS, Unit, lock
from .text import find_only_shard

MODELS, TRANSFORMER, SOURCE = "models", "transformer", "source.json"
STAGGERED, GRADED = "staggered", "graded"


@dataclass(frozen=True)
class EncoderModel:
    """The encoder itself if k is None, else a Linformer made from it.

    Attributes:
        n: its max_positions.
        local_window: W.
        start: ``--projection-init``.
    """

    n: int
    k: int | None = None
    sharing: str = "headwise"
    local_window: int = 0
    start: str = GRADED

    @property
    def name(self) -> str:
        """Name of its folder and in records, without ``staggered``, since the first records had no other start.

        >>> EncoderModel(512).name, EncoderModel(512, 128, local_window=16).name
        ('transformer', 'k128-headwise-w16-graded')
        """
        window = f"-w{self.local_window}" if self.local_window else ""
        start = f"-{self.start}" if self.start != STAGGERED else ""
        return TRANSFORMER if self.k is None else f"k{self.k}-{self.sharing}{window}{start}"

    @property
    def label(self) -> str:
        """As in tables and verdicts: the start is named unless it is ``graded``, the default of conversions.

        >>> EncoderModel(512).label, EncoderModel(512, 128, local_window=16).label
        ('Transformer', 'k = 128, W = 16, headwise')
        """
        window = f", W = {self.local_window}" if self.local_window else ""
        start = f", {self.start}" if self.start != GRADED else ""
        return "Transformer" if self.k is None else f"k = {self.k}{window}, {self.sharing}{start}"

    @property
    def options(self) -> dict[str, Any]:
        """Options of the Linformer, as for ``from_roberta``."""
        return {
            "max_positions": self.n,
            "projected_dim": self.k,
            "sharing": self.sharing,
            "local_window": self.local_window,
            "projection_init": self.start,
        }

    def describe(self) -> dict[str, Any]:
        """The model for a record; a staggered one has no ``start``, as in all records before 2026-11-25."""
        described = asdict(self)
        if self.k is None or self.start == STAGGERED:
            del described["start"]
        return described


@dataclass(frozen=True)
class Distillation:
    """Sizes of the distillation of each Linformer.

    Attributes:
        updates, batch_size: number of updates, and blocks of n tokens per update.
        lr: peak learning rate.
        amp: train in mixed precision.
        short_seq_prob: probability that a batch is split into shorter blocks.
        measure_at: updates after which the share of variance is measured too.
    """

    updates: int
    batch_size: int
    lr: float
    amp: bool
    short_seq_prob: float = 0.0
    measure_at: tuple[int, ...] = ()


def write_transformer(encoder: str, n: int, folder: Path) -> Path:
    """Convert the encoder to FOLDER/models/transformer, unless it exists; returns its checkpoint.

    Raises:
        ValueError: as ``read_transformers``; the folder has another encoder; or a new one has fewer than n positions.
    """
    path, weights = folder / MODELS / TRANSFORMER, hash_weights(encoder)
    with lock(folder / LOCKS / TRANSFORMER, wait=True):
        if path.exists():
            if (stored := read_json(path / SOURCE)) != weights:
                raise ValueError(f"{path} has other weights ({stored}) than --encoder {encoder}; use another --runs")
            return path / MODEL
        torch.manual_seed(1)  # of a new head of masked language modeling
        checkpoint, vocabulary = read_transformers(encoder)
        check_encoder_positions(checkpoint, n)
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_folder(path) as new:
            write_model(new, checkpoint, vocabulary)
            write_lines(new / SOURCE, [json.dumps(weights)])
    return path / MODEL


def check_encoder_positions(checkpoint: dict[str, Any], n: int) -> None:
    """Raise ValueError if an encoder of ``read_transformers`` has fewer than n positions."""
    if (positions := checkpoint["cfg"]["model"].max_positions) < n:
        raise ValueError(f"--encoder must have at least {n} positions, got {positions}")


@dataclass(frozen=True)
class DistilledModel:
    """A Linformer that is or will be distilled.

    Attributes:
        text: folder of ``prepare pretraining``.
        folder: FOLDER, with the Transformer.
    """

    model: EncoderModel
    sizes: Distillation
    text: Any
    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / MODELS / self.model.name

    @property
    def run(self) -> Path:
        """The run folder of the distillation."""
        return self.out / RUN

    @property
    def unit(self) -> Unit:
        """The distillation."""
        name, is_done = f"distill-{self.model.name}", (self.out / REPORT).is_file
        return Unit(name, is_done, self._linearize)

    def report(self) -> dict[str, Any]:
        """The report of a finished distillation; ValueError if it had other options, or another text."""
        report = self._linearize(None)
        assert report is not None
        return report

    def _linearize(self, until: float | None) -> dict[str, Any] | None:
        options = Linearization(
            str(self.folder / MODELS / TRANSFORMER / MODEL),
            str(find_only_shard(self.text)),
            self.model.options,
            batch_size=self.sizes.batch_size,
            max_update=self.sizes.updates,
            lr=self.sizes.lr,
            short_seq_prob=self.sizes.short_seq_prob,
            amp=self.sizes.amp,
            measure_at=self.sizes.measure_at,
        )
        return linearize(options, self.out, until)


def plan(sizes: Distillation, text_checksums: dict[str, str]) -> dict[str, Any]:
    """What the distilled models depend on, for records; ``short_seq_prob`` is omitted if 0, as in all records before
    2026-11-25."""
    values = {name: value for name, value in asdict(sizes).items() if name != "measure_at"}
    if not sizes.short_seq_prob:
        del values["short_seq_prob"]
    return {**values, "text": text_checksums}
