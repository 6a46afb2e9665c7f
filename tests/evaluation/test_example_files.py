"""Files of examples: formats, inferred columns and rejected content."""

import pytest

from fairseq_linformer.data.tables import Example
from fairseq_linformer.evaluation.example_files import read_examples


def read(path, kind=None, texts=(), label=None, inputs=None):
    return list(read_examples(str(path), kind, texts, label, inputs))


@pytest.mark.parametrize(
    "name, content, expected",
    [
        ("a.tsv", "index\tquestion\tsentence\tlabel\n0\tq\ts\tyes\n", [Example("{}:2", ("q", "s"), "yes")]),
        ("a.tsv", "id\tquestion1\tquestion2\tis_duplicate\n0\tq\tr\t1\n", [Example("{}:2", ("q", "r"), "1")]),
        ("a.csv", "label,premise,hypothesis\n1,a cat,a dog\n", [Example("{}:2", ("a cat", "a dog"), "1")]),
        ("a.tsv", "text\nno label\n", [Example("{}:2", ("no label",))]),
        ("a.tsv", "text\tlabel\na\t1\nb\t \n", [Example("{}:2", ("a",), "1"), Example("{}:3", ("b",))]),
        ("a.txt", "one\n \ntwo\n", [Example("{}:1", ("one",)), Example("{}:2", ("",)), Example("{}:3", ("two",))]),
        ("a.txt", "one\ttwo\n\n", [Example("{}:1", ("one", "two")), Example("{}:2", ("", ""))]),
    ],
)
def test_examples_of_each_format(name, content, expected, tmp_path):
    (tmp_path / name).write_bytes(content.encode())
    assert read(tmp_path / name) == [Example(e.location.format(tmp_path / name), e.texts, e.label) for e in expected]


def test_label_column_is_inferred_and_reported(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("sentence1\tsentence2\tscore\na\tb\t5\n")
    assert read(tmp_path / "a.tsv", texts=("sentence1", "sentence2")) == [
        Example(f"{tmp_path}/a.tsv:2", ("a", "b"), "5")
    ]
    assert capsys.readouterr().err == f"{tmp_path}/a.tsv: text in sentence1 and sentence2, labels in score\n"


@pytest.mark.parametrize(
    "name, content, options, message",
    [
        ("a.txt", b"", {}, "has no rows"),
        ("a.tsv", b"review\tlabel\na\t1\n", {}, "--text-column.*review, label"),
        ("a.tsv", b"text\tsentence\tlabel\na\tb\t1\n", {}, "sentence and in text.*--text-column"),
        ("a.jsonl", b'[{"text": "a"}', {}, "a.jsonl is not JSON: .* line 1 column 15"),
        ("a.tsv", b"sentence1\tsentence2\na\tb\n", {"inputs": 1}, "--text-column.*sentence1, sentence2"),
        ("a.tsv", b"x\ty\na\tb\n", {"texts": ("x", "y"), "inputs": 1}, "must be 1 .*x, y"),
        ("a.tsv", b"a\n1\n", {"texts": ("a", "a", "a")}, "--text-column.*a, a, a"),
        ("a.txt", b"a\tb\n", {"inputs": 1}, "a.txt:1 must have 1 texts.* 2"),
        ("a.txt", b"a\tb\tc\n", {}, "a.txt:1 must have one or two texts.* 3"),
        ("a.txt", b"a\tb\nc\n", {}, "a.txt:2 must have 2 texts.* 1"),
        ("a.txt", b"a\n", {"texts": ("text",)}, "a.txt.*column text.*--format"),
    ],
)
def test_rejected_files(name, content, options, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name, **options)
