"""Rows of TSV, CSV, JSON and parquet, and that every command reads the same ones."""

import bz2
import gzip
import json
import lzma

import pyarrow
import pyarrow.parquet
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from fairseq_linformer.data.documents import read_documents
from fairseq_linformer.data.own_files import open_own
from fairseq_linformer.data.sources import locate_source, parse_source
from fairseq_linformer.data.tables import Example, build_example, open_table
from fairseq_linformer.evaluation.example_files import read_examples

ROWS = [Example("2", ('say "a", b',), "yes"), Example("3", ("c",), "1")]


def read(path):
    _, records = open_table(path)
    return [build_example(str(number), record, ["text"], "label") for number, record in records(["text", "label"])]


def read_by_each_command(path):
    """Texts and labels as ``prepare pretraining`` (which has no labels), ``finetune`` and ``evaluate`` read them."""
    documents = list(read_documents(locate_source(parse_source(str(path)))))
    _, source = open_own(path, valid=path)
    finetuned = [(each.texts[0], each.label) for each in source.read_rows("train")]
    evaluated = [(each.texts[0], each.label) for each in read_examples(str(path), None)]
    assert documents == [text for text, _ in finetuned] and finetuned == evaluated
    return evaluated


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
        Example("1", ("a",), "yes"),
        Example("2", problem="no text in text"),
        Example("3", problem="no label in label"),
    ]


RECORDS = [{"text": f"text {i}", "label": "yn"[i % 2], "other": {"a": i}} for i in range(3)]
READ = [("text 0", "y"), ("text 1", "n"), ("text 2", "y")]


def zstd(content):
    return pyarrow.compress(content, "zstd", asbytes=True)


@pytest.mark.parametrize("start, indent", [("", None), ("\ufeff", 2), ("\n \n", 2)])
def test_arrays_of_json(start, indent, tmp_path):
    """What pandas' ``to_json(orient="records")`` and most labeling tools write."""
    path = tmp_path / "rows.json"
    path.write_text(start + json.dumps(RECORDS, indent=indent))
    assert read_by_each_command(path) == READ


@pytest.mark.parametrize(
    "suffix, compress", [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".ZST", zstd)]
)
def test_compressed_tables(suffix, compress, tmp_path):
    path = tmp_path / f"rows.jsonl{suffix}"
    path.write_bytes(compress("".join(json.dumps(record) + "\n" for record in RECORDS).encode()))
    assert read_by_each_command(path) == READ


@pytest.mark.parametrize(
    "line, expected",
    [
        (b"too\tmany\t1", "3 columns instead of 2"),
        (b"latin \xe4\t1", "not UTF-8"),
        (b"a\t\xe4", "no label in label"),
        (b" \xe2\x80\x83 \t1", "no text in text"),
        (b"a\t ", "no label in label"),
        (b"a \r b\t1", Example("3", ("a   b",), "1")),
        (b'"a quote\t1', Example("3", ('"a quote',), "1")),
        (b"x" * 3_000_000 + b"\t1", Example("3", ("x" * 3_000_000,), "1")),
    ],
)
def test_lines_of_tsv(line, expected, tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"text\tlabel\na\t1\n" + line + b"\n")
    _, row = read(tmp_path / "a.tsv")
    assert row == (Example("3", problem=expected) if isinstance(expected, str) else expected)


def test_long_and_broken_fields_of_csv(tmp_path):
    (tmp_path / "a.csv").write_text(f'text,label\n{"x" * 200_000},1\n\n"a\r\nb",0\n')
    assert [(row.texts, row.label) for row in read(tmp_path / "a.csv")] == [(("x" * 200_000,), "1"), (("a b",), "0")]
    (tmp_path / "a.csv").write_text('text,label\n"a\nb\nc",\n')
    assert [row.location for row in read(tmp_path / "a.csv")] == ["2"]  # where the row starts


def test_several_columns_without_a_name(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"label,text,,\n1,the cat,,\n")
    known, read = open_table(tmp_path / "a.csv", "csv")
    assert [record for _, record in read(["text", "label"])] == [{"text": "the cat", "label": "1", "": ""}]


def test_blank_lines_are_skipped(tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabel\n\na\t1\n\n")
    (tmp_path / "a.jsonl").write_text('\n{"text": "a", "label": 1}\n\n')
    rows = [Example("3", ("a",), "1")], [Example("2", ("a",), "1")]
    assert (read(tmp_path / "a.tsv"), read(tmp_path / "a.jsonl")) == rows


@pytest.mark.parametrize(
    "line, problem",
    [
        *(
            (f'{{"text": "a", "label": {value}}}', "no label in label")
            for value in ("NaN", "null", "[0]", '{"v": 0}', '" "')
        ),
        *((f'{{"text": {value}, "label": 1}}', "no text in text") for value in ("null", "3", '""', '" \\n"')),
        ('{"text": "\\ud800", "label": 1}', "not UTF-8"),
        ("[]", "not a JSON object"),
    ],
)
def test_lines_of_json(line, problem, tmp_path):
    good = '{"text": "a", "label": 1}'
    (tmp_path / "a.jsonl").write_text(f"{good}\n{line}\n{good}\n")
    rows = [Example("1", ("a",), "1"), Example("2", problem=problem), Example("3", ("a",), "1")]
    assert read(tmp_path / "a.jsonl") == rows


def test_some_records_of_json_may_lack_a_column(tmp_path):
    lines = [*2 * ['{"text": "a"}'], '{"text": "b", "label": 1, "sentence": ""}', '{"text": "b", "label": 1, "n": 0}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert open_table(tmp_path / "a.jsonl")[0] == ["text", "label"]
    assert read(tmp_path / "a.jsonl")[1:3] == [Example("2", problem="no label in label"), Example("3", ("b",), "1")]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", b'text,label\na,1\n"b,0\nc,1\n', "a.csv, row from line 3 is not CSV: unexpected end of data"),
        ("a.zip", b"PK", "a.zip must end in one of .tsv.*, which may be followed by .gz.*; archives must be unpacked"),
        ("a.tsv", b"text\ttext\n", "a.tsv has a duplicate column"),
        ("a.tsv", b"text\tlabel\na\n", "a.tsv:2: 1 columns instead of 2"),
        ("a.parquet", b"", "a.parquet is truncated or damaged: "),
    ],
)
def test_rejected_files(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name)
