"""Corpora from every kind of source equal those of a slow reference implementation."""

import hashlib
import json
import multiprocessing
import os
import signal

import datasets

from fairseq_linformer.data import documents as documents_module
from fairseq_linformer.data import pretraining
from fairseq_linformer.data.tokenizer import GPT2

from ..fairseq_preprocessing import write_gpt2
from .corpora import build_documents, prepare, read, reference, write_json, write_text
from .task_files import content


def test_corpus_equals_the_reference(tmp_path, gpt2):
    documents, shards = build_documents(), 3
    source = write_text(tmp_path / "text.txt", documents)
    summary = prepare(tmp_path / "out", f"{source},license=MIT", gpt2, shards=shards, workers=2)
    lines = read(tmp_path / "out")
    assert lines == reference(documents, GPT2(gpt2), 0.3, shards)
    assert "validation on fewer than 50,000 tokens is noisy; raise --valid-share" in summary
    assert (tmp_path / f"out/shard{shards - 1}/vocab.bpe").read_bytes() == (gpt2 / "vocab.bpe").read_bytes()
    assert summary.splitlines()[-1] == "for fairseq-train: " + ":".join(
        str(tmp_path / f"out/shard{i}") for i in range(shards)
    )
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    (record,), splits = manifest["sources"], manifest["splits"]
    assert (record["documents"], record["duplicate_documents"], record["empty_documents"]) == (57, 3, 0)
    assert record["license"] == "MIT"
    assert record["files"] == [
        {"path": str(source), "bytes": source.stat().st_size, "sha256": hashlib.sha256(source.read_bytes()).hexdigest()}
    ]
    assert sum(split["documents"] for split in splits.values()) == 57
    for split, counts in splits.items():
        name = "shard0/valid" if split == "valid" else f"shard{split[5:]}/train"
        assert counts["tokens"] == sum(map(len, lines[name]))
        assert counts["documents"] + counts["paragraphs"] == len(lines[name])
    for name, file in manifest["files"].items():
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == file["sha256"]


def test_first_of_equal_documents_is_kept_in_the_order_of_the_sources(tmp_path, gpt2):
    documents = build_documents()
    first, second = write_text(tmp_path / "b.txt", documents), write_text(tmp_path / "a.txt", documents[:30])
    prepare(tmp_path / "out", [first, second], gpt2)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)
    sources = json.loads((tmp_path / "out/manifest.json").read_text())["sources"]
    assert [source["documents"] for source in sources] == [57, 0]


def test_titles_and_joined_rows(tmp_path, gpt2):
    rows = [{"t": f"title {i}", "text": f"hello {i}"} for i in range(21)]
    prepare(tmp_path / "out", f"{write_json(tmp_path / 'x.jsonl', rows)},title=t,rows=2", gpt2, valid_share=0.5)
    lines = [line for row in rows for line in row.values()]
    documents = [lines[i : i + 4] for i in range(0, len(lines), 4)]
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.5)


def test_a_book_may_continue_in_the_next_batch_and_file_of_a_hub_dataset(tmp_path, gpt2, monkeypatch):
    monkeypatch.setattr(pretraining, "BATCH_DOCUMENTS", 7)
    documents = build_documents(40)
    rows = [{"book": i, "line": line} for i, document in enumerate(documents) for line in document]
    (tmp_path / "hub").mkdir()
    for i, part in enumerate((rows[: len(rows) // 2], rows[len(rows) // 2 :])):
        write_json(tmp_path / f"hub/train-0000{i}-of-00002.jsonl", part)
    prepare(tmp_path / "out", f"hub:{tmp_path / 'hub'},column=line,group=book", gpt2)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)


def test_text_is_cleaned(tmp_path, gpt2):
    (tmp_path / "x.txt").write_bytes(
        "\ufeffhello\r\n  low\x07er \x0cnext\u2028li\0ne\n \t \ncafe\x01\u0301\n\n\n\nb\n\0\n\n\n".encode()
    )
    prepare(tmp_path / "out", tmp_path / "x.txt", gpt2, valid_share=0.4)
    documents = [["hello", "lower", "next", "line"], ["caf\u00e9"], ["b"]]
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.4)


def test_empty_documents_are_counted(tmp_path, gpt2):
    texts = [*(f"hello {i}" for i in range(20)), "", " \n", None]
    prepare(tmp_path / "out", write_json(tmp_path / "x.jsonl", [{"text": text} for text in texts]), gpt2)
    assert read(tmp_path / "out") == reference([[text] for text in texts[:20]], GPT2(gpt2), 0.3)
    assert json.loads((tmp_path / "out/manifest.json").read_text())["sources"][0]["empty_documents"] == 3


def test_finished_stages_are_not_repeated_unless_their_input_changed(tmp_path, gpt2, monkeypatch):
    source = write_text(tmp_path / "text.txt", build_documents())
    prepare(tmp_path / "one", source, gpt2)
    with monkeypatch.context() as patch:
        patch.setattr(documents_module, "read_documents", None)
        patch.setattr(pretraining, "_load", None)
        prepare(tmp_path / "two", source, gpt2, shards=2, workers=2)
    assert read(tmp_path / "two") == reference(build_documents(), GPT2(gpt2), 0.3, 2)
    other = write_gpt2(tmp_path / "other", merges=("h e",))
    prepare(tmp_path / "three", source, other)
    assert read(tmp_path / "three") == reference(build_documents(), GPT2(other), 0.3)
    write_text(source, build_documents(seed=1))
    prepare(tmp_path / "four", source, gpt2)
    assert read(tmp_path / "four") == reference(build_documents(seed=1), GPT2(gpt2), 0.3)


def prepare_until(function, out, source, gpt2, cache):
    """Prepare a corpus in a process that is killed when it calls this function of ``pretraining``."""
    datasets.config.HF_DATASETS_CACHE = cache
    if function:
        setattr(pretraining, function, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    prepare(out, source, gpt2)


def test_killed_runs_leave_no_corpus_and_rerun_to_the_same_bytes(tmp_path, gpt2):
    source, out = write_text(tmp_path / "text.txt", build_documents()), tmp_path / "out"
    prepare(tmp_path / "whole", source, gpt2)
    for function in ("split_paragraphs", "write_manifest", ""):
        arguments = (function, out, source, gpt2, tmp_path / "cache")
        process = multiprocessing.get_context("fork").Process(target=prepare_until, args=arguments)
        process.start()
        process.join()
        assert process.exitcode == (-signal.SIGKILL if function else 0) and out.exists() == (not function)
    assert content(out) == content(tmp_path / "whole")
