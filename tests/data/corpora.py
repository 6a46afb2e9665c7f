"""Small corpora in every format, and a slow reference implementation of preparing them."""

import hashlib
import json
import random
from pathlib import Path

import pyarrow
import pyarrow.parquet
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_linformer.data.pretraining import prepare_corpus


def build_documents(count=60, seed=0):
    """Random documents as lists of paragraphs, three of which are duplicates."""
    rng = random.Random(seed)
    words = ["hello", "low", "lower", "world", "Été", "日本", "it's", "1,000"]
    documents = [
        [" ".join(rng.choices(words, k=rng.randint(1, 30))) for _ in range(rng.randint(1, 6))] for _ in range(count)
    ]
    documents[7], documents[20], documents[33] = documents[2], documents[2], documents[9]
    return documents


def prepare(out, sources, gpt2, valid_share=0.3, shards=1, workers=1):
    """Prepare sources with GPT-2's tokenizer, or one of another kind."""
    sources = [sources] if isinstance(sources, str | Path) else sources
    return prepare_corpus(out, list(map(str, sources)), gpt2, valid_share, shards, workers)


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


def write_json(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def reference(documents, tokenizer, valid_share, shards=1):
    """Token IDs of each line, by split."""
    splits, seen = {}, set()
    for document in documents:
        key = hashlib.blake2b("\n".join(document).encode(), digest_size=16).digest()
        if key in seen:
            continue
        seen.add(key)
        high, low = int.from_bytes(key[:8], "big"), int.from_bytes(key[8:], "big")
        split = "shard0/valid" if high < valid_share * 2**64 else f"shard{low % shards}/train"
        for line in [*document, ""]:
            splits.setdefault(split, []).append(tokenizer.encode([line])[0].tolist())
    return splits


def read(out):
    """Token IDs of each line, by split."""
    return {
        str(path.relative_to(out))[:-4]: [item.tolist() for item in MMapIndexedDataset(str(path)[:-4])]
        for path in out.glob("shard*/*.bin")
    }


def hub(folder, documents):
    (folder / "hub").mkdir()
    write_rows(folder / "hub" / "train-00000-of-00002.parquet", documents[:25])
    write_rows(folder / "hub" / "train-00001-of-00002.parquet", documents[25:])
    return f"hub:{folder / 'hub'},license=CC0"
