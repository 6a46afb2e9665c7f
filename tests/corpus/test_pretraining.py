"""Pretraining text: every source, whole and in parts, killed and damaged, against a slow obvious reference."""

import argparse
import bz2
import gzip
import hashlib
import json
import lzma
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_linformer.corpus import pretraining, spm, workers
from fairseq_linformer.corpus.pretraining import Options, prepare
from fairseq_linformer.corpus.tokenizer import GPT2

from ..stock_text import write_gpt2

SMALL = 2000 / (1 << 20)
"""MiB of a chunk."""


def made_up(count=60, seed=0):
    """Documents as lists of paragraphs; some come twice, some paragraphs too."""
    chance = random.Random(seed)
    words = ["hello", "low", "lower", "world", "Été", "日本", "it's", "1,000"]
    found = [[" ".join(chance.choices(words, k=chance.randint(1, 30))) for _ in range(chance.randint(1, 6))] for _ in range(count)]
    found[7], found[20], found[33] = found[2], found[2], found[9]
    found[11] = ["the same notice", *found[11]]
    found[12] = ["the same notice"]
    found[13] = [found[13][0], "the same notice", found[13][0]]
    return found


def write_text(path, documents):
    path.write_text("\n".join("".join(line + "\n" for line in document) for document in documents), encoding="utf-8")
    return path


def write_rows(path, documents):
    pyarrow.parquet.write_table(pyarrow.table({"id": list(range(len(documents))), "text": ["\n".join(d) for d in documents]}),
                                path, row_group_size=9)  # fmt: skip
    return path


def reference(documents, tokenizer, valid_share, shards=1, unique_paragraphs=False):
    """{split: list of lines as lists of numbers}."""
    def hashed(text):
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    splits, seen, paragraphs = {}, set(), set()
    for document in documents:
        key = hashed("\n".join(document))
        if key in seen:
            continue
        seen.add(key)
        kept = []
        for line in document:
            if not (unique_paragraphs and line in paragraphs):
                kept.append(line)
            paragraphs.add(line)
        if not kept:
            continue
        high, low = int.from_bytes(key[:8], "big"), int.from_bytes(key[8:], "big")
        split = "shard0/valid" if high < valid_share * 2**64 else f"shard{low % shards}/train"
        for line in [*kept, ""]:
            splits.setdefault(split, []).append(tokenizer.encode([line])[0].tolist())
    return splits


def read(out):
    return {
        str(path.relative_to(out))[:-4]: [item.tolist() for item in MMapIndexedDataset(str(path)[:-4])] for path in out.glob("shard*/*.bin")
    }


def sum_of_documents(source):
    """Of a source in the manifest, all that became of what was read."""
    names = ("documents", "duplicate_documents", "emptied_documents", "empty")
    return sum(source[name] for name in names) + sum(source["unfit"].values())


def content(out):
    """Everything that is in a folder but what it was planned from."""
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name not in ("plan.json", ".lock")}


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


def compressed(opener, suffix):
    def write(folder, documents):
        plain = write_text(folder / "plain", documents)
        with opener(folder / f"text.txt{suffix}", "wb") as file:
            file.write(plain.read_bytes())
        return str(folder / f"text.txt{suffix}")

    return write


def zstandard(folder, documents):
    with pyarrow.output_stream(str(folder / "text.txt.zst"), compression="zstd") as stream:
        stream.write(write_text(folder / "plain", documents).read_bytes())
    return str(folder / "text.txt.zst")


def json_lines(folder, documents):
    rows = [json.dumps({"id": i, "text": "\n".join(document)}) for i, document in enumerate(documents)]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    return str(folder / "rows.jsonl")


def sentences(folder, documents):
    """Each paragraph a row, with the number of its document."""
    rows = [json.dumps({"book": i, "sentence": line}) for i, document in enumerate(documents) for line in document]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    return f"{folder / 'rows.jsonl'},column=sentence,group=book"


def hub(folder, documents):
    (folder / "hub").mkdir()
    write_rows(folder / "hub" / "train-00000-of-00002.parquet", documents[:25])
    write_rows(folder / "hub" / "train-00001-of-00002.parquet", documents[25:])
    return f"hub:{folder / 'hub'},licence=CC0"


