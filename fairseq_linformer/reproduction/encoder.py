"""An encoder of ``transformers``, and Linformers distilled from it.

FOLDER/starts/NAME-CHECKSUM/            of one encoder:
FOLDER/starts/NAME-CHECKSUM/model.pt    the encoder as a fairseq checkpoint, with dictionary and tokenizer
FOLDER/starts/NAME-CHECKSUM/MODEL/      a distilled Linformer, see ``training/linearize.py``
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.identify import identify
from ..training.initial_checkpoint import open_initial_checkpoint
from ..training.linearize import Linearization, linearize
from .result import find_shards
from .run import Model


def open_encoder(encoder: str, n: int, folder: Path) -> Path:
    """The checkpoint of an encoder, converted unless it is in the folder; ValueError if it has fewer than n
    positions."""
    torch.manual_seed(1)  # of a new head of masked language modeling
    start = open_initial_checkpoint(identify(encoder), folder)
    if start.max_positions < n:
        raise ValueError(f"--encoder must have at least {n} positions, got {start.max_positions}")
    return start.path


def distill(model: Model, training: Mapping[str, Any], text: Path, encoder: Path) -> tuple[Path, dict[str, Any]]:
    """Distill a Linformer from the checkpoint of an encoder, unless it is next to it; its folder and report.

    Args:
        training: options of ``Linearization``.
    """
    shard, out = find_shards(text, single=True)[0], encoder.parent / model.name
    return out, linearize(Linearization(str(encoder), str(shard), model.options, **training), out)
