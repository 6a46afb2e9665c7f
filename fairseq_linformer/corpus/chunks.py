"""A chunk of a source as tokens: three files in a folder, the last of which says that it is done.

    NAME.tokens       numbers of the dictionary: line after line with </s>, and </s> behind each document
    NAME.lines.npy    (lines,) of LINE, that </s> a line of its own
    NAME.documents.npy  (documents,) of DOCUMENT
    NAME.json         counts, and the first of what was left out

Which documents go where, and which are there twice, is for ``assemble.py``: it takes all chunks.
"""

import hashlib
import json
from array import array
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np

from ..files import atomic
from .documents import Unfit, documents, lines_of
from .sources import Chunk, Source
from .tokenizer import Tokenizer

HASH = [("high", np.uint64), ("low", np.uint64)]
DOCUMENT = np.dtype([*HASH, ("lines", np.uint32)])
LINE = np.dtype([("tokens", np.uint32), ("words", np.uint32)])
HASHED_LINE = np.dtype([*HASH, *LINE.descr])
EXAMPLES = 5
_BATCH = 1 << 20
"""Characters that are tokenised at once."""


def name_of(index: int) -> str:
    return f"chunk-{index:06d}"


def is_done(folder: Path, index: int) -> bool:
    return (folder / f"{name_of(index)}.json").exists()


def tokenise(chunk: Chunk, source: Source, tokenizer: Tokenizer, folder: Path, index: int, hash_lines: bool) -> Dict[str, Any]:
    """Read, clean and tokenise a chunk, and write its files.

    Args:
        index: its number in the plan, which names the files.
        hash_lines: keep a hash of each paragraph, to drop those that come again.

    Returns:
        what ``NAME.json`` holds: ``documents`` read, ``empty``, ``unfit`` by reason, ``examples`` of
        those as [reason, place].

    Raises:
        ValueError: the chunk is damaged; a sentence.
        OSError: it cannot be read, or the disk is full.
    """
    counts: Counter = Counter()
    unfit: Counter = Counter()
    examples: List[list] = []
    records = array("Q")  # high, low, lines of each document
    line_records: List[np.ndarray] = []
    batch: List[str] = []
    size = 0
    path = folder / name_of(index)

    with atomic(path.with_suffix(".tokens"), "wb") as tokens:

        def flush() -> None:
            nonlocal size
            ids, sizes = tokenizer.encode(batch)
            tokens.write(ids.tobytes())
            line_records.append(_lines(batch, sizes, hash_lines))
            batch.clear()
            size = 0

        for raw in documents(chunk, source):
            counts["documents"] += 1
            try:
                lines = lines_of(raw)
            except Unfit as error:
                unfit[error.reason] += 1
                if unfit[error.reason] <= EXAMPLES:
                    position = error.position if chunk.format in ("text", "jsonl") else 0
                    examples.append([error.reason, raw.place + position])
                continue
            if not lines:
                counts["empty"] += 1
                continue
            text = "\n".join(lines)
            records.extend((*hash_of(text), len(lines) + 1))
            batch += [*lines, ""]
            size += len(text)
            if size >= _BATCH:
                flush()
        flush()
    found = np.array(records, dtype=np.uint64).reshape(-1, 3)
    table = np.empty(len(found), dtype=DOCUMENT)
    for column, name in enumerate(DOCUMENT.names):
        table[name] = found[:, column]
    for name, array_ in (("documents", table), ("lines", np.concatenate(line_records))):
        with atomic(f"{path}.{name}.npy", "wb") as file:
            np.save(file, array_)
    said = {"documents": counts["documents"], "empty": counts["empty"], "unfit": dict(sorted(unfit.items())), "examples": examples}
    with atomic(path.with_suffix(".json")) as file:
        json.dump(said, file)
    return said


def hash_of(text: str) -> Tuple[int, int]:
    """128 bits of a text, as two numbers."""
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


def _lines(lines: List[str], sizes: np.ndarray, hashed: bool) -> np.ndarray:
    table = np.zeros(len(lines), dtype=HASHED_LINE if hashed else LINE)
    table["tokens"] = sizes
    table["words"] = np.fromiter((len(line.split()) for line in lines), dtype=np.uint32, count=len(lines))
    if hashed:
        table["high"], table["low"] = np.array([hash_of(line) for line in lines], dtype=np.uint64).reshape(-1, 2).T
    return table