def several(folder, documents):
    """A folder: its files in the order of their names, of different formats."""
    (folder / "in").mkdir()
    write_text(folder / "in" / "a.txt", documents[:10])
    write_rows(folder / "in" / "b.parquet", documents[10:30])
    write_text(folder / "in" / "c.txt", documents[30:])
    (folder / "in" / "notes.md").write_text("not this")
    return str(folder / "in")


SOURCES = {
    "gzip": compressed(gzip.open, ".gz"), "bzip2": compressed(bz2.open, ".bz2"), "xz": compressed(lzma.open, ".xz"), "zstandard": zstandard,
    "json lines": json_lines, "sentences": sentences, "hub": hub, "folder": several,
    "parquet": lambda folder, documents: str(write_rows(folder / "rows.parquet", documents)),
}  # fmt: skip


@pytest.mark.parametrize("kind", SOURCES)
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


@pytest.mark.slow
def test_parts_and_merge_are_one_run(tmp_path, gpt2):
    source = write_text(tmp_path / "text.txt", made_up())
    options = Options((str(source),), str(gpt2), valid_share=0.3, chunk_mib=SMALL)
    prepare(tmp_path / "whole", options, workers=1)
    with pytest.raises(ValueError, match="chunks of .* are not done, the first is chunk-000000; run their part"):
        prepare(tmp_path / "out", options, merge=True)
    for i in (3, 1):
        assert "when all parts are, run it with --merge" in prepare(tmp_path / "out", options, workers=1, part=(i, 3))
    with pytest.raises(ValueError, match="the first is chunk-000001"):
        prepare(tmp_path / "out", options, merge=True)
    prepare(tmp_path / "out", options, workers=1, part=(2, 3))
    prepare(tmp_path / "out", options, merge=True)
    assert_same(tmp_path)


RUN = """
import os, sys
from fairseq_linformer.corpus import binarised, manifest, pretraining
source, gpt2, out, chunk, dies = sys.argv[1:]
if __name__ == "__main__":
    def die(*arguments):
        os.kill(os.getpid(), 9)
    if dies == "in the middle of a shard":
        binarised.Writer.finish = die
    elif dies == "before the manifest":
        manifest.write = die
    elif dies == "before tidying up":
        pretraining.shutil.rmtree = die
    options = pretraining.Options((source,), gpt2, valid_share=0.3, shards=2, chunk_mib=float(chunk))
    pretraining.prepare(out, options, workers=2)
"""


