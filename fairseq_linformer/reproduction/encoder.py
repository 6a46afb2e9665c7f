"""Linformers converted or distilled from an encoder of ``transformers``.

FOLDER/transformer/   the encoder as a fairseq checkpoint, with dictionary and tokenizer
FOLDER/NAME/          a distilled Linformer, see ``linearization/linearize.py``
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.files import MODEL, write_model
from ..checkpoints.from_transformers import read_transformers
from ..checkpoints.transformers_encoder import hash_weights
from ..files import new_folder, read_json, write_json
from ..linearization.linearize import linearize
from ..linearization.options import SHORT_SEQ_PROB, Linearization
from .text import find_shards

TRANSFORMER, SOURCE = "transformer", "source.json"
STAGGERED, GRADED = "staggered", "graded"


@dataclass(frozen=True)
class EncoderModel:
    """The encoder itself if k is None, else a Linformer made from it.

    Attributes:
        n: its max_positions.
        start: ``--projection-init``.
    """

    n: int
    k: int | None = None
    sharing: str = "headwise"
    local_window: int = 0
    start: str = GRADED

    @property
    def label(self) -> str:
        """As in rows and tables.

        >>> EncoderModel(512).label, EncoderModel(512, 128, local_window=16).label
        ('Transformer', 'k = 128, W = 16, headwise')
        """
        window = f", W = {self.local_window}" if self.local_window else ""
        start = f", {self.start}" if self.start != GRADED else ""
        return "Transformer" if self.k is None else f"k = {self.k}{window}, {self.sharing}{start}"

    @property
    def name(self) -> str:
        """Of its folder."""
        return self.label.replace(" = ", "").replace(", ", "-").lower()

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


@dataclass(frozen=True)
class Distillation:
    """
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
    short_seq_prob: float = SHORT_SEQ_PROB
    measure_at: tuple[int, ...] = ()


def write_transformer(encoder: str | None, n: int, folder: Path) -> Path:
    """The checkpoint of an encoder in a folder, which is written unless it exists.

    Raises:
        ValueError: the folder has another encoder; or a new one has fewer than n positions.
    """
    path, weights = folder / TRANSFORMER, hash_weights(str(encoder))
    if path.exists():
        if (stored := read_json(path / SOURCE)) != weights:
            raise ValueError(f"{path} has other weights ({stored}) than --encoder {encoder}; use another --runs")
        return path / MODEL
    torch.manual_seed(1)  # of a new head of masked language modeling
    checkpoint, vocabulary = read_encoder(encoder, n)
    with new_folder(path) as new:
        write_model(new, checkpoint, vocabulary)
        write_json(new / SOURCE, weights)
    return path / MODEL


def read_encoder(encoder: str | None, n: int) -> tuple[dict[str, Any], Any]:
    """``read_transformers``; ValueError if the encoder has fewer than n positions."""
    checkpoint, vocabulary = read_transformers(str(encoder))
    if (positions := checkpoint["cfg"]["model"].max_positions) < n:
        raise ValueError(f"--encoder must have at least {n} positions, got {positions}")
    return checkpoint, vocabulary


def distill(model: EncoderModel, sizes: Distillation, text: Path | None, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Distill a Linformer from the Transformer in a folder, unless it exists; its folder and report.

    Raises:
        ValueError, KeyboardInterrupt: as ``linearize``.
    """
    options = Linearization(
        str(folder / TRANSFORMER / MODEL),
        str(find_shards(text, single=True)[0]),
        model.options,
        batch_size=sizes.batch_size,
        max_update=sizes.updates,
        lr=sizes.lr,
        short_seq_prob=sizes.short_seq_prob,
        amp=sizes.amp,
        measure_at=sizes.measure_at,
    )
    return folder / model.name, linearize(options, folder / model.name)


def describe(model: EncoderModel, sizes: Distillation) -> dict[str, Any]:
    """For the configuration of a result."""
    return {"model": asdict(model), "distillation": asdict(sizes)}
