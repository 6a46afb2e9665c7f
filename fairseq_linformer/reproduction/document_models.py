"""Ways to read a document that is longer than a pretrained encoder, as checkpoints, and their speed.

n tokens of a document; pieces of p tokens, the longest input of the encoder
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..benchmark.timing import choose_clock, time_interleaved
from ..checkpoints.files import get_cfg_section, read_checkpoint, replace_model, write_checkpoint
from ..checkpoints.to_linformer import resize, to_linformer
from ..data.tasks import TRUNCATIONS
from ..data.truncation import truncate
from ..models.state_dicts import max_positions, upgrade_names
from .run import Model

HEAD, ENDS = TRUNCATIONS
"""Ways to truncate a document."""
PIECES, NEAREST, HALVES = "pieces", "nearest piece", "half pieces"
"""Ways to cut a document: into pieces of p tokens, of which a classifier averages the logits, and an embedding model
the vectors; the one nearest to the query; pieces of p / 2 tokens."""
ONNX, INT8 = ", ONNX", ", int8"
"""Ends of the names of graphs, which ``onnxruntime`` runs; of one with weights in 8 bits."""
SMOKE: dict[str, Any] = {"threads": 1, "layers": 2, "width": 32, "heads": 2, "vocabulary": 100}
MINILM: dict[str, Any] = {"threads": 2, "layers": 6, "width": 384, "heads": 12, "vocabulary": 30522}
"""The shape of all-MiniLM-L6-v2, and threads."""
FIRST_TOKEN = 5
"""Random tokens begin after the special symbols."""
Call = Callable[[Tensor], object]


@dataclass(frozen=True)
class Reader:
    """A way to read a document of n tokens.

    Attributes:
        model: reads ``model.n`` tokens at a time.
        reading: how a longer document is truncated or cut.
        layers: the encoder's first layers; None for all.
    """

    model: Model
    reading: str = HEAD
    layers: int | None = None

    @property
    def cuts(self) -> bool:
        """Whether it reads all pieces of a document."""
        return self.reading not in TRUNCATIONS

    @property
    def name(self) -> str:
        """The name of its checkpoint."""
        return self.model.name + (f"-layers{self.layers}" if self.layers else "")


def write_reader(reader: Reader, encoder: Path, folder: Path) -> Path:
    """Write the checkpoint of a reader made from an encoder, without training, and return its path."""
    path, checkpoint = folder / f"{reader.name}.pt", read_checkpoint(encoder)
    if reader.layers:
        checkpoint = keep_layers(checkpoint, reader.layers)
    if reader.model.k is not None:
        checkpoint = to_linformer(checkpoint, **reader.model.options)
    elif reader.model.n != max_positions(upgrade_names(checkpoint["model"])):
        checkpoint = resize(checkpoint, reader.model.n)
    write_checkpoint(checkpoint, path)
    return path


def keep_layers(checkpoint: dict[str, Any], layers: int) -> dict[str, Any]:
    """A checkpoint of a RoBERTa with its first layers."""
    state = upgrade_names(checkpoint["model"])
    dropped = tuple(f"encoder.sentence_encoder.layers.{i}." for i in range(layers, 1000))
    kept = {name: value for name, value in state.items() if not name.startswith(dropped)}
    options = {**get_cfg_section(checkpoint, "model"), "encoder_layers": layers, "max_positions": max_positions(state)}
    return replace_model(checkpoint, kept, options)


# Speed


def build_model(reader: Reader, sizes: dict[str, Any]) -> Any:
    """A classifier with random weights.

    Args:
        sizes: ``layers``, ``width``, ``heads`` and ``vocabulary`` of the encoder.
    """
    from ..huggingface import LinformerForSequenceClassification, LinformerPreTrainedConfig

    model = reader.model
    shape = {
        "vocab_size": sizes["vocabulary"],
        "max_positions": model.n,
        "layers": reader.layers or sizes["layers"],
        "embed_dim": sizes["width"],
        "ffn_embed_dim": 4 * sizes["width"],
        "attention_heads": sizes["heads"],
    }
    options = model.options if model.k else {"projection": "none"}
    return LinformerForSequenceClassification(LinformerPreTrainedConfig(**{**shape, **options})).eval()


def cut(tokens: Tensor, reader: Reader) -> Tensor:
    """What a reader reads of (B, n) tokens: as many rows as it has pieces, each of at most ``model.n`` tokens."""
    width = min(reader.model.n, tokens.size(1))
    return tokens.reshape(-1, width) if reader.cuts else tokens[:, :width]


def build_call(name: str, reader: Reader, n: int, sizes: dict[str, Any], embeds: bool, folder: Path) -> Call:
    """The forward pass of a reader on (B, n) tokens, with PyTorch's number of threads.

    Args:
        name: ends in ``ONNX`` or ``INT8`` for a graph.
        embeds: compute every position of the last layer, as mean pooling needs; a classifier computes the first one.
        folder: where graphs are written.
    """
    model = build_model(reader, sizes)
    if not name.endswith((ONNX, INT8)):
        called = model.linformer if embeds else model
        return lambda tokens: called(cut(tokens, reader))
    from ..checkpoints.files import open_session
    from ..checkpoints.onnx_graph import INPUTS, OUTPUT, write_graph

    path = folder / f"{name}-{n}.onnx"
    write_graph(model, path, n, int8=name.endswith(INT8))
    session = open_session(path, torch.get_num_threads())

    def call(tokens: Tensor) -> object:
        read = cut(tokens, reader)
        inputs = (read, torch.ones_like(read))
        return session.run([OUTPUT], {name: each.numpy() for name, each in zip(INPUTS, inputs)})

    return call


@torch.inference_mode()
def time_readers(
    compared: dict[str, Reader], n: int, rounds: int, sizes: dict[str, Any], embeds: bool, folder: Path
) -> tuple[int, dict[str, list[float]]]:
    """The number of documents of n random tokens, and the seconds of each reader in each round."""
    documents = max(1, sizes["tokens"] // n)
    tokens = torch.randint(FIRST_TOKEN, sizes["vocabulary"], (documents, n))
    calls = {name: build_call(name, reader, n, sizes, embeds, folder) for name, reader in compared.items()}
    runs = {name: partial(call, tokens) for name, call in calls.items()}
    return documents, time_interleaved(runs, rounds, clock=choose_clock("cpu"))


# Tokens


def truncate_ids(ids: Sequence[int], reader: Reader) -> list[int]:
    """The token IDs that a reader reads of a document ``<s> ... </s>``."""
    (kept,), _, _ = truncate([np.array(ids[1:])], [np.array([len(ids) - 1])], reader.model.n, reader.reading)
    return [ids[0], *kept.tolist()]


def cut_ids(ids: Sequence[int], reader: Reader) -> list[list[int]]:
    """The pieces ``<s> ... </s>`` of a document ``<s> ... </s>``: as few as possible, and of equal lengths, since each
    has the same weight in a mean."""
    inner = np.array(ids[1:-1])
    parts = np.array_split(inner, math.ceil(len(inner) / (reader.model.n - 2)))
    return [[ids[0], *part.tolist(), ids[-1]] for part in parts]