def start(tmp_path, gpt2, out, chunk=SMALL, dies="not", script=RUN):
    (tmp_path / "run.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(Path(pretraining.__file__).parents[2])}
    arguments = [sys.executable, tmp_path / "run.py", tmp_path / "text.txt", gpt2, tmp_path / out, str(chunk), dies]
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def assert_same(tmp_path):
    ours, whole = content(tmp_path / "out"), content(tmp_path / "whole")
    assert ours.pop("manifest.json").replace(b"/out", b"/whole") == whole.pop("manifest.json")
    assert ours == whole


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_and_ends_with_the_same_bytes(tmp_path, gpt2):
    write_text(tmp_path / "text.txt", made_up(12000))
    whole = start(tmp_path, gpt2, "whole", chunk=0.01)
    assert whole.wait() == 0, whole.stderr.read()
    chance, killed = random.Random(0), []
    for _ in range(10):
        process = start(tmp_path, gpt2, "out", chunk=0.01)
        done = len(list((tmp_path / "out" / "work").glob("*.json")))
        wanted = done + chance.randint(0, 20)
        while process.poll() is None and len(list((tmp_path / "out" / "work").glob("*.json"))) <= wanted:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed.append(process.returncode == -signal.SIGKILL)
    assert all(killed)
    last = start(tmp_path, gpt2, "out", chunk=0.01)
    assert last.wait() == 0, last.stderr.read()
    assert_same(tmp_path)


@pytest.mark.slow
def test_killed_while_it_is_put_together(tmp_path, gpt2):
    write_text(tmp_path / "text.txt", made_up(100))
    whole = start(tmp_path, gpt2, "whole")
    assert whole.wait() == 0, whole.stderr.read()
    for dies in ("in the middle of a shard", "before the manifest", "before tidying up", "not"):
        process = start(tmp_path, gpt2, "out", dies=dies)
        assert process.wait() == (0 if dies == "not" else -signal.SIGKILL), process.stderr.read()
    assert_same(tmp_path)


def test_finished_it_is_not_done_again(tmp_path, gpt2, monkeypatch):
    source = write_text(tmp_path / "text.txt", made_up())
    options = Options((str(source),), str(gpt2), valid_share=0.3)
    first = prepare(tmp_path / "out", options, workers=1)
    monkeypatch.setattr(pretraining, "tokenise_all", None)
    monkeypatch.setattr(pretraining, "assemble", None)
    assert prepare(tmp_path / "out", options) == first
    with open(tmp_path / "out" / "shard0" / "train.bin", "ab") as file:
        file.truncate(10)
    with pytest.raises(ValueError, match="train.bin is missing or cut off"):
        prepare(tmp_path / "out", options)


def test_what_has_changed_is_noticed(tmp_path, gpt2):
    source = write_text(tmp_path / "text.txt", made_up())
    options = dict(sources=(str(source),), gpt2=str(gpt2), valid_share=0.3)
    prepare(tmp_path / "out", Options(**options), workers=1, part=(1, 1))
    with pytest.raises(ValueError, match="was begun with unique_paragraphs False, not True"):
        prepare(tmp_path / "out", Options(**options, unique_paragraphs=True))
    other = write_gpt2(tmp_path / "other", merges=("h e",))
    with pytest.raises(ValueError, match="was begun with another tokenizer: its files have changed"):
        prepare(tmp_path / "out", Options(**{**options, "gpt2": str(other)}))
    (tmp_path / "spm.model").write_bytes(spm.train(iter(["hello low lower world"] * 20), 20, fold_case=False))
    with pytest.raises(ValueError, match="was begun with tokenizer 'gpt2', not 'sentencepiece'"):
        prepare(tmp_path / "out", Options(**{**options, "gpt2": None, "sentencepiece": str(tmp_path / "spm.model")}))
    source.write_text("something else\n")
    with pytest.raises(ValueError, match="text.txt has changed since this was begun"):
        prepare(tmp_path / "out", Options(**options))
    source.unlink()
    with pytest.raises(ValueError, match="text.txt is gone"):
        prepare(tmp_path / "out", Options(**options))


def test_a_tokenizer_is_known_by_its_files_not_by_its_path(tmp_path, gpt2, monkeypatch):
    source = write_text(tmp_path / "text.txt", made_up())
    shutil.copytree(gpt2, tmp_path / "bpe")
    monkeypatch.chdir(tmp_path)
    first = prepare("out", Options((str(source),), "bpe", valid_share=0.3), workers=1, part=(1, 1))
    assert prepare("out", Options((str(source),), "./bpe", valid_share=0.3), part=(1, 1)) == first
    done = prepare("out", Options((str(source),), str(tmp_path / "bpe"), valid_share=0.3))
    assert prepare("out", Options((str(source),), str(gpt2), valid_share=0.3)) == done
    assert f"--gpt2 {tmp_path}/bpe " in json.loads((tmp_path / "out" / "manifest.json").read_text())["command"]


def test_the_command_says_every_option():
    from fairseq_linformer.cli.prepare import add_parser

    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    options = Options(("a b.txt,rows=2", "c"), None, "m", valid_share=0.1, shards=3, unique_paragraphs=True, chunk_mib=2.5, max_skipped=0.2)
    said = vars(parser.parse_args(shlex.split(options.command("my out"))[1:]))
    assert said["out"] == Path("my out") and tuple(said["source"]) == options.sources
    assert all(said[f.name] == getattr(options, f.name) for f in fields(Options) if f.name != "sources")


def test_what_comes_to_bear_late_can_be_changed_until_then(tmp_path, gpt2, monkeypatch):
    documents = made_up()
    source = write_text(tmp_path / "text.txt", documents)
    with pytest.raises(ValueError, match="no document fell into valid, of 57 in all; raise --valid-share"):
        prepare(tmp_path / "out", Options((str(source),), str(gpt2), valid_share=1e-9), workers=1)
    monkeypatch.setattr(workers, "_tokenise_one", None)  # nothing is tokenised again
    prepare(tmp_path / "out", Options((str(source),), str(gpt2), valid_share=0.3, shards=2), workers=1)
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3, shards=2)
    with pytest.raises(ValueError, match="was begun with shards 2, not 3"):
        prepare(tmp_path / "out", Options((str(source),), str(gpt2), valid_share=0.3, shards=3), workers=1)


