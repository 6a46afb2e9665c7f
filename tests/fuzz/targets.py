"""The parsers of files that users or strangers write: each accepts its input, or rejects it by name."""

import contextlib
import gzip
import io
import json
import lzma
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import torch

from fairseq_linformer.checkpoints.convert import convert
from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.checkpoints.models import build_model, open_checkpoint
from fairseq_linformer.checkpoints.provenance import read_origins
from fairseq_linformer.checkpoints.transformers_loading import _read_weight_files
from fairseq_linformer.data.documents import read_documents, split_paragraphs
from fairseq_linformer.data.sources import locate_source, parse_source
from fairseq_linformer.data.task_sources import open_source
from fairseq_linformer.data.tasks import TASKS
from fairseq_linformer.data.tokenizer import load_tokenizer
from fairseq_linformer.evaluation.example_files import read_examples
from fairseq_linformer.models.dictionaries import read_dictionary, read_labels
from fairseq_linformer.models.fairseq_fixes import evaluate_literal
from fairseq_linformer.training.job import compose_config

SLOW = ("config.yaml", "tokenizer-json", "checkpoint", "old-checkpoint", "safetensors", "exported-config")
"""Targets that take more than some milliseconds."""


@dataclass(frozen=True)
class Target:
    """A parser.

    Attributes:
        parse: reads ``path``; raises ValueError or OSError if its content is not allowed.
        seed: content that it accepts, or a file of ``tests/bad_input/world.py``, or a function of its folder.
        name: name of the file; other files that it needs are next to it.
    """

    parse: Callable[[Path], Any]
    seed: bytes | str | Callable[[Path], bytes]
    name: str

    def content(self, world: Path) -> bytes:
        """The seed in that world."""
        if isinstance(self.seed, bytes):
            return self.seed
        return (world / self.seed).read_bytes() if isinstance(self.seed, str) else self.seed(world)


def _rows(path: Path) -> None:
    kind = path.suffix.removeprefix(".")
    texts, inputs = ("text",) if kind == "jsonl" else (), 2 if kind == "txt" else 1
    list(read_examples(str(path), None, texts, None, inputs))


def _corpus(path: Path) -> None:
    for text in read_documents(locate_source(parse_source(str(path)))):
        split_paragraphs(text)


def _tsv_task(path: Path) -> None:
    source = open_source(TASKS["sst-2"], path.parent)
    for split in TASKS["sst-2"].splits:
        list(source.read_rows(split))


def _checkpoint(path: Path) -> None:
    read_origins(read_checkpoint(path))
    current = open_checkpoint(path)
    try:
        build_model(current)
    except ValueError as error:  # its argument has no file
        raise ValueError(f"{path}: {error}") from None


def _exported(path: Path) -> None:
    convert(path.parent, path.parent.parent / "out")
    shutil.rmtree(path.parent.parent / "out")


def _literal(path: Path) -> None:
    try:
        evaluate_literal(path.read_bytes().decode("utf-8", "replace"))
    except ValueError as error:  # its argument has no file
        raise ValueError(f"{path}: {error}") from None


def _parquet() -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a cat", "a dog", "caf\u00e9"], "n": [1, 2, 3]}), file)
    return file.getvalue()


def _zstd(data: bytes) -> bytes:
    return pyarrow.Codec("zstd").compress(data, asbytes=True)


def _old_checkpoint(world: Path) -> bytes:
    file = io.BytesIO()
    torch.save(torch.load(world / "mlm/model.pt", weights_only=True), file, _use_new_zipfile_serialization=False)
    return file.getvalue()


JSONL = b'{"text": "a cat", "label": "dog"}\n{"text": "a dog", "label": "dog"}\n'
WEIGHTS = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
YAML = b"model:\n  _name: linformer_roberta\n  dropout: 0.5\n"
TSV = b"sentence\tlabel\na cat\t1\na dog\t0\n"
TEXT = b"A first document\nof two lines.\n\nA second one: caf\xc3\xa9.\n"
TARGETS = {
    "rows.tsv": Target(_rows, TSV, "x.tsv"),
    "rows.csv": Target(_rows, b'sentence,label\n"a, cat",1\na dog,0\n', "x.csv"),
    "rows.jsonl": Target(_rows, JSONL, "x.jsonl"),
    "rows.parquet": Target(_rows, _parquet(), "x.parquet"),
    "rows.txt": Target(_rows, b"a cat\ta dog\nb\tc\n", "x.txt"),
    "task.tsv": Target(_tsv_task, TSV, "SST-2/train.tsv"),
    "corpus.txt": Target(_corpus, TEXT, "x.txt"),
    "corpus.jsonl": Target(_corpus, JSONL, "x.jsonl"),
    "corpus.parquet": Target(_corpus, _parquet(), "x.parquet"),
    "corpus.gz": Target(_corpus, gzip.compress(TEXT), "x.txt.gz"),
    "corpus.xz": Target(_corpus, lzma.compress(TEXT), "x.txt.xz"),
    "corpus.zst": Target(_corpus, _zstd(TEXT), "x.txt.zst"),
    "dictionary": Target(read_dictionary, "mlm/dict.txt", "dict.txt"),
    "labels": Target(partial(read_labels, classes=2), "cls/label/dict.txt", "dict.txt"),
    "sentencepiece": Target(load_tokenizer, "spm.model", "x.model"),
    "literal": Target(_literal, b"[(1, 2)] * 3", "literal"),
    "weights-index": Target(_read_weight_files, json.dumps(WEIGHTS).encode(), "model.safetensors.index.json"),
    "config.yaml": Target(lambda path: compose_config(str(path)), YAML, "x.yaml"),
    "tokenizer-json": Target(load_tokenizer, "bert/tokenizer.json", "tokenizer.json"),
    "checkpoint": Target(_checkpoint, "mlm/model.pt", "x.pt"),
    "old-checkpoint": Target(_checkpoint, _old_checkpoint, "x.pt"),
    "safetensors": Target(_exported, "hf/model.safetensors", "hf/model.safetensors"),
    "exported-config": Target(_exported, "hf/config.json", "hf/config.json"),
}


@contextlib.contextmanager
def surroundings(world: Path, target: Target) -> Iterator[Path]:
    """A folder with the files that the parser needs next to its own, which is returned."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, target.name)
        path.parent.mkdir(exist_ok=True)
        if target.name == "SST-2/train.tsv":
            (path.parent / "dev.tsv").write_text("sentence\tlabel\na cat\t1\n")
        elif target.name.startswith("hf/"):
            shutil.copytree(world / "hf", path.parent, dirs_exist_ok=True)
        yield path


def check(target: Target, path: Path, data: bytes) -> str:
    """Parse ``data``, and return the error's message, empty if it is accepted.

    Raises:
        AssertionError: the message is empty, or does not name the file.
        Exception: the parser raised something else than ValueError and OSError.
    """
    path.write_bytes(data)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            target.parse(path)
    except (ValueError, OSError) as error:
        message = str(error)
        assert type(error) in (ValueError, FileNotFoundError, IsADirectoryError, PermissionError), repr(error)
        assert path.name in message or str(path.parent) in message, message
        return message
    return ""
