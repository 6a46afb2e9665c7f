"""Linformers distilled from an encoder of ``transformers``, which the experiments of the scale ``encoder`` share.

RUNS/SCALE/models/transformer/   the encoder as a fairseq checkpoint, with dictionary and tokenizer
RUNS/SCALE/models/NAME/          a Linformer, see ``linearization/linearize.py``
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..checkpoints.from_transformers import MODEL, read_transformers, write_model
from ..checkpoints.transformers_encoder import hash_weights
from ..files import new_folder, read_json, write_lines
from ..linearization.linearize import Linearization, linearize
from .registry import Unfinished, is_past
from .text import find_shards

MODELS, TRANSFORMER, SOURCE = "models", "transformer", "source.json"


@dataclass(frozen=True)
class EncoderModel:
    """The encoder itself if k is None, else a Linformer distilled from it.

    Attributes:
        n: max_positions of the distillation.
        local_window: W.
    """

    n: int
    k: int | None = None
    sharing: str = "headwise"
    local_window: int = 0

    @property
    def name(self) -> str:
        """
        >>> EncoderModel(512).name, EncoderModel(512, 128, local_window=16).name
        ('transformer', 'k128-headwise-w16')
        """
        window = f"-w{self.local_window}" if self.local_window else ""
        return TRANSFORMER if self.k is None else f"k{self.k}-{self.sharing}{window}"

    @property
    def options(self) -> dict[str, Any]:
        """Options of the Linformer, as for ``from_roberta``."""
        return {
            "max_positions": self.n,
            "projected_dim": self.k,
            "sharing": self.sharing,
            "local_window": self.local_window,
        }


@dataclass(frozen=True)
class Distillation:
    """Sizes of the distillation of each Linformer.

    Attributes:
        updates, batch_size: number of updates, and blocks of n tokens per update.
        lr: peak learning rate.
        amp: train in mixed precision.
    """

    updates: int
    batch_size: int
    lr: float
    amp: bool


def write_transformer(encoder: str, n: int, folder: Path) -> Path:
    """Convert the encoder to RUNS/SCALE/models/transformer, unless it exists; returns its checkpoint.

    Raises:
        ValueError: as ``read_transformers``; the folder has another encoder; or the encoder has fewer than n positions.
    """
    path, weights = folder / MODELS / TRANSFORMER, hash_weights(encoder)
    if path.exists():
        if (stored := read_json(path / SOURCE)) != weights:
            raise ValueError(f"{path} has other weights ({stored}) than --encoder {encoder}; use another --runs")
        return path / MODEL
    checkpoint, vocabulary = read_transformers(encoder)
    if (positions := checkpoint["cfg"]["model"].max_positions) < n:
        raise ValueError(f"--encoder must have at least {n} positions, got {positions}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_folder(path) as new:
        write_model(new, checkpoint, vocabulary)
        write_lines(new / SOURCE, [f'"{weights}"'])
    return path / MODEL


def distill(
    models: Sequence[EncoderModel], sizes: Distillation, text, folder: Path, until: float | None
) -> dict[str, dict[str, Any]]:
    """Distill each Linformer that is not distilled yet.

    Args:
        folder: RUNS/SCALE, with the Transformer.
        until: value of ``time.monotonic()`` at which to stop.

    Returns:
        The report of ``linearize`` by the model's name.

    Raises:
        Unfinished: the time budget is spent.
        ValueError: as ``linearize``.
    """
    reports = {}
    linformers = [model for model in models if model.k is not None]
    for i, model in enumerate(linformers):
        out = folder / MODELS / model.name
        is_done = (out / MODEL).is_file()
        if not is_done:
            print(f"distilling {i + 1} of {len(linformers)}: {model.name}", file=sys.stderr)
        report = None
        if is_done or not is_past(until):
            report = linearize(describe_distillation(model, sizes, text, folder), out, until)
        if report is None:
            raise Unfinished(
                f"the time budget is spent; {len(linformers) - i} of {len(linformers)} models are left to distill, "
                f"{model.name} first; rerun the command to resume"
            )
        reports[model.name] = report
    return reports


def describe_distillation(model: EncoderModel, sizes: Distillation, text, folder: Path) -> Linearization:
    source = folder / MODELS / TRANSFORMER / MODEL
    return Linearization(
        str(source),
        str(find_shards(text)[0]),
        model.options,
        batch_size=sizes.batch_size,
        max_update=sizes.updates,
        lr=sizes.lr,
        amp=sizes.amp,
    )


def plan(sizes: Distillation, text_checksums: dict[str, str]) -> dict[str, Any]:
    """What the distilled models depend on, for records."""
    return {**asdict(sizes), "text": text_checksums}
