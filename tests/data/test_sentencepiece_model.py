"""SentencePiece models: training on a sample of the sources, and their pieces in fairseq's dictionary."""

import io
import json

import pytest
import sentencepiece
from fairseq.data import Dictionary

from fairseq_linformer.data import sentencepiece_model
from fairseq_linformer.data.sentencepiece_model import list_pieces, prepare_sentencepiece, train_model
from fairseq_linformer.data.tokenizer import SentencePiece
from fairseq_linformer.data.tokenizer_json import SYMBOLS

from .corpora import build_documents, prepare, read, reference, write_rows, write_text

LINES = ["The cat sat on the mat.", "The dog sat on the log, and the cat on the dog.", "A mat is not a log."] * 20


def test_training_is_deterministic_and_the_model_prepares_text(tmp_path):
    documents = build_documents()
    sources = [
        str(write_text(tmp_path / "a.txt", documents[:30])),
        str(write_rows(tmp_path / "b.parquet", documents[30:])),
    ]
    for name in ("one", "two"):
        summary = prepare_sentencepiece(tmp_path / name, sources, 50)
    assert summary.startswith(f"{tmp_path}/two/spm.model: 50 pieces, trained on 0.0")
    assert (tmp_path / "one/spm.model").read_bytes() == (tmp_path / "two/spm.model").read_bytes()
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["dict.txt", "manifest.json", "spm.model"]
    text = sum(len(line.encode()) + 1 for document in documents for line in document)
    assert json.loads((tmp_path / "one/manifest.json").read_text())["sample"]["bytes"] == text

    model = tmp_path / "one/spm.model"
    prepare(tmp_path / "out", sources, model)
    assert read(tmp_path / "out") == reference(documents, SentencePiece(model), 0.3)
    lines = read(tmp_path / "out")["shard0/train"]
    symbols, counts = (Dictionary.load(str(tmp_path / name)) for name in ("one/dict.txt", "out/shard0/dict.txt"))
    assert counts.symbols == symbols.symbols
    assert counts.count[4:] == [sum(line.count(i) for line in lines) for i in range(4, len(counts))]


def test_sample_covers_all_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(sentencepiece_model, "SAMPLE_MIB", 6000 / 2**20)
    sources = [str(write_text(tmp_path / f"{letter}.txt", [[letter * 50]] * 100)) for letter in "abc"]
    prepare_sentencepiece(tmp_path / "out", sources, 8)
    dictionary = (tmp_path / "out/dict.txt").read_text()
    assert all(letter in dictionary for letter in "abc")
    assert 6000 <= json.loads((tmp_path / "out/manifest.json").read_text())["sample"]["bytes"] <= 6200


def test_case_folding():
    folded, cased = (list_pieces(train_model(iter(LINES), 40, fold_case)) for fold_case in (True, False))
    assert all(piece.lower() == piece for piece in folded) and any(piece.lower() != piece for piece in cased)


def train_with(**options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, minloglevel=2, vocab_size=45, model_type="bpe", **options
    )
    return model.getvalue()


def test_control_pieces_are_omitted():
    pieces = list_pieces(train_with(pad_id=3))  # <unk>, <s>, </s> and <pad>
    assert len(pieces) == 41 and not set(pieces) & set(SYMBOLS)


def test_piece_named_like_a_fairseq_symbol_is_rejected():
    with pytest.raises(ValueError, match="<mask>"):
        list_pieces(train_with(user_defined_symbols=["<mask>"]))
