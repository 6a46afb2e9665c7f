"""All chunks to one corpus: what comes again is dropped, the rest is split and written.

The first of equal documents stays, in the order of the sources, and its hash says whether it is
validation and, if not, in which shard it is. So the result does not depend on how many processes made
the chunks, or on which machines.
"""

from collections import Counter
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Tuple

import numpy as np

from .binarised import Writer
from .chunks import name_of

BUCKET = 4 << 20
"""Hashes that are sorted at once: 200 MB of memory."""
SLAB = 4 << 20
"""Tokens that are written at once."""


Counts = Dict[str, int]
"""``documents``, ``paragraphs``, ``words`` and ``tokens`` (with the </s> of lines and documents) that were
kept; of a source also ``duplicate_documents`` and ``duplicate_paragraphs`` that were not."""


class Chunks:
    """The files of ``chunks.py`` as arrays on disk."""

    def __init__(self, folder: Path, count: int, dtype):
        self.folder, self.count, self.dtype = folder, count, np.dtype(dtype)

    def documents(self, i: int) -> np.ndarray:
        return np.load(self.folder / f"{name_of(i)}.documents.npy", mmap_mode="r")

    def lines(self, i: int) -> np.ndarray:
        return np.load(self.folder / f"{name_of(i)}.lines.npy", mmap_mode="r")

    def tokens(self, i: int) -> np.ndarray:
        path = self.folder / f"{name_of(i)}.tokens"
        return np.memmap(path, dtype=self.dtype, mode="r") if path.stat().st_size else np.empty(0, self.dtype)


