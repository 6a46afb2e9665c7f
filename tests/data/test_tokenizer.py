"""Token IDs and .bin/.idx files are byte-identical to fairseq's own preprocessing."""

import json

import numpy as np
import pytest
from fairseq.data import Dictionary
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor

from fairseq_linformer.data.binarized import BinarizedWriter
from fairseq_linformer.data.tokenizer import GPT2, SentencePiece, Tokenizer, _read_lines

from ..checkpoint_fixtures import write_sentencepiece
from ..fairseq_preprocessing import preprocess, write_gpt2


def binarize(tokenizer, lines, out):
    writer = BinarizedWriter(out / "lines", tokenizer.dtype)
    for start in range(0, len(lines), 2):
        writer.add(*tokenizer.encode(lines[start : start + 2]))
    writer.finish()
    assert sorted(path.name for path in out.iterdir()) == ["lines.bin", "lines.idx"]
    return [(out / f"lines.{end}").read_bytes() for end in ("bin", "idx")]


@pytest.mark.slow
def test_sentencepiece_equals_fairseq_preprocessing(tmp_path):
    text = ["the cat sat on the mat"] * 20 + ["Hello hello world's  best", "lower lower low"]
    write_sentencepiece(tmp_path, text, vocab_size=40)
    model = tmp_path / "sentencepiece.bpe.model"
    lines = ["the CAT", "", "sat\u00a0mat \u4e2d\u6587 unseen", "a"]
    processor = SentencePieceProcessor(model_file=str(model))
    pieces = [" ".join(processor.encode(line, out_type=str)) for line in lines]
    (tmp_path / "pieces").write_text("".join(line + "\n" for line in pieces))
    (tmp_path / "out").mkdir()
    expected = preprocess(tmp_path / "pieces", tmp_path / "dict.txt", tmp_path / "stock")
    tokenizer = SentencePiece(model)
    assert binarize(tokenizer, lines, tmp_path / "out") == expected
    assert "".join(line + "\n" for line in tokenizer.dictionary) == (tmp_path / "dict.txt").read_text()


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.text())
def test_gpt2_ids_equal_fairseqs_encoder(gpt2, text):
    from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

    reference = get_encoder(str(gpt2 / "encoder.json"), str(gpt2 / "vocab.bpe"))
    text = text.encode("utf-8", "replace").decode()
    assert GPT2(gpt2)._encode([text]) == [reference.encode(text)]


def test_dtype_equals_fairseqs():
    from fairseq.data.indexed_dataset import best_fitting_int_dtype

    for size in (1, 65495, 65496, 70000):
        assert Tokenizer(["x 1"] * size, np.arange(3), {}).dtype == best_fitting_int_dtype(size + 4)


def test_fairseq_reads_uint32_data(tmp_path):
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    writer = BinarizedWriter(tmp_path / "x", np.uint32)
    writer.add(np.array([70000, 2, 5]), np.array([2, 1]))
    writer.add(np.array([7, 8, 9]), np.array([3]))
    writer.finish()
    dataset = MMapIndexedDataset(str(tmp_path / "x"))
    assert [item.tolist() for item in dataset] == [[70000, 2], [5], [7, 8, 9]]


@pytest.mark.parametrize("content", ["a 1\n\x85 1\n\u2028 1\nb 1\n", "a 1\r\n\x85 1\r\n\u2028 1\r\nb 1"])
def test_only_line_ends_separate_entries(content, tmp_path):
    """``str.splitlines`` also splits at U+0085 and U+2028, which are pieces of models on some texts."""
    (tmp_path / "dict.txt").write_text(content, newline="")
    entries = _read_lines(tmp_path / "dict.txt")
    assert entries == ["a 1", "\x85 1", "\u2028 1", "b 1"]
    assert [entry.split(" ")[0] for entry in entries] == Dictionary.load(str(tmp_path / "dict.txt")).symbols[4:]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("vocab.bpe", None, "vocab.bpe does not exist"),
        ("encoder.json", "{", "encoder.json"),
        ("encoder.json", "{}", "encoder.json.*KeyError"),
        ("dict.txt", "a 1\n", "dict.txt .* 0 of"),
    ],
)
def test_missing_or_mismatched_files_are_rejected(tmp_path, name, content, message):
    write_gpt2(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        GPT2(tmp_path)


def test_bpe_has_all_ids(tmp_path):
    path = write_gpt2(tmp_path, merges=()) / "encoder.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "a": 1000}))
    with pytest.raises(ValueError, match="must have the IDs from 0"):
        GPT2(tmp_path)
