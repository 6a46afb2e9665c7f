"""Linformers converted or distilled from an encoder of ``transformers``.

FOLDER/transformer/   the encoder as a fairseq checkpoint, with dictionary and tokenizer
FOLDER/MODEL/         a distilled Linformer, see ``linearization/linearize.py``
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.files import MODEL, write_model
from ..checkpoints.from_transformers import read_transformers
from ..checkpoints.transformers_encoder import hash_weights
from ..files import new_folder, read_json, write_json
from ..linearization.linearize import linearize
from ..linearization.options import Linearization
from .run import GRADED, Model
from .text import find_shards

TRANSFORMER, SOURCE = "transformer", "source.json"
EncoderModel = partial(Model, start=GRADED)
"""The encoder itself if k is None, else a Linformer made from it; graded windows are the default of conversions."""


def write_transformer(encoder: str | None, n: int, folder: Path) -> Path:
    """The checkpoint of an encoder in a folder, which is written unless it exists; ValueError if that is of another
    encoder."""
    path, weights = folder / TRANSFORMER, hash_weights(str(encoder))
    if path.exists():
        if (stored := read_json(path / SOURCE)) != weights:
            raise ValueError(f"{path} has other weights ({stored}) than --encoder {encoder}; use another --runs")
        return path / MODEL
    checkpoint, vocabulary = read_encoder(encoder, n)
    with new_folder(path) as new:
        write_model(new, checkpoint, vocabulary)
        write_json(new / SOURCE, weights)
    return path / MODEL


def read_encoder(encoder: str | None, n: int) -> tuple[dict[str, Any], Any]:
    """``read_transformers``; ValueError if the encoder has fewer than n positions."""
    torch.manual_seed(1)  # of a new head of masked language modeling
    checkpoint, vocabulary = read_transformers(str(encoder))
    if (positions := checkpoint["cfg"]["model"].max_positions) < n:
        raise ValueError(f"--encoder must have at least {n} positions, got {positions}")
    return checkpoint, vocabulary


def distill(model: Model, training: Mapping[str, Any], text: Path | None, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Distill a Linformer from the Transformer in a folder, unless it exists; its folder and report.

    Args:
        training: options of ``Linearization``.
    """
    transformer, shard = folder / TRANSFORMER / MODEL, find_shards(text, single=True)[0]
    options = Linearization(str(transformer), str(shard), model.options, **training)
    return folder / model.name, linearize(options, folder / model.name)
