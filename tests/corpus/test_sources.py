"""Which files a source is, and what it may say of them."""

import json

import pytest

from fairseq_linformer.corpus import documents
from fairseq_linformer.corpus.plan import Chunk, make_plan
from fairseq_linformer.corpus.pretraining import Options, prepare
from fairseq_linformer.corpus.sources import files_of, parse, takes

from .corpora import hub, made_up, write_rows, write_text


@pytest.mark.parametrize(
    "source, message",
    [
        ("x.txt,revision=main", "revision=.*hub:NAME"),
        ("x.txt,config=en", "config="),
        ("x.txt,split=train", "split="),
        ("hub:x,format=text", "format=.*files"),
        ("x.txt,column=body", "x.txt is text.*column="),
        ("x.txt,title=t", "title="),
        ("x.txt,group=g", "group="),
        ("x.txt,rows=2", "rows="),
        ("y.jsonl,format=text,rows=2", "rows="),
        ("hub:hub,revision=main", "hub:hub is a folder.*revision="),
    ],
)
def test_keys_of_what_a_source_is_not(tmp_path, monkeypatch, source, message):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "x.txt", made_up())
    write_text(tmp_path / "y.jsonl", made_up())
    hub(tmp_path, made_up())
    with pytest.raises(ValueError, match=message):
        make_plan([parse(source)], 1 << 20)


def test_a_folder_with_text_and_rows_may_say_what_its_rows_are(tmp_path):
    write_text(tmp_path / "x.txt", made_up())
    write_rows(tmp_path / "y.parquet", made_up())
    assert {chunk.format for chunk in make_plan([parse(f"{tmp_path},rows=2")], 1 << 20).chunks} == {"text", "parquet"}


def test_a_folder_is_read_with_all_but_its_hidden_ones(tmp_path):
    for name in ("a/b/x.txt", "y.txt", ".git/x.txt", "a/.cache/x.txt", ".x.txt"):
        (tmp_path / ".in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".in" / name).write_text("low\n")
    for location in (tmp_path / ".in", f"hub:{tmp_path / '.in'}"):
        assert files_of(parse(str(location))) == [str(tmp_path / ".in" / name) for name in ("a/b/x.txt", "y.txt")]


@pytest.mark.parametrize("source", ["in", "in/", "hub:in", "in,format=text", "in/**/*.txt", "in/**", "**/*.json", "in/*/*", "in/*/*/*.txt", "./in/../in"])
def test_a_folder_from_which_the_source_would_read(tmp_path, gpt2, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    write_text(tmp_path / "in" / "x.txt", made_up())
    with pytest.raises(ValueError, match="^in/out lies in the source .* in/out/"):
        prepare("in/out", Options((source,), str(gpt2)))


def test_a_folder_beside_the_files_of_a_pattern(tmp_path, gpt2, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    write_text(tmp_path / "in" / "x.txt", made_up())
    for source in ("in/*.txt", "in/x.txt", "in/**/*.text"):
        assert not takes(parse(source), "in/out/shard0/dict.txt") and not takes(parse(source), "in/out/plan.json")
    prepare("in/out", Options(("in/*.txt",), str(gpt2), valid_share=0.3), workers=1)


def read_rows(path, rows, source):
    path.write_text("\n".join(map(json.dumps, rows)))
    found = documents.documents(Chunk(0, str(path), "jsonl", 0, None, 1), parse(f"{path},{source}"))
    return [(raw.text, raw.unfit and raw.unfit.reason) for raw in found]


def test_rows_say_which_column_they_lack(tmp_path):
    rows = [{"text": "a", "book": 1}, {"text": "b"}, {"book": 1}, {"text": "c", "book": 1}]
    assert read_rows(tmp_path / "x", rows, "group=book") == [(None, "no book"), (None, "no text in text"), ("a\nc", None)]


def test_the_length_of_joined_rows_is_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_DOCUMENT", 100)
    assert read_rows(tmp_path / "x", [{"text": "\u00e9" * 6}] * 6, "rows=6") == [("\n".join(["\u00e9" * 6] * 6), None)]
    assert read_rows(tmp_path / "x", [{"text": "\u00e9" * 9}] * 6, "rows=6") == [(None, documents.LONG_DOCUMENT)]
