"""Corpora from every kind of source equal those of a slow reference implementation."""

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

from fairseq_linformer.data.pretraining import CorpusOptions, prepare_corpus
from fairseq_linformer.data.tokenizer import GPT2

from .corpora import SMALL, SOURCES, build_documents, read, reference, sentences, sum_of_documents, write_text


@pytest.mark.parametrize(
    "shards, unique, chunk", [(1, False, SMALL), (3, False, 1), (2, True, SMALL), (1, True, SMALL / 20)]
)
def test_corpus_equals_the_reference(tmp_path, gpt2, shards, unique, chunk):
    documents = build_documents()
    source = write_text(tmp_path / "text.txt", documents)
    options = CorpusOptions(
        (str(source),), str(gpt2), valid_share=0.3, shards=shards, unique_paragraphs=unique, chunk_mib=chunk
    )
    summary = prepare_corpus(tmp_path / "out", options, workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3, shards, unique)
    assert summary.splitlines()[-1] == "for fairseq-train: " + ":".join(
        str(tmp_path / f"out/shard{i}") for i in range(shards)
    )
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    source, splits = manifest["sources"][0], manifest["splits"]
    assert source["emptied_documents"] == unique and sum_of_documents(source) == 60
    assert source["documents_read"] == 60 and source["duplicate_documents"] == 3
    assert source["documents"] == sum(split["documents"] for split in splits.values()) == (57 if not unique else 56)
    paragraphs = sum(map(len, {"".join(document): document for document in documents}.values()))
    assert (
        source["duplicate_paragraphs"] == paragraphs - source["paragraphs"]
        and (source["duplicate_paragraphs"] >= 3) == unique
    )
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
def test_source_formats_yield_the_same_documents(tmp_path, gpt2, kind):
    documents = build_documents()
    source = SOURCES[kind](tmp_path, documents)
    prepare_corpus(tmp_path / "out", CorpusOptions((source,), str(gpt2), valid_share=0.3, chunk_mib=SMALL), workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)


def test_sources_keep_their_order_and_license(tmp_path, gpt2):
    documents = build_documents()
    first, second = write_text(tmp_path / "b.txt", documents[:30]), write_text(tmp_path / "a.txt", documents[30:])
    options = CorpusOptions((f"{first},license=MIT", str(second)), str(gpt2), valid_share=0.3)
    prepare_corpus(tmp_path / "out", options, workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [source["license"] for source in manifest["sources"]] == ["MIT", "not stated"]
    assert manifest["command"].startswith(
        f"fairseq-linformer prepare pretraining {tmp_path}/out --source {first},license=MIT --source "
    )


def test_titles_and_joined_rows(tmp_path, gpt2):
    rows = [{"t": f"title {i}", "text": f"hello {i}"} for i in range(21)]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = CorpusOptions((f"{tmp_path}/x.jsonl,title=t,rows=2",), str(gpt2), valid_share=0.5)
    prepare_corpus(tmp_path / "out", options, workers=1)
    lines = [line for row in rows for line in row.values()]
    documents = [lines[i : i + 4] for i in range(0, len(lines), 4)]
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.5)


def test_text_is_cleaned(tmp_path, gpt2):
    (tmp_path / "x.txt").write_bytes(
        "\ufeffhello\r\n  low\x07er \x0cnext\u2028line\n \t \ncafe\x01\u0301\n\n\n\nb\n".encode()
    )
    prepare_corpus(tmp_path / "out", CorpusOptions((f"{tmp_path}/x.txt",), str(gpt2), valid_share=0.4), workers=1)
    documents = [["hello", "lower", "next", "line"], ["caf\u00e9"], ["b"]]
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.4)


def test_source_without_documents_is_rejected(tmp_path, gpt2):
    documents = build_documents()
    pyarrow.parquet.ParquetWriter(tmp_path / "none.parquet", pyarrow.schema({"text": pyarrow.string()})).close()
    sources = (str(write_text(tmp_path / "text.txt", documents)), str(tmp_path / "none.parquet"))
    prepare_corpus(tmp_path / "out", CorpusOptions(sources, str(gpt2), valid_share=0.3), workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["sources"][1]["documents"] == 0
    (tmp_path / "blank.txt").write_text("\n \n\n")
    for source in (sources[1], str(tmp_path / "blank.txt")):
        with pytest.raises(ValueError, match="the sources have no documents"):
            prepare_corpus(tmp_path / "other", CorpusOptions((source,), str(gpt2)), workers=1)


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["group=book", "rows=4"])
def test_chunk_size_does_not_change_documents(tmp_path, gpt2, keys):
    documents = build_documents()
    source = sentences(tmp_path, documents).split(",")[0] + f",column=sentence,{keys}"
    outs = [tmp_path / str(chunk) for chunk in (1, SMALL)]
    for out, chunk in zip(outs, (1, SMALL)):
        prepare_corpus(out, CorpusOptions((source,), str(gpt2), valid_share=0.3, chunk_mib=chunk), workers=1)
    assert read(outs[0]) == read(outs[1])


@pytest.mark.slow
def test_a_book_may_continue_in_the_next_hub_shard(tmp_path, gpt2):
    documents = build_documents(40)
    rows = [{"book": i, "text": line} for i, document in enumerate(documents) for line in document]
    (tmp_path / "hub").mkdir()
    for i, part in enumerate((rows[: len(rows) // 2], rows[len(rows) // 2 :])):
        (tmp_path / "hub" / f"train-0000{i}-of-00002.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    prepare_corpus(
        tmp_path / "out", CorpusOptions((f"hub:{tmp_path / 'hub'},group=book",), str(gpt2), valid_share=0.3), workers=1
    )
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("suffix, module", [(".bz2", bz2), (".xz", lzma)])
def test_concatenated_compressed_streams(tmp_path, gpt2, suffix, module):
    documents = build_documents()
    parts = [
        module.compress(write_text(tmp_path / "plain", documents[i : i + 20]).read_bytes() + b"\n") for i in (0, 20, 40)
    ]
    path = tmp_path / f"text.txt{suffix}"
    path.write_bytes(b"".join(parts))
    prepare_corpus(tmp_path / "out", CorpusOptions((str(path),), str(gpt2), valid_share=0.3), workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)
    wrong = bytearray(b"".join(parts))
    wrong[len(parts[0]) + 1] ^= 1
    path.write_bytes(wrong)
    with pytest.raises(ValueError, match=f"text.txt{suffix} is "):
        prepare_corpus(tmp_path / "other", CorpusOptions((str(path),), str(gpt2), valid_share=0.3), workers=1)


def test_command_has_every_option():
    from fairseq_linformer.cli.prepare import add_parser

    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    options = CorpusOptions(
        ("a b.txt,rows=2", "c"),
        None,
        "m",
        valid_share=0.1,
        shards=3,
        unique_paragraphs=True,
        chunk_mib=2.5,
        max_skipped=0.2,
    )
    parsed = vars(parser.parse_args(shlex.split(options.command("my out"))[1:]))
    assert parsed["out"] == Path("my out") and tuple(parsed["source"]) == options.sources
    parsed |= {"gpt2": parsed.pop("gpt2_bpe"), "sentencepiece": parsed.pop("sentencepiece_model")}
    assert all(parsed[f.name] == getattr(options, f.name) for f in fields(CorpusOptions) if f.name != "sources")
