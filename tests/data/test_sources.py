"""Which files a source reads, and which keys it allows."""

import json

import pytest

from fairseq_linformer.data import documents
from fairseq_linformer.data.plan import Chunk, make_plan
from fairseq_linformer.data.pretraining import CorpusOptions, prepare_corpus
from fairseq_linformer.data.sources import list_files, parse_source, reads_path

from .corpora import build_documents, hub, write_rows, write_text


@pytest.mark.parametrize(
    "source, message",
    [
        ("x.txt,revision=main", "revision=.*hub:NAME"),
        ("x.txt,config=en", "config="),
        ("x.txt,split=train", "split="),
        ("hub:x,format=text", "format=.*files"),
        ("x.txt,column=body", "x.txt.*column="),
        ("x.txt,title=t", "title="),
        ("x.txt,group=g", "group="),
        ("x.txt,rows=2", "rows="),
        ("y.jsonl,format=text,rows=2", "rows="),
        ("hub:hub,revision=main", "hub:hub.*revision="),
    ],
)
def test_keys_for_other_kinds_of_source_are_rejected(tmp_path, monkeypatch, source, message):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "x.txt", build_documents())
    write_text(tmp_path / "y.jsonl", build_documents())
    hub(tmp_path, build_documents())
    with pytest.raises(ValueError, match=message):
        make_plan([parse_source(source)], 1 << 20)


def test_row_keys_are_allowed_for_folders_with_text_and_rows(tmp_path):
    write_text(tmp_path / "x.txt", build_documents())
    write_rows(tmp_path / "y.parquet", build_documents())
    assert {chunk.format for chunk in make_plan([parse_source(f"{tmp_path},rows=2")], 1 << 20).chunks} == {
        "text",
        "parquet",
    }


def test_folders_are_read_recursively_without_hidden_ones(tmp_path):
    for name in ("a/b/x.txt", "y.txt", ".git/x.txt", "a/.cache/x.txt", ".x.txt"):
        (tmp_path / ".in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".in" / name).write_text("low\n")
    for location in (tmp_path / ".in", f"hub:{tmp_path / '.in'}"):
        assert list_files(parse_source(str(location))) == [
            str(tmp_path / ".in" / name) for name in ("a/b/x.txt", "y.txt")
        ]


@pytest.mark.parametrize(
    "source",
    [
        "in",
        "in/",
        "hub:in",
        "in,format=text",
        "in/**/*.txt",
        "in/**",
        "**/*.json",
        "in/*/*",
        "in/*/*/*.txt",
        "./in/../in",
    ],
)
def test_output_inside_the_source_is_rejected(tmp_path, gpt2, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    write_text(tmp_path / "in" / "x.txt", build_documents())
    with pytest.raises(ValueError, match="OUT must be outside source .* in/out/"):
        prepare_corpus("in/out", CorpusOptions((source,), str(gpt2)))


def test_output_next_to_the_files_of_a_pattern_is_allowed(tmp_path, gpt2, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    write_text(tmp_path / "in" / "x.txt", build_documents())
    for source in ("in/*.txt", "in/x.txt", "in/**/*.text"):
        assert not reads_path(parse_source(source), "in/out/shard0/dict.txt") and not reads_path(
            parse_source(source), "in/out/plan.json"
        )
    prepare_corpus("in/out", CorpusOptions(("in/*.txt",), str(gpt2), valid_share=0.3), workers=1)


def read_rows(path, rows, source):
    path.write_text("\n".join(map(json.dumps, rows)))
    chunk = Chunk(0, str(path), "jsonl", 0, None, 1)
    raw_documents = documents.read_documents(chunk, parse_source(f"{path},{source}"))
    return [(raw.text, raw.unfit and raw.unfit.reason) for raw in raw_documents]


def test_rows_without_a_column_are_unfit(tmp_path):
    rows = [{"text": "a", "book": 1}, {"text": "b"}, {"book": 1}, {"text": "c", "book": 1}]
    assert read_rows(tmp_path / "x", rows, "group=book") == [
        (None, "no book"),
        (None, "no text in text"),
        ("a\nc", None),
    ]


def test_maximum_length_of_joined_rows_is_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_DOCUMENT", 100)
    assert read_rows(tmp_path / "x", [{"text": "\u00e9" * 6}] * 6, "rows=6") == [("\n".join(["\u00e9" * 6] * 6), None)]
    assert read_rows(tmp_path / "x", [{"text": "\u00e9" * 9}] * 6, "rows=6") == [(None, documents.LONG_DOCUMENT)]