@pytest.mark.slow
def test_sources_that_grow_are_noticed(tmp_path, gpt2):
    (tmp_path / "in").mkdir()
    write_text(tmp_path / "in" / "a.txt", made_up())
    hub(tmp_path, made_up())
    for i, source in enumerate((tmp_path / "in", f"hub:{tmp_path / 'hub'}")):
        prepare(tmp_path / f"out{i}", Options((str(source),), str(gpt2), valid_share=0.3), workers=1, part=(1, 2))
    write_text(tmp_path / "in" / "b.txt", made_up())
    write_rows(tmp_path / "hub" / "train-00001-of-00002.parquet", made_up())
    with pytest.raises(ValueError, match="b.txt is new since this was begun"):
        prepare(tmp_path / "out0", Options((str(tmp_path / "in"),), str(gpt2), valid_share=0.3), workers=1)
    with pytest.raises(ValueError, match="00001-of-00002.parquet has changed since"):
        prepare(tmp_path / "out1", Options((f"hub:{tmp_path / 'hub'}",), str(gpt2), valid_share=0.3), workers=1)


def test_what_others_leave_in_the_folder(tmp_path, gpt2):
    """Traces of a killed run are no other files, and files of others stay."""
    documents = made_up()
    options = Options((str(write_text(tmp_path / "text.txt", documents)),), str(gpt2), valid_share=0.3)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".plan.json.0a1b2c3d").touch()
    prepare(tmp_path / "out", options, workers=1, part=(1, 1))
    (tmp_path / "out" / "shards-old").mkdir()
    (tmp_path / "out" / "shards-old" / "notes").write_text("dear")
    (tmp_path / "out" / "shards.md").write_text("dear")
    prepare(tmp_path / "out", options, merge=True)
    assert (tmp_path / "out" / "shards-old" / "notes").read_text() == (tmp_path / "out" / "shards.md").read_text() == "dear"
    assert read(tmp_path / "out") == reference(documents, GPT2(gpt2), 0.3)
    (tmp_path / "out" / "plan.json").write_text("[]")
    with pytest.raises(ValueError, match="plan.json is not of this command"):
        prepare(tmp_path / "out", options)


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


def test_long_blank_lines_end_no_document(tmp_path):
    from fairseq_linformer.corpus import documents, plan, sources

    (tmp_path / "x.txt").write_bytes(b"".join(b"low %d\n" % i for i in range(300)) + b" " * 1_500_000 + b"\n" + b"tail\n" * 300 + b"\nend\n")
    source = sources.parse(str(tmp_path / "x.txt"))
    for size in (1000, 1 << 24):
        found = [raw for chunk in plan.make_plan([source], size).chunks for raw in documents.documents(chunk, source)]
        assert [(raw.text, raw.unfit and raw.unfit.reason) for raw in found] == [(None, "a line of over 999,000 bytes"), (b"end\n", None)]


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
    with pytest.raises(ValueError, match=f"text.txt{suffix} is cut off or damaged"):
        prepare(tmp_path / "other", Options((str(path),), str(gpt2), valid_share=0.3), workers=1)


def test_one_bad_row_is_one_bad_row(tmp_path, gpt2):
    good = [[f"hello {i}"] for i in range(150)]
    rows = [json.dumps({"text": line}) for [line] in good[:75]]
    (tmp_path / "x.jsonl").write_text("\n".join([*rows, "[" * 100_000]))
    strings = pyarrow.array([line.encode() for [line] in good[75:]] + [b"not \xff"], pyarrow.binary())
    strings = pyarrow.Array.from_buffers(pyarrow.string(), len(strings), strings.buffers())
    pyarrow.parquet.write_table(pyarrow.table({"text": strings}), tmp_path / "y.parquet")
    sources = (f"{tmp_path}/x.jsonl", f"{tmp_path}/y.parquet")
    prepare(tmp_path / "out", Options(sources, str(gpt2), valid_share=0.3, max_skipped=0.1), workers=1)
    assert read(tmp_path / "out") == reference(good, GPT2(gpt2), 0.3)
    assert [source["unfit"] for source in json.loads((tmp_path / "out" / "manifest.json").read_text())["sources"]] == [{"not JSON": 1}, {"not UTF-8": 1}]


