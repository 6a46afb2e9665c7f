"""SentencePiece models: their pieces as entries of fairseq's dictionary, and ``prepare sentencepiece``.

fairseq adds its own symbols to the dictionary (<s>, <pad>, </s>, <unk> before it, <mask> after it), so a model of V
pieces, one of which is <unk>, gives V - 1 + 5 entries.
"""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import sentencepiece

from ..errors import first_line
from ..files import new_folder, write_lines
from .documents import load_documents, split_paragraphs
from .manifest import describe_source, write_manifest
from .sources import locate_source, parse_source
from .tokenizer_files import DICTIONARY, TRAINED_MODEL
from .tokenizer_json import SYMBOLS

SAMPLE_MIB = 32
"""MiB of text that a model is trained on."""


def load_model(content: bytes, path) -> sentencepiece.SentencePieceProcessor:
    """Load the content of a model file; ValueError with its path if it is none."""
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError:
        raise ValueError(f"{path} is not a SentencePiece model") from None


def list_pieces(content: bytes, path="the model") -> list[str]:
    """The pieces of a model in order, without <unk> and control symbols, which fairseq adds itself."""
    model = load_model(content, path)
    ids = range(model.get_piece_size())
    pieces = [model.id_to_piece(i) for i in ids if not (model.is_unknown(i) or model.is_control(i))]
    if reserved := set(SYMBOLS).intersection(pieces):
        raise ValueError(f"{path} must not have the piece {min(reserved)}, a special symbol of fairseq")
    return pieces


def prepare_sentencepiece(out: Path, sources: Sequence[str], vocab_size: int, fold_case: bool = False) -> str:
    """Write ``spm.model``, ``dict.txt`` and ``manifest.json``.

    The model is trained on random documents of every source, in the order of the source; the same sources give the same
    model.

    Args:
        vocab_size: V, the number of pieces, including <unk>.
        fold_case: convert uppercase to lowercase, which suits small vocabularies.

    Returns:
        a one-line summary.
    """
    located = [locate_source(parse_source(source)) for source in sources]
    lines: list[str] = []
    for i, source in enumerate(located):
        used = sum(map(_size, lines))
        # Short sources leave more for later ones.
        lines += _sample_lines(load_documents(source), (SAMPLE_MIB * (1 << 20) - used) / (len(located) - i))
    if not lines:
        raise ValueError("the sources have no documents with text")
    model = train_model(iter(lines), vocab_size, fold_case)
    num_bytes = sum(map(_size, lines))
    options = {"vocab_size": vocab_size, "sample_mib": SAMPLE_MIB, "model_type": "bpe", "fold_case": fold_case}
    described = [describe_source(source) for source in located]
    with new_folder(out) as folder:
        (folder / TRAINED_MODEL).write_bytes(model)
        # All counts are equal, because fairseq sorts by them.
        write_lines(folder / DICTIONARY, (f"{piece} 1" for piece in list_pieces(model)))
        write_manifest(folder, {"options": options, "sources": described, "sample": {"bytes": num_bytes}})
    return f"{out}/{TRAINED_MODEL}: {vocab_size} pieces, trained on {num_bytes / 1e6:.1f} MB"


def _size(line: str) -> int:
    return len(line.encode("utf-8")) + 1


def _sample_lines(documents, num_bytes: float) -> list[str]:
    """The paragraphs of random documents of about ``num_bytes`` in total, or of all documents."""
    chosen: dict[int, list[str]] = {}
    size = 0
    for i in np.random.default_rng(0).permutation(len(documents)).tolist():
        if size >= num_bytes:
            break
        chosen[i] = split_paragraphs(documents[i]["text"])
        size += sum(map(_size, chosen[i]))
    return [line for i in sorted(chosen) for line in chosen[i]]


def train_model(lines: Iterator[str], vocab_size: int, fold_case: bool = False) -> bytes:
    """Train a byte-pair model on sentences or paragraphs, deterministically; returns the content of the model file."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=model,
            vocab_size=vocab_size,
            model_type="bpe",
            normalization_rule_name="nmt_nfkc_cf" if fold_case else "nmt_nfkc",
            # fairseq adds its own <s>, </s> and <pad>; the model's would never be used.
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            # In bytes. A line is a paragraph, and longer lines would be skipped.
            max_sentence_length=1 << 20,
            num_threads=1,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        # Messages read "INTERNAL: file.cc(12) [condition] Sentence."
        sentence = first_line(str(error).split("] ")[-1]).removeprefix("INTERNAL: ")
        raise ValueError(sentence or "sentencepiece failed") from None
    return model.getvalue()