def first_occurrences(hashes: Callable[[int], np.ndarray], eligible: List[np.ndarray], bucket: int = BUCKET) -> List[np.ndarray]:
    """Which hashes come for the first time.

    Args:
        hashes: (m_i,) with ``high`` and ``low``, of chunk i.
        eligible: (m_i,) boolean of each chunk; what is not is neither kept nor looked at.
        bucket: how many are sorted at once; the chunks are read again for each bucket.

    Returns:
        (m_i,) boolean of each chunk.
    """
    kept = [np.zeros(len(mask), dtype=bool) for mask in eligible]
    buckets = max(1, -(-sum(int(mask.sum()) for mask in eligible) // bucket))
    for b in range(buckets):
        places, high, low = [], [], []
        for i, mask in enumerate(eligible):
            found = hashes(i)
            where = np.flatnonzero(mask & (found["high"] % np.uint64(buckets) == b))
            places.append(where)
            high.append(found["high"][where])
            low.append(found["low"][where])
        high, low = np.concatenate(high), np.concatenate(low)
        order = np.lexsort((low, high))  # stable: equal ones stay in the order of the sources
        first = np.ones(len(order), dtype=bool)
        first[1:] = (np.diff(high[order]) != 0) | (np.diff(low[order]) != 0)
        keep = np.zeros(len(order), dtype=bool)
        keep[order[first]] = True
        start = 0
        for i, where in enumerate(places):
            kept[i][where] = keep[start : start + len(where)]
            start += len(where)
    return kept


def assemble(
    chunks: Chunks, sources: List[int], out: Path, valid_share: float, shards: int, unique_paragraphs: bool
) -> Tuple[Dict[str, Counts], Dict[int, Counts]]:
    """Write ``OUT/shardI/train.bin`` and ``.idx``, and ``valid`` beside the first.

    Args:
        sources: the source of each chunk.
        valid_share: of the documents, as their hashes have it.
        shards: I counts from 0.
        unique_paragraphs: drop paragraphs that came before, in any document.

    Returns:
        counts by split (``valid``, ``train0``, ...), counts by source.

    Raises:
        ValueError: a split or a shard has no documents; a sentence.
        OSError: the disk is full.
    """
    documents, lines, duplicates = _kept(chunks, unique_paragraphs)
    names = ["valid", *(f"train{shard}" for shard in range(shards))]
    prefixes = [out / "shard0" / "valid", *(out / f"shard{shard}" / "train" for shard in range(shards))]
    by_split: Dict[str, Counter] = {name: Counter() for name in names}
    by_source: Dict[int, Counter] = {source: Counter() for source in sources}
    writers = [Writer(prefix, chunks.dtype) for prefix in prefixes]
    try:
        for i, source in enumerate(sources):
            targets = _targets(chunks.documents(i), valid_share, shards)
            by_source[source].update(duplicates[i])
            for name, counts in zip(names, _count(chunks, i, documents[i], lines[i], targets, len(names))):
                by_split[name].update(counts)
                by_source[source].update(counts)
            for target, ids, sizes in _slabs(chunks, i, lines[i], targets):
                writers[target].add(ids, sizes)
        for name, writer in zip(names, writers):
            if writer.lines == 0:
                total = sum(counts["documents"] for counts in by_split.values())
                advice = "raise --valid-share" if name == "valid" else "lower --shards or --valid-share"
                raise ValueError(f"no document fell into {name}, of {total:,} in all; {advice}")
        for writer in writers:
            writer.finish()
    finally:
        for writer in writers:
            writer.discard()
    return {name: dict(counts) for name, counts in by_split.items()}, {source: dict(counts) for source, counts in by_source.items()}


def _kept(chunks: Chunks, unique_paragraphs: bool) -> Tuple[List[np.ndarray], List[np.ndarray], List[Counts]]:
    """(documents,) and (lines,) boolean of each chunk, and how many came again."""
    numbers = range(chunks.count)
    documents = first_occurrences(chunks.documents, [np.ones(len(chunks.documents(i)), dtype=bool) for i in numbers])
    lines = [_of_documents(chunks, i, documents[i]) for i in numbers]
    duplicates = [{"duplicate_documents": int((~documents[i]).sum()), "duplicate_paragraphs": 0} for i in numbers]
    if unique_paragraphs:
        ends = [_ends(chunks, i) for i in numbers]
        for i in numbers:
            lines[i][ends[i]] = False
        unique = first_occurrences(chunks.lines, lines)
        for i in numbers:
            duplicates[i]["duplicate_paragraphs"] = int(lines[i].sum() - unique[i].sum())
            # A document that has lost all its paragraphs is gone, another keeps its end.
            if len(ends[i]):
                documents[i] = np.add.reduceat(unique[i], np.r_[0, ends[i][:-1] + 1], dtype=np.int64) > 0
            unique[i][ends[i]] = documents[i]
        lines = unique
    return documents, lines, duplicates


def _ends(chunks: Chunks, i: int) -> np.ndarray:
    """(documents,) the line that ends each, a </s> alone."""
    return np.cumsum(chunks.documents(i)["lines"], dtype=np.int64) - 1


def _of_documents(chunks: Chunks, i: int, documents: np.ndarray) -> np.ndarray:
    """(lines,) what holds of the document of each line."""
    return np.repeat(documents, chunks.documents(i)["lines"])


def _targets(documents: np.ndarray, valid_share: float, shards: int) -> np.ndarray:
    """(documents,) 0 of validation, 1 + shard of training."""
    valid = documents["high"] < np.uint64(min(valid_share * 2.0**64, 2.0**64 - 2048))
    return np.where(valid, 0, 1 + (documents["low"] % np.uint64(shards)).astype(np.int16)).astype(np.int16)


def _slabs(chunks: Chunks, i: int, kept: np.ndarray, targets: np.ndarray) -> Iterator[Tuple[int, np.ndarray, np.ndarray]]:
    """(target, tokens, tokens of each line), a few lines at a time."""
    tokens, sizes = chunks.tokens(i), chunks.lines(i)["tokens"].astype(np.int64)
    line_targets = np.where(kept, _of_documents(chunks, i, targets), -1)
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        offset = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, offset + SLAB, side="right")))
        part, part_sizes = line_targets[begin:end], sizes[begin:end]
        of_tokens = np.repeat(part, part_sizes)
        slab = tokens[offset : ends[end - 1]]
        for target in np.unique(part[part >= 0]):
            yield int(target), slab[of_tokens == target], part_sizes[part == target]
        begin = end


def _count(chunks: Chunks, i: int, documents, lines, targets, count: int) -> List[Counts]:
    """What is kept of a chunk, by target."""
    table, of_lines = chunks.lines(i), _of_documents(chunks, i, targets)
    paragraphs = lines.copy()
    paragraphs[_ends(chunks, i)] = False

    def by_target(of, kept, weights=None):
        return np.bincount(of[kept], None if weights is None else weights[kept], minlength=count).astype(np.int64).tolist()

    columns = {
        "documents": by_target(targets, documents),
        "paragraphs": by_target(of_lines, paragraphs),
        "words": by_target(of_lines, lines, table["words"]),
        "tokens": by_target(of_lines, lines, table["tokens"]),
    }
    return [{name: column[target] for name, column in columns.items()} for target in range(count)]