def damaged(folder, name):
    """A file that cannot be used, by what is wrong with it."""
    text = "".join(f"hello {i}\n\n" for i in range(2000)).encode()
    path = folder / name.split(":")[0]
    if path.name == "cut.txt.gz":
        path.write_bytes(gzip.compress(text)[:-200])
    elif path.name == "cut.txt.xz":
        path.write_bytes(lzma.compress(text)[:-50])
    elif path.name == "cut.txt.zst":
        zstandard(folder, made_up())
        path.write_bytes((folder / "text.txt.zst").read_bytes()[:-100])
    elif path.name == "cut.parquet":
        path.write_bytes(write_rows(folder / "whole.parquet", made_up()).read_bytes()[:-100])
    elif path.name == "rot.parquet":
        whole = bytearray(write_rows(folder / "whole.parquet", made_up()).read_bytes())
        whole[100:400] = bytes(300)
        path.write_bytes(whole)
    elif path.name == "empty.txt":
        path.touch()
    elif path.name == "x.md":
        path.write_text("hello\n")
    elif path.name == "column.parquet":
        write_rows(path, made_up())
        return f"{path},column=body"
    elif path.name == "missing.txt":
        pass
    elif path.name == "hub":
        hub(folder, made_up())
        (path / "train-00001-of-00002.parquet").write_bytes(b"PAR1 nothing")
        return f"hub:{path}"
    return str(path)


@pytest.mark.parametrize(
    "name, message",
    [
        ("cut.txt.gz", "cut.txt.gz is cut off or damaged"),
        ("cut.txt.xz", "cut.txt.xz is cut off or damaged"),
        ("cut.txt.zst", "cut.txt.zst is cut off or damaged"),
        ("cut.parquet", "cut.parquet is cut off or no parquet file"),
        ("rot.parquet", "rot.parquet is damaged"),
        ("empty.txt", "empty.txt is empty"),
        ("x.md", "has a suffix that says no format"),
        ("column.parquet", "has no column 'body'; it has id, text"),
        ("missing.txt", "missing.txt has no files"),
        ("hub", "the hub's .*hub"),
    ],
)
def test_damaged_sources_are_refused(tmp_path, gpt2, name, message):
    source = damaged(tmp_path, name)
    with pytest.raises(ValueError, match=message) as caught:
        prepare(tmp_path / "out", Options((source,), str(gpt2), valid_share=0.3), workers=1)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out" / "manifest.json").exists() and not list((tmp_path / "out").glob("shard*"))


def test_unfit_documents_are_counted_and_named(tmp_path, gpt2, monkeypatch):
    good = [f"hello {i}" for i in range(40)]
    lines = [line.encode() for line in good]
    lines[3] = b"not utf \xff-8"
    lines[30] = b"first\nsecond\0 line"
    lines[35] = b"x" * ((1 << 20) + 5)
    (tmp_path / "x.txt").write_bytes(b"\n\n".join(lines))
    rows = ['{"text": "row"}', "{", "[1]", '{"body": "y"}', '{"text": "\\ud800"}', '{"text": "  "}']
    (tmp_path / "y.jsonl").write_text("\n".join(rows))
    options = dict(sources=(f"{tmp_path}/x.txt", f"{tmp_path}/y.jsonl"), gpt2=str(gpt2), valid_share=0.3, chunk_mib=SMALL / 10)
    with pytest.raises(ValueError, match="7 of 46 documents must be skipped, more than the share of 0.01 .* the first is .*x.txt, line 7: not UTF-8"):
        prepare(tmp_path / "out", Options(**options), workers=1)
    monkeypatch.setattr(workers, "_tokenise_one", None)  # what was finished is not lost
    prepare(tmp_path / "out", Options(**options, max_skipped=0.2), workers=1)
    kept = [[line] for i, line in enumerate(good) if i not in (3, 30, 35)] + [["row"]]
    assert read(tmp_path / "out") == reference(kept, GPT2(gpt2), 0.3)
    text, rows = json.loads((tmp_path / "out" / "manifest.json").read_text())["sources"]
    assert all(sum_of_documents(source) == source["documents_read"] for source in (text, rows))
    assert text["unfit"] == {"NUL byte": 1, "a line of over 999,000 bytes": 1, "not UTF-8": 1}
    assert text["examples"] == [f"{tmp_path}/x.txt, line {n}: {why}" for n, why in ((7, "not UTF-8"), (62, "NUL byte"), (72, "a line of over 999,000 bytes"))]
    assert rows["unfit"] == {"no text in text": 1, "not JSON": 1, "not UTF-8": 1, "not a JSON object": 1} and rows["empty"] == 1
    assert rows["examples"][0] == f"{tmp_path}/y.jsonl, line 2: not JSON"


