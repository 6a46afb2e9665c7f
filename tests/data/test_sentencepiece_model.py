"""SentencePiece models: training, fairseq's dictionary, and encoding."""

import io

import pytest
import sentencepiece
from fairseq.data import Dictionary

from fairseq_linformer.data import sentencepiece_model
from fairseq_linformer.data.tokenizer_json import SYMBOLS

LINES = [
    "The cat sat on the mat.",
    "",
    "The dog sat on the log, and the cat on the dog.",
    "A mat is not a log; a log is not a mat.",
]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES * 20) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("model_type, size", [("bpe", 40), ("unigram", 22)])
def test_training_is_deterministic_with_optional_case_folding(text, model_type, size):
    folded = sentencepiece_model.train_model([text], size, model_type, fold_case=True)
    assert folded == sentencepiece_model.train_model([text], size, model_type, fold_case=True)
    assert not any(piece.lower() != piece for piece in sentencepiece_model.list_pieces(folded))
    cased = sentencepiece_model.train_model([text], size, model_type, fold_case=False)
    assert any(piece.lower() != piece for piece in sentencepiece_model.list_pieces(cased))


def test_fairseq_keeps_the_order_of_pieces(text, tmp_path):
    sentencepiece_model.main(
        ["train", str(tmp_path / "out"), "--input", str(text), "--vocab-size", "40", "--fold-case"]
    )
    model = tmp_path / "out" / "spm.model"
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    assert processor.get_piece_size() == 40 and processor.id_to_piece(0) == "<unk>"

    vocabulary = Dictionary.load(str(tmp_path / "out" / "dict.txt"))
    assert vocabulary.symbols[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert vocabulary.symbols[4:] == [processor.id_to_piece(i) for i in range(1, 40)]

    sentencepiece_model.main(["encode", str(model), "--input", str(text), "--output", str(tmp_path / "text.spm")])
    lines = (tmp_path / "text.spm").read_text(encoding="utf-8").split("\n")
    assert len(lines) == len(LINES) * 20 + 1 and lines[1] == "" and lines[-1] == ""
    for line, original in zip(lines, LINES):
        ids = vocabulary.encode_line(line, append_eos=False, add_if_not_exist=False).tolist()
        # fairseq has four symbols before the pieces, the model only <unk>
        assert [i - 3 for i in ids] == processor.encode(original)
        assert processor.decode(line.split()) == original.lower()


def test_piece_named_like_a_fairseq_symbol_is_rejected(text):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_writer=model,
        minloglevel=2,
        vocab_size=45,
        model_type="bpe",
        user_defined_symbols=["<mask>"],
    )
    with pytest.raises(ValueError, match="<mask>"):
        sentencepiece_model.list_pieces(model.getvalue())


def test_control_pieces_are_omitted(text):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_writer=model, minloglevel=2, vocab_size=40, model_type="bpe", pad_id=3
    )  # <unk>, <s>, </s> and <pad>
    pieces = sentencepiece_model.list_pieces(model.getvalue())
    assert len(pieces) == 36 and not set(pieces) & set(SYMBOLS)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["train", "OUT", "--input", "TEXT", "--vocab-size", "5000"], "Vocabulary size"),
        (["train", "OUT", "--input", "TEXT", "--vocab-size", "5"], "5"),
        (["train", "OUT", "--input", "MISSING", "--vocab-size", "40"], "No such file"),
        (["encode", "TEXT", "--input", "TEXT", "--output", "OUT"], "text.txt is not a SentencePiece model"),
        (["encode", "MISSING", "--input", "TEXT", "--output", "OUT"], "No such file"),
        (["encode", "TEXT", "--input", "TEXT", "--output", "OUT", "OUT2"], "--output"),
    ],
)
def test_error_messages_are_one_line(text, tmp_path, arguments, expected):
    paths = {"TEXT": text, "OUT": tmp_path / "out", "OUT2": tmp_path / "out2", "MISSING": tmp_path / "no"}
    with pytest.raises(SystemExit) as error:
        sentencepiece_model.main([str(paths.get(argument, argument)) for argument in arguments])
    assert expected in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()
