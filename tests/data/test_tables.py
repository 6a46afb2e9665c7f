"""Rows of TSV, CSV, JSON lines and parquet."""

import pytest
from datasets import ClassLabel, Dataset, Features, Value

from fairseq_linformer.data.tables import Row, build_row, read_table

ROWS = [Row("2", ('say "a", b',), "yes"), Row("3", ("c",), "1")]


def read(path, columns=None):
    return [build_row(str(number), record, ["text"], "label") for number, record in read_table(path, columns)]


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.tsv", 'text\tlabel\n say "a", b \tyes\nc\t1\n'),
        ("a.tsv", '\ufefftext\tlabel\r\nsay "a", b\tyes\r\nc\t1'),
        ("a.csv", 'text,label\n"say ""a"", b",yes\nc,1\n'),
        ("a.CSV", 'label,other,text\r\nyes,,"say ""a"", b"\r\n1,,c\r\n'),
        ("a.jsonl", '{}\n{"text": "say \\"a\\", b", "label": "yes"}\n{"text": "c", "label": 1}\n'),
    ],
)
def test_formats(name, content, tmp_path):
    (tmp_path / name).write_bytes(content.encode())
    assert read(tmp_path / name)[-2:] == ROWS


def test_parquet_has_names_of_classes(tmp_path):
    features = Features({"text": Value("string"), "label": ClassLabel(names=["no", "yes"])})
    data = Dataset.from_dict({"text": ["a", None, "b"], "label": [1, 0, -1]}, features=features)
    data.to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == [
        Row("1", ("a",), "yes"),
        Row("2", problem="no text in text"),
        Row("3", problem="no label in label"),
    ]


def test_files_without_a_header(tmp_path):
    (tmp_path / "a.tsv").write_text("x\tyes\ta\n")
    assert read(tmp_path / "a.tsv", ["source", "label", "text"]) == [Row("1", ("a",), "yes")]


@pytest.mark.parametrize(
    "line, expected",
    [
        (b"too\tmany\t1", "3 columns instead of 2"),
        (b"latin \xe4\t1", "not UTF-8"),
        (b"a\t\xe4", "no label in label"),
        (b" \xe2\x80\x83 \t1", "no text in text"),
        (b"a\t ", "no label in label"),
        (b"a \r b\t1", Row("2", ("a   b",), "1")),
        (b'"a quote\t1', Row("2", ('"a quote',), "1")),
        (b"x" * 3_000_000 + b"\t1", Row("2", ("x" * 3_000_000,), "1")),
    ],
)
def test_lines_of_tsv(line, expected, tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"text\tlabel\n" + line + b"\n")
    assert read(tmp_path / "a.tsv") == [Row("2", problem=expected) if isinstance(expected, str) else expected]


def test_long_and_broken_fields_of_csv(tmp_path):
    (tmp_path / "a.csv").write_text(f'text,label\n{"x" * 200_000},1\n\n"a\r\nb",0\n')
    assert [(row.texts, row.label) for row in read(tmp_path / "a.csv")] == [(("x" * 200_000,), "1"), (("a b",), "0")]


def test_blank_lines_are_skipped(tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabel\n\na\t1\n\n")
    (tmp_path / "a.jsonl").write_text('\n{"text": "a", "label": 1}\n\n')
    rows = [Row("3", ("a",), "1")], [Row("2", ("a",), "1")]
    assert (read(tmp_path / "a.tsv"), read(tmp_path / "a.jsonl")) == rows


@pytest.mark.parametrize("value", ["NaN", "null", "[0]", '{"v": 0}', '" "'])
def test_values_of_json_that_are_no_label(value, tmp_path):
    (tmp_path / "a.jsonl").write_text(f'{{"text": "a", "label": {value}}}\n')
    assert read(tmp_path / "a.jsonl") == [Row("1", problem="no label in label")]


@pytest.mark.parametrize("value", ["null", "3", '""', '" \\n"', '"\\ud800"'])
def test_values_of_json_that_are_no_text(value, tmp_path):
    (tmp_path / "a.jsonl").write_text(f'{{"text": {value}, "label": 1}}\n')
    (row,) = read(tmp_path / "a.jsonl")
    assert row.problem == ("not UTF-8" if "ud800" in value else "no text in text")


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", b'text,label\na,1\n"b,0\nc,1\n', "a.csv, row from line 3 is not CSV: unexpected end of data"),
        ("a.zip", b"PK", "a.zip must end in one of .tsv.*; archives must be unpacked"),
        ("a.tsv", b"text\ttext\n", "a.tsv has a duplicate column"),
        ("a.parquet", b"", "a.parquet is not a parquet file"),
    ],
)
def test_rejected_files(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name)
