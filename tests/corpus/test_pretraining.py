"""Documents of every kind of source become the rows of a slow obvious reference."""

import argparse
import bz2
import hashlib
import json
import lzma
import shlex
from dataclasses import fields
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from fairseq_linformer.corpus.pretraining import Options, prepare
from fairseq_linformer.corpus.tokenizer import GPT2

from .corpora import SMALL, made_up, write_text, reference, read, sum_of_documents, sentences, SOURCES


@pytest.mark.parametrize("shards, unique, chunk", [(1, False, SMALL), (3, False, 1), (2, True, SMALL), (1, True, SMALL / 20)])
def test_equals_the_reference(tmp_path, gpt2, shards, unique, chunk):
    documents = made_up()
    source = write_text(tmp_path / "text.txt", documents)
    options = Options((str(source),), str(gpt2), valid_share=0.3, shards=shards, unique_paragraphs=unique, chunk_mib=chunk)
    said = prepare(tmp_path / "out", options, workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3, shards, unique)
    assert said.splitlines()[-1] == "for fairseq-train: " + ":".join(str(tmp_path / f"out/shard{i}") for i in range(shards))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    source, splits = manifest["sources"][0], manifest["splits"]
    assert source["emptied_documents"] == unique and sum_of_documents(source) == 60
    assert source["documents_read"] == 60 and source["duplicate_documents"] == 3
    assert source["documents"] == sum(split["documents"] for split in splits.values()) == (57 if not unique else 56)
    paragraphs = sum(map(len, {"".join(document): document for document in documents}.values()))
    assert source["duplicate_paragraphs"] == paragraphs - source["paragraphs"] and (source["duplicate_paragraphs"] >= 3) == unique
    lines = read(tmp_path / "out")
    for split, counts in splits.items():
        name = "shard0/valid" if split == "valid" else f"shard{split[5:]}/train"
        assert counts["tokens"] == sum(map(len, lines[name]))
        assert counts["documents"] + counts["paragraphs"] == len(lines[name])
    for name, file in manifest["files"].items():
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == file["sha256"]
    assert not (tmp_path / "out" / "work").exists()


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.slow
def test_sources_hold_the_same_documents(tmp_path, gpt2, kind):
    documents = made_up()
    source = SOURCES[kind](tmp_path, documents)
    prepare(tmp_path / "out", Options((source,), str(gpt2), valid_share=0.3, chunk_mib=SMALL), workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)


def test_sources_come_in_order_and_keep_their_licence(tmp_path, gpt2):
    documents = made_up()
    first, second = write_text(tmp_path / "b.txt", documents[:30]), write_text(tmp_path / "a.txt", documents[30:])
    options = Options((f"{first},licence=MIT", str(second)), str(gpt2), valid_share=0.3)
    prepare(tmp_path / "out", options, workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [source["licence"] for source in manifest["sources"]] == ["MIT", "not stated"]
    assert manifest["command"].startswith(f"fairseq-linformer prepare pretraining {tmp_path}/out --source {first},licence=MIT --source ")


def test_titles_and_rows_that_nothing_joins(tmp_path, gpt2):
    rows = [{"t": f"title {i}", "text": f"hello {i}"} for i in range(21)]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = Options((f"{tmp_path}/x.jsonl,title=t,rows=2",), str(gpt2), valid_share=0.5)
    prepare(tmp_path / "out", options, workers=1)
    lines = [line for row in rows for line in row.values()]
    documents = [lines[i : i + 4] for i in range(0, len(lines), 4)]
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.5)


def test_text_is_cleaned(tmp_path, gpt2):
    (tmp_path / "x.txt").write_bytes("\ufeffhello\r\n  low\x07er \x0cnext\u2028line\n \t \ncafe\x01\u0301\n\n\n\nb\n".encode())
    prepare(tmp_path / "out", Options((f"{tmp_path}/x.txt",), str(gpt2), valid_share=0.4), workers=1)
    documents = [["hello", "lower", "next", "line"], ["caf\u00e9"], ["b"]]
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.4)


def test_a_source_without_documents(tmp_path, gpt2):
    documents = made_up()
    pyarrow.parquet.ParquetWriter(tmp_path / "none.parquet", pyarrow.schema({"text": pyarrow.string()})).close()
    sources = (str(write_text(tmp_path / "text.txt", documents)), str(tmp_path / "none.parquet"))
    prepare(tmp_path / "out", Options(sources, str(gpt2), valid_share=0.3), workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["sources"][1]["documents"] == 0
    (tmp_path / "blank.txt").write_text("\n \n\n")
    for source in (sources[1], str(tmp_path / "blank.txt")):
        with pytest.raises(ValueError, match="the sources have no documents"):
            prepare(tmp_path / "other", Options((source,), str(gpt2)), workers=1)


@pytest.mark.parametrize("keys", ["group=book", "rows=4"])
def test_the_size_of_chunks_changes_no_document(tmp_path, gpt2, keys):
    documents = made_up()
    source = sentences(tmp_path, documents).split(",")[0] + f",column=sentence,{keys}"
    outs = [tmp_path / str(chunk) for chunk in (1, SMALL)]
    for out, chunk in zip(outs, (1, SMALL)):
        prepare(out, Options((source,), str(gpt2), valid_share=0.3, chunk_mib=chunk), workers=1)
    assert read(outs[0]) == read(outs[1])


@pytest.mark.slow
def test_a_book_may_go_on_in_the_next_shard_of_the_hub(tmp_path, gpt2):
    documents = made_up(40)
    rows = [{"book": i, "text": line} for i, document in enumerate(documents) for line in document]
    (tmp_path / "hub").mkdir()
    for i, part in enumerate((rows[: len(rows) // 2], rows[len(rows) // 2 :])):
        (tmp_path / "hub" / f"train-0000{i}-of-00002.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    prepare(tmp_path / "out", Options((f"hub:{tmp_path / 'hub'},group=book",), str(gpt2), valid_share=0.3), workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)


@pytest.mark.parametrize("suffix, module", [(".bz2", bz2), (".xz", lzma)])
def test_files_of_several_compressed_streams(tmp_path, gpt2, suffix, module):
    documents = made_up()
    parts = [module.compress(write_text(tmp_path / "plain", documents[i : i + 20]).read_bytes() + b"\n") for i in (0, 20, 40)]
    path = tmp_path / f"text.txt{suffix}"
    path.write_bytes(b"".join(parts))
    prepare(tmp_path / "out", Options((str(path),), str(gpt2), valid_share=0.3), workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)
    wrong = bytearray(b"".join(parts))
    wrong[len(parts[0]) + 1] ^= 1
    path.write_bytes(wrong)
    with pytest.raises(ValueError, match=f"text.txt{suffix} is "):
        prepare(tmp_path / "other", Options((str(path),), str(gpt2), valid_share=0.3), workers=1)


def test_the_command_says_every_option():
    from fairseq_linformer.cli.prepare import add_parser

    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    options = Options(("a b.txt,rows=2", "c"), None, "m", valid_share=0.1, shards=3, unique_paragraphs=True, chunk_mib=2.5, max_skipped=0.2)
    said = vars(parser.parse_args(shlex.split(options.command("my out"))[1:]))
    assert said["out"] == Path("my out") and tuple(said["source"]) == options.sources
    assert all(said[f.name] == getattr(options, f.name) for f in fields(Options) if f.name != "sources")
