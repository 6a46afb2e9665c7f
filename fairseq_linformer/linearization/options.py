"""Options of ``linearize``, and OUT/origin.json: source, text and options, which a rerun must have again."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..config import check_values, setting
from ..data.tokenizer_files import DICTIONARY
from ..files import read_json, sha256

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
    batch_size: int = setting(16, at_least=1)
    max_update: int = setting(1000, at_least=0)
    lr: float = setting(2e-4, above=0)
    short_seq_prob: float = setting(0.5, at_least=0, below=1)
    pooled_weight: float = setting(0.0, at_least=0)
    seed: int = setting(1, at_least=0, at_most=(1 << 32) - 1)
    device: str = "cpu"
    amp: bool = False
    measure_at: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_values(Linearization, self)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device must be cpu if PyTorch sees no GPU, got cuda")


def describe_origin(options: Linearization) -> dict[str, Any]:
    """Source, checksums of the text and of a checkpoint, and options, as JSON has them."""
    source = Path(options.source)
    values = {**asdict(options), **options.model, "source": source.name if source.exists() else options.source}
    values["text"] = {name: sha256(path) for name in _TEXT_FILES if (path := Path(options.text) / name).is_file()}
    if source.is_file():
        values["source_sha256"] = sha256(source)
    del values["model"]
    described: dict[str, Any] = json.loads(json.dumps(values))
    return described


def check_origin(options: Linearization, out: Path) -> None:
    """Raise ValueError if OUT was started with another source, text or option."""
    stored, current = read_json(out / ORIGIN), describe_origin(options)
    if not Path(options.source).is_file():  # a finished OUT does not need it
        stored.pop("source_sha256", None)
    for key in sorted({*stored, *current}):
        expected, value = (each.get(key) for each in (stored, current))
        if expected != value:
            values = "" if key == "text" else f": {expected}, not {value}"
            raise ValueError(f"{out} was started with another {key}{values}; pass that one, or choose another OUT")
