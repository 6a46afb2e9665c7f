"""Small corpora in every format, and a slow reference implementation of preparing them."""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_linformer.data import pretraining

SMALL = 2000 / (1 << 20)
"""MiB of a chunk."""


def build_documents(count=60, seed=0):
    """Random documents as lists of paragraphs, with duplicate documents and paragraphs."""
    rng = random.Random(seed)
    words = ["hello", "low", "lower", "world", "Été", "日本", "it's", "1,000"]
    documents = [
        [" ".join(rng.choices(words, k=rng.randint(1, 30))) for _ in range(rng.randint(1, 6))] for _ in range(count)
    ]
    documents[7], documents[20], documents[33] = documents[2], documents[2], documents[9]
    documents[11] = ["the same notice", *documents[11]]
    documents[12] = ["the same notice"]
    documents[13] = [documents[13][0], "the same notice", documents[13][0]]
    return documents


def write_text(path, documents):
    path.write_text("\n".join("".join(line + "\n" for line in document) for document in documents), encoding="utf-8")
    return path


def write_rows(path, documents):
    pyarrow.parquet.write_table(
        pyarrow.table({"id": list(range(len(documents))), "text": ["\n".join(d) for d in documents]}),
        path,
        row_group_size=9,
    )
    return path


def reference(documents, tokenizer, valid_share, shards=1, unique_paragraphs=False):
    """Token IDs of each line, by split."""

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
        str(path.relative_to(out))[:-4]: [item.tolist() for item in MMapIndexedDataset(str(path)[:-4])]
        for path in out.glob("shard*/*.bin")
    }


def sum_of_documents(source):
    """The sum of a source's kept, dropped and skipped documents in the manifest."""
    names = ("documents", "duplicate_documents", "emptied_documents", "empty")
    return sum(source[name] for name in names) + sum(source["unfit"].values())


def content(out):
    """Content of each file in a folder, except the plan and the lock."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.name not in ("plan.json", ".lock")
    }


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
    """One row per paragraph, with the number of its document."""
    rows = [json.dumps({"book": i, "sentence": line}) for i, document in enumerate(documents) for line in document]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    return f"{folder / 'rows.jsonl'},column=sentence,group=book"


def hub(folder, documents):
    (folder / "hub").mkdir()
    write_rows(folder / "hub" / "train-00000-of-00002.parquet", documents[:25])
    write_rows(folder / "hub" / "train-00001-of-00002.parquet", documents[25:])
    return f"hub:{folder / 'hub'},license=CC0"


def several(folder, documents):
    """A folder with files of different formats, which are read in the order of their names."""
    (folder / "in").mkdir()
    write_text(folder / "in" / "a.txt", documents[:10])
    write_rows(folder / "in" / "b.parquet", documents[10:30])
    write_text(folder / "in" / "c.txt", documents[30:])
    (folder / "in" / "notes.md").write_text("not this")
    return str(folder / "in")


SOURCES = {
    "gzip": compressed(gzip.open, ".gz"),
    "bzip2": compressed(bz2.open, ".bz2"),
    "xz": compressed(lzma.open, ".xz"),
    "zstandard": zstandard,
    "json lines": json_lines,
    "sentences": sentences,
    "hub": hub,
    "folder": several,
    "parquet": lambda folder, documents: str(write_rows(folder / "rows.parquet", documents)),
}


def damaged(folder, name):
    """Write a damaged source; ``name`` says how."""
    text = "".join(f"hello {i}\n\n" for i in range(2000)).encode()
    path = folder / name.split(":")[0]
    if path.name == "cut.txt.gz":
        path.write_bytes(gzip.compress(text)[:-200])
    elif path.name == "cut.txt.xz":
        path.write_bytes(lzma.compress(text)[:-50])
    elif path.name == "cut.txt.zst":
        zstandard(folder, build_documents())
        path.write_bytes((folder / "text.txt.zst").read_bytes()[:-100])
    elif path.name == "cut.parquet":
        path.write_bytes(write_rows(folder / "whole.parquet", build_documents()).read_bytes()[:-100])
    elif path.name == "rot.parquet":
        whole = bytearray(write_rows(folder / "whole.parquet", build_documents()).read_bytes())
        whole[100:400] = bytes(300)
        path.write_bytes(whole)
    elif path.name == "empty.txt":
        path.touch()
    elif path.name == "x.md":
        path.write_text("hello\n")
    elif path.name == "column.parquet":
        write_rows(path, build_documents())
        return f"{path},column=body"
    elif path.name == "missing.txt":
        pass
    elif path.name == "hub":
        hub(folder, build_documents())
        (path / "train-00001-of-00002.parquet").write_bytes(b"PAR1 nothing")
        return f"hub:{path}"
    return str(path)


RUN = """
import os, sys
from fairseq_linformer.data import binarized, manifest, pretraining
source, gpt2, out, chunk, dies = sys.argv[1:]
if __name__ == "__main__":
    def die(*arguments):
        os.kill(os.getpid(), 9)
    if dies == "in the middle of a shard":
        binarized.BinarizedWriter.finish = die
    elif dies == "before the manifest":
        manifest.write_manifest = die
    elif dies == "before tidying up":
        pretraining.shutil.rmtree = die
    options = pretraining.CorpusOptions((source,), gpt2, valid_share=0.3, shards=2, chunk_mib=float(chunk))
    pretraining.prepare_corpus(out, options, workers=2)
"""


def start(tmp_path, gpt2, out, chunk=SMALL, dies="not", script=RUN):
    (tmp_path / "run.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(Path(pretraining.__file__).parents[2])}
    arguments = [sys.executable, tmp_path / "run.py", tmp_path / "text.txt", gpt2, tmp_path / out, str(chunk), dies]
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def assert_same(tmp_path):
    """The folders ``out`` and ``whole`` have the same content."""
    out, whole = content(tmp_path / "out"), content(tmp_path / "whole")
    assert out.pop("manifest.json").replace(b"/out", b"/whole") == whole.pop("manifest.json")
    assert out == whole
