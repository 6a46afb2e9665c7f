"""A tokenized chunk: files in a folder. The last one marks the chunk as done.

    NAME.tokens      token IDs: each line with </s>, and </s> after each document
    NAME.lines       (lines,) of ``line_dtype``; the </s> after a document is a line of its own
    NAME.documents   (documents,) of ``DOCUMENT``
    NAME.json        counts, and examples of skipped documents

They are written while the chunk is read, so memory does not grow with its size. ``assembly.py`` reads all chunks, drops
duplicates and distributes the documents.
"""

import hashlib
import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from ..files import open_atomic
from .documents import UnfitDocument, read_documents, split_paragraphs
from .plan import Chunk
from .sources import Source
from .tokenizer import Tokenizer

_HASH = [("high", np.uint64), ("low", np.uint64)]
DOCUMENT = np.dtype([*_HASH, ("lines", np.uint32)])
MAX_EXAMPLES = 5
"""Skipped documents that are listed, per reason here and per source in the manifest."""
_BATCH_LINES, _BATCH_CHARACTERS = 10_000, 1 << 20  # tokenized per call


def line_dtype(hashed: bool) -> np.dtype:
    """Record of a line, with or without its hash."""
    return np.dtype([("tokens", np.uint32), ("words", np.uint32), *(_HASH if hashed else [])])


def chunk_name(index: int) -> str:
    """Name of a chunk's files, without suffix."""
    return f"chunk-{index:06d}"


def is_done(folder: Path, index: int) -> bool:
    """Whether a chunk is tokenized."""
    return (folder / f"{chunk_name(index)}.json").exists()


def remove_unfinished(folder: Path) -> None:
    """Remove partial files of killed processes. No process may be writing to the folder."""
    for part in folder.glob(".chunk-*"):
        part.unlink(missing_ok=True)


def tokenize_chunk(chunk: Chunk, source: Source, tokenizer: Tokenizer, folder: Path, index: int, hashed: bool) -> None:
    """Read, clean and tokenize a chunk, and write its files.

    Args:
        index: of the chunk in the plan; it names the files.
        hashed: store a hash of each paragraph, for dropping duplicates.

    Raises:
        ValueError: the chunk is damaged.
        OSError: it cannot be read, or the disk is full.
    """
    num_documents = empty = characters = 0
    unfit: Counter[str] = Counter()
    examples: list[tuple[str, int]] = []
    batch: list[str] = []
    path = folder / chunk_name(index)
    with ExitStack() as files:
        suffixes = (".tokens", ".lines", ".documents")
        tokens, lines, table = (files.enter_context(open_atomic(path.with_suffix(s), "wb")) for s in suffixes)

        def flush() -> None:
            ids, sizes = tokenizer.encode(batch)
            tokens.write(ids.tobytes())
            lines.write(_line_records(batch, sizes, hashed).tobytes())
            batch.clear()

        for raw in read_documents(chunk, source):
            num_documents += 1
            try:
                paragraphs = split_paragraphs(raw)
            except UnfitDocument as error:
                unfit[error.reason] += 1
                if unfit[error.reason] <= MAX_EXAMPLES:
                    examples.append((error.reason, raw.offset + (error.position if chunk.is_stream else 0)))
                continue
            if not paragraphs:
                empty += 1
                continue
            table.write(np.array([(*_hash_text("\n".join(paragraphs)), len(paragraphs) + 1)], DOCUMENT).tobytes())
            for line in (*paragraphs, ""):
                batch.append(line)
                characters += len(line)
                if len(batch) == _BATCH_LINES or characters > _BATCH_CHARACTERS:
                    flush()
                    characters = 0
        flush()
    with open_atomic(path.with_suffix(".json")) as file:
        counts = {
            "documents": num_documents,
            "empty": empty,
            "unfit": dict(sorted(unfit.items())),
            "examples": examples,
        }
        json.dump(counts, file)


def _hash_text(text: str) -> tuple[int, int]:
    """A 128-bit hash as two 64-bit integers."""
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


def _line_records(lines: list[str], sizes: np.ndarray, hashed: bool) -> np.ndarray:
    records = np.zeros(len(lines), dtype=line_dtype(hashed))
    records["tokens"], records["words"] = sizes, [len(line.split()) for line in lines]
    if hashed:
        hashes = np.array([_hash_text(line) for line in lines], dtype=np.uint64).reshape(-1, 2)
        records["high"], records["low"] = hashes.T
    return records
