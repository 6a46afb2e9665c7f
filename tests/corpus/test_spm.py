"""Sentencepiece models: the dictionary fairseq reads, the pieces it is given."""

import io

import pytest
import sentencepiece
from fairseq.data import Dictionary

from fairseq_linformer.corpus import spm

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
def test_training_is_deterministic_and_case_folding_is_a_choice(text, model_type, size):
    folded = spm.train([text], size, model_type, fold_case=True)
    assert folded == spm.train([text], size, model_type, fold_case=True)
    assert not any(piece.lower() != piece for piece in spm.dictionary(folded))
    kept = spm.train([text], size, model_type, fold_case=False)
    assert any(piece.lower() != piece for piece in spm.dictionary(kept))


def test_fairseq_numbers_pieces_in_the_order_of_the_model(text, tmp_path):
    spm.main(["train", str(tmp_path / "out"), "--input", str(text), "--vocab-size", "40"])
    model = tmp_path / "out" / "spm.model"
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    assert processor.get_piece_size() == 40 and processor.id_to_piece(0) == "<unk>"

    vocabulary = Dictionary.load(str(tmp_path / "out" / "dict.txt"))
    assert vocabulary.symbols[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert vocabulary.symbols[4:] == [processor.id_to_piece(i) for i in range(1, 40)]

    spm.main(["encode", str(model), "--input", str(text), "--output", str(tmp_path / "text.spm")])
    lines = (tmp_path / "text.spm").read_text(encoding="utf-8").split("\n")
    assert len(lines) == len(LINES) * 20 + 1 and lines[1] == "" and lines[-1] == ""
    for line, original in zip(lines, LINES):
        ids = vocabulary.encode_line(line, append_eos=False, add_if_not_exist=False).tolist()
        # fairseq puts four symbols where the model has <unk> alone
        assert [i - 3 for i in ids] == processor.encode(original)
        assert processor.decode(line.split()) == original.lower()


def test_encode_counts_its_pieces(text, tmp_path):
    model = spm.train([text], 40, fold_case=True)
    total = spm.encode(model, text, tmp_path / "pieces")
    assert total == len((tmp_path / "pieces").read_text(encoding="utf-8").split())


def test_a_piece_that_fairseq_would_take_for_its_own_is_refused(text):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_writer=model, minloglevel=2, vocab_size=45, model_type="bpe",
        user_defined_symbols=["<mask>"],
    )
    with pytest.raises(ValueError, match="<mask>"):
        spm.dictionary(model.getvalue())


def test_control_pieces_are_left_out(text):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_writer=model, minloglevel=2, vocab_size=40, model_type="bpe",
        pad_id=3,
    )  # <unk>, <s>, </s> and <pad>
    pieces = spm.dictionary(model.getvalue())
    assert len(pieces) == 36 and not set(pieces) & set(spm.FAIRSEQ_SYMBOLS)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["train", "OUT", "--input", "TEXT", "--vocab-size", "5000"], "Vocabulary size"),
        (["train", "OUT", "--input", "TEXT", "--vocab-size", "5"], "5"),
        (["train", "OUT", "--input", "MISSING", "--vocab-size", "40"], "No such file"),
        (["encode", "TEXT", "--input", "TEXT", "--output", "OUT"], "text.txt is no sentencepiece model"),
        (["encode", "MISSING", "--input", "TEXT", "--output", "OUT"], "No such file"),
        (["encode", "TEXT", "--input", "TEXT", "--output", "OUT", "OUT2"], "outputs"),
    ],
)
def test_bad_input_is_one_sentence(text, tmp_path, arguments, expected):
    paths = {"TEXT": text, "OUT": tmp_path / "out", "OUT2": tmp_path / "out2", "MISSING": tmp_path / "no"}
    with pytest.raises(SystemExit) as stopped:
        spm.main([str(paths.get(argument, argument)) for argument in arguments])
    assert expected in str(stopped.value) and "\n" not in str(stopped.value)
    assert not (tmp_path / "out").exists()
