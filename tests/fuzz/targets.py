"""The parsers of files and texts that users or strangers write: each accepts its input, or rejects it by name."""

import contextlib
import gzip
import io
import json
import lzma
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairseq_linformer.analysis.spectrum import read_state
from fairseq_linformer.analysis.spectrum_result import read_spectrum
from fairseq_linformer.checkpoints.convert import convert
from fairseq_linformer.checkpoints.files import read_checkpoint
from fairseq_linformer.checkpoints.models import build_model, open_checkpoint
from fairseq_linformer.checkpoints.provenance import read_origins
from fairseq_linformer.checkpoints.transformers_loading import read_weight_files
from fairseq_linformer.config import LinformerConfig
from fairseq_linformer.data.documents import read_documents, split_paragraphs
from fairseq_linformer.data.sources import locate_source, parse_source
from fairseq_linformer.data.task_sources import open_source
from fairseq_linformer.data.tasks import TASKS
from fairseq_linformer.data.tokenizer import load_tokenizer
from fairseq_linformer.data.tokenizer_files import choose_tokenizer
from fairseq_linformer.evaluation.encoded_rows import read_prepared_task
from fairseq_linformer.evaluation.example_files import read_examples
from fairseq_linformer.fairseq_log import parse_line
from fairseq_linformer.models.dictionaries import read_dictionary, read_labels
from fairseq_linformer.models.fairseq_fixes import evaluate_literal
from fairseq_linformer.projected_dim import format_projected_dim, parse_projected_dim
from fairseq_linformer.training.compose import compose_config
from fairseq_linformer.training.restore import is_intact
from fairseq_linformer.training.run_folder import read_config

ROOT = Path(__file__).parents[2]
NAMES = """
    rows.tsv
    rows.csv
    rows.jsonl
    rows.parquet
    rows.txt
    task.tsv
    corpus.txt
    corpus.jsonl
    corpus.parquet
    corpus.gz
    corpus.xz
    corpus.zst
    source
    k
    literal
    override
    config.yaml
    run.yaml
    log
    task-manifest
    dictionary
    labels
    sentencepiece
    tokenizer-json
    checkpoint
    old-checkpoint
    safetensors
    exported-config
    weights-index
    state.npz
    spectrum.npz
""".split()
"""Names of the targets."""


@dataclass(frozen=True)
class Target:
    """A parser.

    Attributes:
        parse: reads ``path``; raises ValueError or OSError if its content is not allowed.
        seed: content that it accepts.
        name: name of the file; other files that it needs are next to it.
        slow: takes more than some milliseconds.
    """

    parse: Callable[[Path], Any]
    seed: bytes
    name: str
    slow: bool = False
    named: bool = True
    """Whether errors name the file; others name the value."""


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _rows(path: Path) -> None:
    kind = path.suffix.removeprefix(".")
    consume(read_examples(str(path), None, ("text",) if kind == "jsonl" else (), None, 2 if kind == "txt" else 1))


def consume(rows) -> None:
    for _ in rows:
        pass


def _corpus(path: Path) -> None:
    for text in read_documents(locate_source(parse_source(str(path)))):
        split_paragraphs(text)


def _tsv_task(path: Path) -> None:
    source = open_source(TASKS["sst-2"], path.parent)
    for split in TASKS["sst-2"].splits:
        consume(source.read_rows(split))


def _checkpoint(path: Path) -> None:
    is_intact(path)
    checkpoint = read_checkpoint(path)
    read_origins(checkpoint)
    current = open_checkpoint(path)
    try:
        build_model(current)
    except ValueError as error:  # its argument has no file
        raise ValueError(f"{path}: {error}") from None


def _exported(path: Path) -> None:
    convert(path.parent, path.parent.parent / "out")
    shutil.rmtree(path.parent.parent / "out")


def _projected_dim(path: Path) -> None:
    text = _text(path)
    dims = parse_projected_dim(text, 4, 2)
    assert parse_projected_dim(format_projected_dim(dims), 4, 2) == dims
    with contextlib.suppress(ValueError):
        LinformerConfig(vocab_size=9, layers=4, attention_heads=2, embed_dim=8, projected_dim=text, sharing="none")


def _override(path: Path) -> None:
    compose_config(str(ROOT / "configs/pretrain/base.yaml"), [_text(path)])


def _log(path: Path) -> None:
    for line in _text(path).splitlines():
        parse_line(line)


def _source(path: Path) -> None:
    parse_source(_text(path))


def _text_documents() -> bytes:
    return b"A first document\nof two lines.\n\nA second one: caf\xc3\xa9.\n"


def _parquet() -> bytes:
    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a cat", "a dog", "caf\u00e9"], "n": [1, 2, 3]}), file)
    return file.getvalue()


