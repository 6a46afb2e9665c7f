"""Tokenizers and .bin/.idx: byte for byte what the stock route makes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_linformer.corpus import spm
from fairseq_linformer.corpus.binarised import Writer
from fairseq_linformer.corpus.tokenizer import GPT2, SentencePiece, Tokenizer

from ..stock_text import gpt2_encode, preprocess, write_gpt2

LINES = ["Hello hello world's  best", "", "I'm 12 naïve 日本 \U0001f600 \t tab", "lower lower low", "</s> <mask>"]


@pytest.fixture(scope="module")
def gpt2_files(tmp_path_factory):
    return write_gpt2(tmp_path_factory.mktemp("gpt2"))


def ours(tokenizer, lines, out):
    writer = Writer(out / "ours", tokenizer.dtype)
    for start in range(0, len(lines), 2):
        writer.add(*tokenizer.encode(lines[start : start + 2]))
    writer.finish()
    assert sorted(path.name for path in out.iterdir()) == ["ours.bin", "ours.idx"]
    return [(out / f"ours.{end}").read_bytes() for end in ("bin", "idx")]


@pytest.mark.slow
def test_gpt2_is_the_stock_route(gpt2_files, tmp_path):
    text, encoded = tmp_path / "text", tmp_path / "encoded"
    text.write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    gpt2_encode(gpt2_files, [text], [encoded])
    (tmp_path / "out").mkdir()
    expected = preprocess(encoded, gpt2_files / "dict.txt", tmp_path / "stock")
    assert ours(GPT2(gpt2_files), LINES, tmp_path / "out") == expected


@pytest.mark.slow
def test_sentencepiece_is_the_stock_route(tmp_path):
    text = tmp_path / "text"
    text.write_text("the cat sat on the mat\n" * 20 + "".join(line + "\n" for line in LINES if line))
    (tmp_path / "model").write_bytes(spm.train([text], vocab_size=60, fold_case=True))
    spm.write_dictionary(tmp_path / "model", tmp_path / "dict.txt")
    lines = ["the CAT", "", "sat\u00a0mat \u4e2d\u6587 unseen", "a"]
    (tmp_path / "lines").write_text("".join(line + "\n" for line in lines))
    spm.encode(tmp_path / "model", tmp_path / "lines", tmp_path / "pieces")
    (tmp_path / "out").mkdir()
    expected = preprocess(tmp_path / "pieces", tmp_path / "dict.txt", tmp_path / "stock")
    tokenizer = SentencePiece(tmp_path / "model")
    assert ours(tokenizer, lines, tmp_path / "out") == expected
    assert "".join(line + "\n" for line in tokenizer.dictionary) == (tmp_path / "dict.txt").read_text()


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_gpt2_has_the_numbers_of_the_stock_encoder(gpt2_files, text):
    from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

    reference = get_encoder(str(gpt2_files / "encoder.json"), str(gpt2_files / "vocab.bpe"))
    text = text.encode("utf-8", "replace").decode()
    assert GPT2(gpt2_files)._encode([text]) == [reference.encode(text)]


def test_types_of_number():
    from fairseq.data.indexed_dataset import best_fitting_int_dtype

    for size in (1, 65495, 65496, 70000):
        assert Tokenizer(["x 1"] * size, {}, np.arange(3), {}).dtype == best_fitting_int_dtype(size + 4)


def test_many_numbers_are_read_back_by_fairseq(tmp_path):
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    writer = Writer(tmp_path / "x", np.uint32)
    writer.add(np.array([70000, 2, 5]), np.array([2, 1]))
    writer.add(np.array([7, 8, 9]), np.array([3]))
    writer.finish()
    dataset = MMapIndexedDataset(str(tmp_path / "x"))
    assert [item.tolist() for item in dataset] == [[70000, 2], [5], [7, 8, 9]]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("vocab.bpe", None, "vocab.bpe is not a file"),
        ("encoder.json", "{", "encoder.json"),
        ("encoder.json", "{}", "encoder.json.*order"),
        ("dict.txt", "a 1\n", "dict.txt with 0 of"),
    ],
)
def test_files_that_do_not_belong_together(tmp_path, name, content, message):
    write_gpt2(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        GPT2(tmp_path)
