"""Files of texts: what is read, and what is refused in a sentence."""

import io
import sys

import pytest

from fairseq_linformer.evaluation.texts import Example, read_examples


def read(path, kind=None, texts=(), label=None, inputs=None):
    return list(read_examples(str(path), kind, texts, label, inputs))


@pytest.mark.parametrize("name, content, expected", [
    ("a.tsv", "sentence\tlabel\n a  b \t1\n\"c\t0\n", [Example("{}:2", ("a  b",), "1"), Example("{}:3", ('"c',), "0")]),
    ("a.tsv", "index\tquestion\tsentence\tlabel\n0\tq\ts\tentailment\n", [Example("{}:2", ("q", "s"), "entailment")]),
    ("a.tsv", "\ufeffid\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\r\n0\t1\t2\tq\tr\t1\r\n", [Example("{}:2", ("q", "r"), "1")]),
    ("a.tsv", "text\nno label\n", [Example("{}:2", ("no label",))]),
    ("a.jsonl", '{"text": "a\\tb\\nc", "label": 1}\n', [Example("{}:1", ("a b c",), "1")]),
    ("a.txt", "one\ntwo\n", [Example("{}:1", ("one",)), Example("{}:2", ("two",))]),
    ("a.txt", "one\ttwo", [Example("{}:1", ("one", "two"))]),
])  # fmt: skip
def test_what_is_read(name, content, expected, tmp_path):
    (tmp_path / name).write_bytes(content.encode())
    assert read(tmp_path / name) == [Example(e.place.format(tmp_path / name), e.texts, e.label) for e in expected]


def test_columns_can_be_named(tmp_path):
    (tmp_path / "a.tsv").write_text("text\treview\tstars\na\tb\t5\n")
    assert read(tmp_path / "a.tsv", texts=("review", "text"), label="stars") == [Example(f"{tmp_path}/a.tsv:2", ("b", "a"), "5")]


def test_a_label_is_found_where_the_texts_of_a_task_are_named(tmp_path):
    (tmp_path / "a.tsv").write_text("sentence1\tsentence2\tscore\na\tb\t5\n")
    assert read(tmp_path / "a.tsv", texts=("sentence1", "sentence2")) == [Example(f"{tmp_path}/a.tsv:2", ("a", "b"), "5")]


def test_what_was_found_is_told(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("sentence\tlabel\na\t5\n")
    read(tmp_path / "a.tsv")
    assert capsys.readouterr().err == f"{tmp_path}/a.tsv: texts in sentence, labels in label\n"


def test_standard_input_is_text(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
    assert read("-") == [Example("standard input:1", ("one",)), Example("standard input:2", ("two",))]


@pytest.mark.parametrize("name, content, options, said", [
    ("a.tsv", b"", {}, "is empty"),
    ("a.tsv", b"sentence\tlabel\n", {}, "has no rows"),
    ("a.tsv", b"review\tlabel\na\t1\n", {}, "has the columns review, label; none is known to hold the text, --text COLUMN says which"),
    ("a.tsv", b"text\na\n", {"texts": ("review",)}, "has no column review; it has text"),
    ("a.tsv", b"text\na\n", {"label": "gold"}, "has no column gold; it has text"),
    ("a.tsv", b"text\tlabel\na\n", {}, "a.tsv:2 has 1 columns where the header has 2"),
    ("a.tsv", b"text\ttext\na\tb\n", {}, "has a header with the same column twice"),
    ("a.tsv", b"text\n\xff\n", {}, "a.tsv:2 is not UTF-8: byte 1 is 0xff"),
    ("a.tsv", b"text\tlabel\n \t1\n", {}, "a.tsv:2 has an empty text; each row needs its text"),
    ("a.jsonl", b"[1]\n", {}, "a.jsonl:1 is no JSON object"),
    ("a.jsonl", b'{"text": "a", "label": 1}\n{"text": "b"}\n', {}, "a.jsonl:2 has no label"),
    ("a.jsonl", b'{"text": "a"}\n{"text": "b", "label": 1}\n', {}, "a.jsonl:2 has a label, and the rows before it have none"),
    ("a.jsonl", b'{"question1": "a", "question2": "b"}\n{"question1": "a", "question2": "b", "is_duplicate": 1}\n', {},
     "a.jsonl:2 has a is_duplicate, and the rows before it have none"),
    ("a.tsv", b"text\tsentence\tlabel\na\tb\t1\n", {}, "has texts in sentence and in text; --text COLUMN says which are wanted"),
    ("a.jsonl", b'{"text": "\\ud800"}\n', {}, "a.jsonl:1 has half a surrogate pair in text"),
    ("a.jsonl", b"[" * 100_000, {}, "a.jsonl:1 is no JSON object"),
    ("a.tsv", b"sentence1\tsentence2\na\tb\n", {"inputs": 1}, "has the columns sentence1, sentence2; none is known"),
    ("a.tsv", b"x\ty\na\tb\n", {"texts": ("x", "y"), "inputs": 1}, "has 2 texts a row, x, y; the model was trained on 1"),
    ("a.txt", b"a\tb\n", {"inputs": 1}, "has 2 texts a line; the model was trained on 1"),
    ("a.tsv", b"a\n1\n", {"texts": ("a", "a", "a")}, "--text names a, a, a; one column is wanted, or two"),
    ("a.jsonl", b'{"text": 3}\n', {}, "a.jsonl:1 has no text in text"),
    ("a.txt", b"a\tb\tc\n", {}, "a.txt:1 has 3 texts"),
    ("a.txt", b"a\tb\nc\n", {}, "a.txt:2 has 1 texts with tabs between; .* in each line the same"),
    ("a.txt", b"a\n", {"texts": ("text",)}, "is text, a row a line, and has no column text"),
    ("a.csv", b"a\n", {}, r"a.csv ends in .csv; .tsv, .jsonl, .json, .txt are known, else --format"),
    ("a.txt", b"x" * 999_010, {}, "a.txt:1 is longer than 999,000 bytes"),
])  # fmt: skip
def test_what_is_refused(name, content, options, said, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        read(tmp_path / name, **options)
