"""All chunks to one corpus: what comes again is dropped, the rest is split and written.

The first of equal documents stays, in the order of the sources, and its hash says whether it is
validation and, if not, in which shard it is. So the result does not depend on how many processes made
the chunks, or on which machines.
"""

from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Tuple

import numpy as np

from ..progress import Progress
from .binarised import Writer
from .chunks import DOCUMENT, line_type, name_of
from .documents import ENDS_OF_DOCUMENTS
from .tokenizer import UNKNOWN

BUCKET = 4 << 20
"""Hashes that are sorted at once: 200 MB of memory."""
SLAB = 4 << 20
"""Tokens that are written at once."""


Counts = Dict[str, int]
COUNTED = ("documents", "paragraphs", "words", "tokens")
"""What was kept; tokens with the </s> of lines and documents. Of a split ``unknown`` tokens are counted too."""
DROPPED = ("duplicate_documents", "duplicate_paragraphs", "emptied_documents")
"""What was not, because it came before; emptied is a document that was not, but all of whose paragraphs were."""


@dataclass(frozen=True)
class Block:
    """Some documents of a chunk, as arrays on disk."""

    source: int
    path: Path
    """Of the files of ``chunks.py``, without suffix."""
    dtype: np.dtype
    hashed: bool
    first: Tuple[int, int, int]
    """The first document, line and token."""
    count: Tuple[int, int, int]

    def _read(self, suffix: str, dtype, which: int) -> np.ndarray:
        first, count = self.first[which], self.count[which]
        return np.memmap(self.path.with_suffix(suffix), dtype, "r", first * dtype.itemsize, (count,))

    @property
    def documents(self) -> np.ndarray:
        """(documents,) of ``DOCUMENT``."""
        return self._read(".documents", DOCUMENT, 0)

    @property
    def lines(self) -> np.ndarray:
        """(lines,) of ``line_type``."""
        return self._read(".lines", line_type(self.hashed), 1)

    @property
    def tokens(self) -> np.ndarray:
        """(tokens,)."""
        return self._read(".tokens", self.dtype, 2)

    @property
    def ends(self) -> np.ndarray:
        """(documents,) the line that ends each, a </s> alone."""
        return np.cumsum(self.documents["lines"], dtype=np.int64) - 1


def blocks_of(folder: Path, sources: List[int], dtype, hashed: bool, size: int = 1 << 18) -> List[Block]:
    """All documents of all chunks in order, ``size`` of them in a block at most, so that one of a
    large chunk is no larger than that of a small one.

    Args:
        sources: the source of each chunk.
        dtype: of the tokens.
        hashed: the lines have hashes.
    """
    found = []
    for i, source in enumerate(sources):
        path = folder / name_of(i)
        total = path.with_suffix(".documents").stat().st_size // DOCUMENT.itemsize
        first = (0, 0, 0)
        while first[0] < total:
            probe = Block(source, path, np.dtype(dtype), hashed, first, (min(size, total - first[0]), 0, 0))
            lines = int(probe.documents["lines"].sum())
            tokens = int(replace(probe, count=(0, lines, 0)).lines["tokens"].sum())
            found.append(replace(probe, count=(probe.count[0], lines, tokens)))
            first = tuple(a + b for a, b in zip(first, found[-1].count))
    return found


