"""Options of ``linearize``, and OUT/origin.json: source, text and options, which a rerun must have again."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.to_linformer import converted_init
from ..data.tokenizer_files import DICTIONARY
from ..files import read_json, sha256

SHORT_SEQ_PROB = 0.5
"""Default probability that a batch is split into shorter blocks."""
ORIGIN = "origin.json"
_TEXT_FILES = (DICTIONARY, "train.idx", "valid.idx")
"""Files of a text that identify it: small ones, with the length of every sentence."""


@dataclass(frozen=True)
class Linearization:
    """Options of ``linearize``: source, text, Linformer and training.

    Attributes:
        source: name on the hub, folder of ``transformers``, or fairseq checkpoint of a RoBERTa.
        text: data folder of ``prepare pretraining`` (``dict.txt``, train and valid), with the source's tokenizer.
        model: options of the Linformer, as for ``to_linformer``.
        tokens_per_sample: tokens per block; None for the model's n.
        batch_size: blocks per update.
        max_update: number of updates; 0 converts without training.
        lr: peak learning rate; it decays linearly to 0.
        short_seq_prob: probability that a batch is split into shorter blocks, see ``models/distillation.py``.
        pooled_weight: weight of the pooled features' cosine, next to the hidden states.
        seed: seed of new parameters and of the order of the blocks.
        device: ``cpu`` or ``cuda``.
        amp: train in mixed precision, with bf16 on a CPU and fp16 on a GPU.
        measure_at: updates after which the explained variance is measured too, ascending multiples of the first; a
            checkpoint is kept at each multiple and at the end of each epoch.
    """

    source: str
    text: str
    model: dict[str, Any]
    tokens_per_sample: int | None = None
    batch_size: int = 16
    max_update: int = 1000
    lr: float = 2e-4
    short_seq_prob: float = SHORT_SEQ_PROB
    pooled_weight: float = 0.0
    seed: int = 1
    device: str = "cpu"
    amp: bool = False
    measure_at: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, is_allowed, allowed in (
            ("batch_size", self.batch_size >= 1, "at least 1"),
            ("max_update", self.max_update >= 0, "at least 0"),
            ("lr", 0 < self.lr < float("inf"), "a finite number above 0"),
            ("short_seq_prob", 0 <= self.short_seq_prob < 1, "in [0, 1)"),
            ("pooled_weight", 0 <= self.pooled_weight < float("inf"), "a finite number of at least 0"),
            ("seed", 0 <= self.seed < 1 << 32, f"between 0 and {(1 << 32) - 1}"),
            ("device", self.device == "cpu" or torch.cuda.is_available(), "cpu if PyTorch sees no GPU"),
        ):
            if not is_allowed:
                raise ValueError(f"{name} must be {allowed}, got {getattr(self, name)}")

    def describe(self) -> dict[str, Any]:
        """The options as JSON has them, without source and text."""
        values = {key: value for key, value in asdict(self).items() if key not in ("source", "text")}
        model = {key: value for key, value in self.model.items() if key != "projection_init"}
        values |= {"model": model, "projection_init": converted_init(self.model)}
        described: dict[str, Any] = json.loads(json.dumps(values))
        return described


def name_source(options: Linearization) -> str:
    """The name of a file or folder, or the full name of a model on the hub."""
    return Path(options.source).name if Path(options.source).exists() else options.source


def describe_origin(options: Linearization) -> dict[str, Any]:
    """Source, checksums of the text and of a checkpoint, and options."""
    source = Path(options.source)
    checksum = {"source_sha256": sha256(source)} if source.is_file() else {}
    text = {name: sha256(path) for name in _TEXT_FILES if (path := Path(options.text) / name).is_file()}
    return {"source": name_source(options), **checksum, "text": text, **options.describe()}


def check_origin(options: Linearization, out: Path) -> None:
    """Raise ValueError if OUT was started with another source, text or option."""
    stored, current = (
        {**origin.pop("model"), **origin} for origin in (read_json(out / ORIGIN), describe_origin(options))
    )
    if not Path(options.source).is_file():  # a finished OUT does not need it
        stored.pop("source_sha256", None)
    for key in ("max_update", *sorted({*stored, *current})):  # it changes which others have an effect
        expected, value = (each.get(key) for each in (stored, current))
        if expected != value:
            values = "" if key == "text" else f": {expected}, not {value}"
            raise ValueError(f"{out} was started with another {key}{values}; pass that one, or choose another OUT")
