"""A chunk of a source as tokens: files in a folder. The last one marks it as done.

    NAME.tokens      token numbers: line after line with </s>, and </s> after each document
    NAME.lines       (lines,) of ``line_type``, that </s> a line of its own
    NAME.documents   (documents,) of ``DOCUMENT``
    NAME.json        counts, and the first documents that were skipped

They are written while the chunk is read, so that memory does not grow with it. ``assemble.py`` takes all chunks and
decides which documents go where and which are duplicates.
"""

import hashlib
import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import List, Tuple

import numpy as np

from ..files import atomic
from .documents import Unfit, documents, lines_of
from .plan import Chunk
from .sources import Source
from .tokenizer import Tokenizer

HASH = [("high", np.uint64), ("low", np.uint64)]
DOCUMENT = np.dtype([*HASH, ("lines", np.uint32)])
EXAMPLES = 5
_BATCH, _CHARACTERS = 10_000, 1 << 20
"""Lines and characters that are tokenised at once."""


def line_type(hashed: bool) -> np.dtype:
    """The record of a line, with its hash or without."""
    return np.dtype([("tokens", np.uint32), ("words", np.uint32), *(HASH if hashed else [])])


def name_of(index: int) -> str:
    """The name of a chunk's files, without suffix."""
    return f"chunk-{index:06d}"


def is_done(folder: Path, index: int) -> bool:
    """Whether a chunk is tokenised."""
    return (folder / f"{name_of(index)}.json").exists()


def remove_unfinished(folder: Path) -> None:
    """Remove the partial files that killed processes have left. No process may be at work in the folder."""
    for part in folder.glob(".chunk-*"):
        part.unlink(missing_ok=True)


def tokenise(chunk: Chunk, source: Source, tokenizer: Tokenizer, folder: Path, index: int, hashed: bool) -> None:
    """Read, clean and tokenise a chunk, and write its files.

    Args:
        index: its number in the plan, which names the files.
        hashed: keep a hash of each paragraph, to drop repeated ones.

    Raises:
        ValueError: the chunk is damaged.
        OSError: it cannot be read, or the disk is full.
    """
    documents_read = empty = characters = 0
    unfit: Counter = Counter()
    examples: List[list] = []
    batch: List[str] = []
    path = folder / name_of(index)
    with ExitStack() as files:
        suffixes = (".tokens", ".lines", ".documents")
        tokens, lines, table = (files.enter_context(atomic(path.with_suffix(s), "wb")) for s in suffixes)

        def flush() -> None:
            ids, sizes = tokenizer.encode(batch)
            tokens.write(ids.tobytes())
            lines.write(_line_records(batch, sizes, hashed).tobytes())
            batch.clear()

        for raw in documents(chunk, source):
            documents_read += 1
            try:
                paragraphs = lines_of(raw)
            except Unfit as error:
                unfit[error.reason] += 1
                if unfit[error.reason] <= EXAMPLES:
                    position = error.position if chunk.is_stream else 0
                    examples.append([error.reason, raw.place + position])
                continue
            if not paragraphs:
                empty += 1
                continue
            table.write(np.array([(*hash_of("\n".join(paragraphs)), len(paragraphs) + 1)], dtype=DOCUMENT).tobytes())
            for line in (*paragraphs, ""):
                batch.append(line)
                characters += len(line)
                if len(batch) == _BATCH or characters > _CHARACTERS:
                    flush()
                    characters = 0
        flush()
    with atomic(path.with_suffix(".json")) as file:
        unfit = dict(sorted(unfit.items()))
        json.dump({"documents": documents_read, "empty": empty, "unfit": unfit, "examples": examples}, file)


def hash_of(text: str) -> Tuple[int, int]:
    """128 bits of a text, as two numbers."""
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


def _line_records(lines: List[str], sizes: np.ndarray, hashed: bool) -> np.ndarray:
    records = np.zeros(len(lines), dtype=line_type(hashed))
    records["tokens"], records["words"] = sizes, [len(line.split()) for line in lines]
    if hashed:
        hashes = np.array([hash_of(line) for line in lines], dtype=np.uint64).reshape(-1, 2)
        records["high"], records["low"] = hashes.T
    return records