def _npz(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _zstd(data: bytes) -> bytes:
    import pyarrow

    return pyarrow.Codec("zstd").compress(data, asbytes=True)


def build_targets(world: Path) -> dict[str, Target]:
    """All parsers, with accepted content from the files of ``tests/bad_input/world.py``."""
    jsonl = b'{"text": "a cat", "label": "dog"}\n{"text": "a dog", "label": "dog"}\n'
    sst_2 = {"task": "sst-2", "max_positions": 16, "splits": {"train": {"cut": 0}, "valid": {"cut": 0}}}
    weights = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    run = "optimization: {update_freq: [1]}\ndistributed_training: {distributed_world_size: 1}\n"
    yaml = "model:\n  _name: linformer_roberta\n  dropout: 0.5\n"
    number = b'x | INFO | valid | {"epoch": 1, "valid_loss": "7.25"}\n'
    tsv = b"sentence\tlabel\na cat\t1\na dog\t0\n"
    text = _text_documents()

    def data(name: str) -> bytes:
        return (world / name).read_bytes()

    def tokenizer(kind: str) -> Callable[[Path], Any]:
        return lambda path: load_tokenizer(choose_tokenizer(**{kind: path}))

    return {
        "rows.tsv": Target(_rows, tsv, "x.tsv"),
        "rows.csv": Target(_rows, b'sentence,label\n"a, cat",1\na dog,0\n', "x.csv"),
        "rows.jsonl": Target(_rows, jsonl, "x.jsonl"),
        "rows.parquet": Target(_rows, _parquet(), "x.parquet", slow=True),
        "rows.txt": Target(_rows, b"a cat\ta dog\nb\tc\n", "x.txt"),
        "task.tsv": Target(_tsv_task, tsv, "SST-2/train.tsv"),
        "corpus.txt": Target(_corpus, text, "x.txt"),
        "corpus.jsonl": Target(_corpus, jsonl, "x.jsonl"),
        "corpus.parquet": Target(_corpus, _parquet(), "x.parquet"),
        "corpus.gz": Target(_corpus, gzip.compress(text), "x.txt.gz"),
        "corpus.xz": Target(_corpus, lzma.compress(text), "x.txt.xz"),
        "corpus.zst": Target(_corpus, _zstd(text), "x.txt.zst"),
        "source": Target(_source, b"hub:a/b,config=c,column=text,rows=3,license=MIT", "source", named=False),
        "k": Target(_projected_dim, b"8/4x2,6,2/2", "k", named=False),
        "literal": Target(lambda path: evaluate_literal(_text(path)), b"[(1, 2)] * 3", "literal", named=False),
        "override": Target(_override, b"model.dropout=0.5", "override", slow=True, named=False),
        "config.yaml": Target(lambda path: compose_config(str(path)), yaml.encode(), "x.yaml", slow=True),
        "run.yaml": Target(lambda path: read_config(path.parent), run.encode(), "config.yaml"),
        "log": Target(_log, number, "log"),
        "task-manifest": Target(
            lambda path: read_prepared_task(path.parent), json.dumps(sst_2).encode(), "manifest.json"
        ),
        "dictionary": Target(read_dictionary, data("mlm/dict.txt"), "dict.txt"),
        "labels": Target(read_labels, data("cls/label/dict.txt"), "dict.txt"),
        "sentencepiece": Target(tokenizer("sentencepiece"), data("spm.model"), "x.model"),
        "tokenizer-json": Target(tokenizer("tokenizer_json"), data("bert/tokenizer.json"), "tokenizer.json", slow=True),
        "checkpoint": Target(_checkpoint, data("mlm/model.pt"), "x.pt", slow=True),
        "old-checkpoint": Target(_checkpoint, _old_checkpoint(world), "x.pt", slow=True),
        "safetensors": Target(_exported, data("hf/model.safetensors"), "hf/model.safetensors", slow=True),
        "exported-config": Target(_exported, data("hf/config.json"), "hf/config.json", slow=True),
        "weights-index": Target(read_weight_files, json.dumps(weights).encode(), "model.safetensors.index.json"),
        "state.npz": Target(lambda path: read_state(path, {"n": 3}), _npz(key=json.dumps({"n": 3})), "state.npz"),
        "spectrum.npz": Target(
            lambda path: read_spectrum(path.parent), _npz(curve=np.ones((1, 1, 3))), "out/spectrum.npz"
        ),
    }


def _old_checkpoint(world: Path) -> bytes:
    file = io.BytesIO()
    torch.save(torch.load(world / "mlm/model.pt", weights_only=True), file, _use_new_zipfile_serialization=False)
    return file.getvalue()


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
        elif target.name == "data/manifest.json":
            shutil.copytree(world / "data", path.parent, dirs_exist_ok=True)
        elif target.name == "out/spectrum.npz":
            (path.parent / "spectrum.json").write_text("{}")
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
        assert message and (not target.named or path.name in message or str(path.parent) in message), message
        return message
    return ""