def test_a_document_without_end_is_left_out_in_little_memory(tmp_path, gpt2, monkeypatch):
    from fairseq_linformer.corpus import documents

    monkeypatch.setattr(documents, "MAX_DOCUMENT", 5000)
    (tmp_path / "x.txt").write_text("hello\n\n" + "low\n" * 3000 + "\nlower\n\nworld\n")
    chunk = documents.Chunk(0, str(tmp_path / "x.txt"), "text", 0, None, 1)
    found = list(documents.documents(chunk, documents.Source("")))
    assert [(raw.text, raw.place, raw.unfit and raw.unfit.reason) for raw in found] == [
        (b"hello\n", 0, None), (None, 7, "a document of over 16 MiB"), (b"lower\n", 12008, None), (b"world\n", 12015, None)]  # fmt: skip


def test_text_without_blank_lines_is_told_what_ends_a_document():
    from fairseq_linformer.corpus.documents import LONG_DOCUMENT
    from fairseq_linformer.corpus.manifest import check_skipped

    read = [{"documents_read": 1, "unfit": {LONG_DOCUMENT: 1}, "examples": [f"x.txt, line 1: {LONG_DOCUMENT}"]}]
    with pytest.raises(ValueError, match="x.txt, line 1: a document of over 16 MiB; in text a blank line ends a document$"):
        check_skipped(read, 0.01)


@pytest.mark.slow
def test_a_full_disk_loses_nothing(tmp_path, gpt2):
    write_text(tmp_path / "text.txt", made_up(100))
    assert start(tmp_path, gpt2, "whole").wait() == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3100, before[1]))  # as the error of a full disk, at the first large file
    try:
        full = start(tmp_path, gpt2, "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    message = full.communicate()[1].splitlines()[-1]
    assert full.returncode == 1 and message.startswith("ValueError: there is no room left for")
    assert not list((tmp_path / "out").glob("shard*/*")) and not list((tmp_path / "out" / "work").glob(".*"))
    assert start(tmp_path, gpt2, "out").wait() == 0
    assert_same(tmp_path)


@pytest.mark.parametrize(
    "fields, message",
    [
        (dict(sources=()), "there is no source"),
        (dict(gpt2=None), "there must be one tokenizer"),
        (dict(sentencepiece="x"), "there must be one tokenizer"),
        (dict(valid_share=0.0), "valid_share is 0.0"),
        (dict(shards=0), "shards is 0"),
        (dict(shards=1001), "shards is 1001; it must be from 1 to 1,000"),
        (dict(chunk_mib=float("inf")), "chunk_mib is inf"),
        (dict(chunk_mib=0), "chunk_mib is 0"),
        (dict(max_skipped=1.0), "max_skipped is 1.0; it must be at least 0 and below 1"),
        (dict(sources=("x.txt,colour=red",)), "has 'colour=red'; it must be one of"),
        (dict(sources=("x.txt,rows=0",)), "has rows=0"),
        (dict(sources=("x.txt,format=doc",)), "has format=doc"),
        (dict(sources=("x.txt,group=a,rows=2",)), "has both group= and rows="),
        (dict(shards=50), "no document fell into train"),
        (dict(valid_share=1e-9), "no document fell into valid, of 57 in all; raise --valid-share"),
    ],
)
def test_options_are_refused(tmp_path, gpt2, fields, message):
    source = write_text(tmp_path / "text.txt", made_up())
    with pytest.raises(ValueError, match=message):
        prepare(tmp_path / "out", Options(**{"sources": (str(source),), "gpt2": str(gpt2), "valid_share": 0.3, **fields}), workers=1)


def test_other_files_are_left_alone(tmp_path, gpt2):
    source = write_text(tmp_path / "text.txt", made_up())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("dear")
    with pytest.raises(ValueError, match="has other files in it"):
        prepare(tmp_path / "out", Options((str(source),), str(gpt2)))
    for part in ((0, 3), (4, 3)):
        with pytest.raises(ValueError, match="it must be I/N with I from 1 to N"):
            prepare(tmp_path / "new", Options((str(source),), str(gpt2)), part=part)
    assert not (tmp_path / "new").exists()