def first_occurrences(hashes: List[Callable[[], np.ndarray]], eligible: List[np.ndarray], bucket: int = BUCKET) -> List[np.ndarray]:
    """Which hashes come for the first time.

    Args:
        hashes: give (m_i,) with ``high`` and ``low``, of block i.
        eligible: (m_i,) boolean of each block; what is not is neither kept nor looked at.
        bucket: how many are sorted at once; the blocks are read again for each bucket.

    Returns:
        (m_i,) boolean of each block.
    """
    kept = [np.zeros(len(mask), dtype=bool) for mask in eligible]
    buckets = max(1, -(-sum(int(mask.sum()) for mask in eligible) // bucket))
    with Progress("comparing", buckets * sum(map(len, eligible)), "hashes") as progress:
        for b in range(buckets):
            places, high, low = [], [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
            for read, mask in zip(hashes, eligible):
                found = read()
                where = np.flatnonzero(mask & (found["high"] % np.uint64(buckets) == b))
                places.append(where)
                high.append(found["high"][where])
                low.append(found["low"][where])
                progress.add(len(mask))
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
    blocks: List[Block], source_count: int, out: Path, valid_share: float, shards: int, unique_paragraphs: bool
) -> Tuple[Dict[str, Counts], List[Counts]]:
    """Write ``OUT/shardI/train.bin`` and ``.idx``, and ``valid`` beside the first.

    Args:
        source_count: how many there are.
        valid_share: of the documents, as their hashes have it.
        shards: I counts from 0.
        unique_paragraphs: drop paragraphs that came before, in any document.

    Returns:
        counts by split (``valid``, ``train0``, ...), and of each source.

    Raises:
        ValueError: a split or a shard has no documents; a sentence.
        OSError: the disk is full.
    """
    documents, lines, dropped = _kept(blocks, unique_paragraphs)
    names = ["valid", *(f"train{shard}" for shard in range(shards))]
    prefixes = [out / "shard0" / "valid", *(out / f"shard{shard}" / "train" for shard in range(shards))]
    by_split: Dict[str, Counter] = {name: Counter() for name in names}
    by_source = [Counter(dict.fromkeys((*COUNTED, *DROPPED), 0)) for _ in range(source_count)]
    with ExitStack() as stack:
        progress = stack.enter_context(Progress("writing", sum(block.count[2] for block in blocks), "tokens"))
        writers = [stack.enter_context(closing(Writer(prefix, blocks[0].dtype if blocks else np.uint16))) for prefix in prefixes]
        for i, block in enumerate(blocks):
            targets = _targets(block.documents, valid_share, shards)
            by_source[block.source].update(dropped[i])
            for name, counts in zip(names, _count(block, documents[i], lines[i], targets, len(names))):
                by_split[name].update(counts)
                by_source[block.source].update(counts)
            for target, ids, sizes in _slabs(block, lines[i], targets):
                writers[target].add(ids, sizes)
                by_split[names[target]]["unknown"] += int((ids == UNKNOWN).sum())
            progress.add(block.count[2])
        for name, writer in zip(names, writers):
            if writer.lines == 0:
                raise ValueError(_nothing(name, sum(counts["documents"] for counts in by_split.values())))
        for writer in writers:
            writer.finish()
    return {name: dict(counts) for name, counts in by_split.items()}, [dict(counts) for counts in by_source]


def _nothing(name: str, documents: int) -> str:
    if documents == 0:
        return "the sources have no documents with text"
    advice = "raise --valid-share" if name == "valid" else "lower --shards or --valid-share"
    return f"no document fell into {name}, of {documents:,} in all; {advice}" + f"; {ENDS_OF_DOCUMENTS}" * (documents < 10)


def _kept(blocks: List[Block], unique_paragraphs: bool) -> Tuple[List[np.ndarray], List[np.ndarray], List[Counts]]:
    """(documents,) and (lines,) boolean of each block, and how many are not kept."""
    documents = first_occurrences([lambda block=block: block.documents for block in blocks], [np.ones(block.count[0], dtype=bool) for block in blocks])
    lines = [_of_lines(block, kept) for block, kept in zip(blocks, documents)]
    dropped = [{**dict.fromkeys(DROPPED, 0), "duplicate_documents": int((~kept).sum())} for kept in documents]
    if unique_paragraphs:
        for block, mask in zip(blocks, lines):
            mask[block.ends] = False
        unique = first_occurrences([lambda block=block: block.lines for block in blocks], lines)
        for i, block in enumerate(blocks):
            dropped[i]["duplicate_paragraphs"] = int(lines[i].sum() - unique[i].sum())
            # A document that has lost all its paragraphs is gone, another keeps its end.
            with_text = np.add.reduceat(unique[i], np.r_[0, block.ends[:-1] + 1], dtype=np.int64) > 0
            dropped[i]["emptied_documents"] = int(documents[i].sum() - with_text.sum())
            documents[i] = with_text
            unique[i][block.ends] = documents[i]
        lines = unique
    return documents, lines, dropped


def _of_lines(block: Block, of_documents: np.ndarray) -> np.ndarray:
    """(lines,) what holds of the document of each line."""
    return np.repeat(of_documents, block.documents["lines"])


def _targets(documents: np.ndarray, valid_share: float, shards: int) -> np.ndarray:
    """(documents,) 0 of validation, 1 + shard of training."""
    valid = documents["high"] < np.uint64(min(valid_share * 2.0**64, 2.0**64 - 2048))
    return np.where(valid, 0, 1 + (documents["low"] % np.uint64(shards)).astype(np.int32)).astype(np.int32)


def _slabs(block: Block, kept: np.ndarray, targets: np.ndarray) -> Iterator[Tuple[int, np.ndarray, np.ndarray]]:
    """(target, tokens, tokens of each line), a few lines at a time."""
    tokens, sizes = block.tokens, block.lines["tokens"].astype(np.int64)
    line_targets = np.where(kept, _of_lines(block, targets), -1)
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


def _count(block: Block, documents, lines, targets, count: int) -> List[Counts]:
    """What is kept of a block, by target."""
    table, of_lines = block.lines, _of_lines(block, targets)
    paragraphs = lines.copy()
    paragraphs[block.ends] = False

    def by_target(of, kept, weights=None):
        return np.bincount(of[kept], None if weights is None else weights[kept], minlength=count).astype(np.int64).tolist()

    columns = [by_target(targets, documents), by_target(of_lines, paragraphs),
               by_target(of_lines, lines, table["words"]), by_target(of_lines, lines, table["tokens"])]  # fmt: skip
    return [dict(zip(COUNTED, of_target)) for of_target in zip(*columns)]
