"""Small corpora in every form, and a slow obvious reference for what becomes of them."""

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

from fairseq_linformer.corpus import pretraining


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
