"""All chunks into one corpus: repeated documents are dropped, the others are split and written.

Of equal documents the first stays, in the order of the sources. Its hash decides whether it is validation and, if not,
its shard. So the result does not depend on how many processes made the chunks, or on which machines.
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
"""What was kept; tokens include the </s> of lines and documents. For a split, ``unknown`` tokens are counted too."""
DROPPED = ("duplicate_documents", "duplicate_paragraphs", "emptied_documents")
"""What was not; an emptied document is new itself, but each of its paragraphs came before."""


@dataclass(frozen=True)
class Block:
    """Consecutive documents of a chunk, as arrays on disk."""

    source: int
    path: Path
    """Of the files of ``chunks.py``, without suffix."""
    dtype: np.dtype
    hashed: bool
    first: Tuple[int, int, int]
    """Index of the first document, line and token."""
    count: Tuple[int, int, int]

    def _read(self, suffix: str, dtype, which: int) -> np.ndarray:
        offset = self.first[which] * dtype.itemsize
        return np.memmap(self.path.with_suffix(suffix), dtype, "r", offset, (self.count[which],))

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
        """(documents,) index of the line that ends each document, a lone </s>."""
        return np.cumsum(self.documents["lines"], dtype=np.int64) - 1

    def per_line(self, per_document: np.ndarray) -> np.ndarray:
        """(documents,) to (lines,): each line gets the value of its document."""
        return np.repeat(per_document, self.documents["lines"])


def blocks_of(folder: Path, sources: List[int], dtype, hashed: bool, size: int = 1 << 18) -> List[Block]:
    """All documents of all chunks in order, in blocks of at most ``size`` documents, which bounds their memory.

    Args:
        sources: the source of each chunk.
        dtype: of the tokens.
        hashed: whether the lines have hashes.
    """
    blocks = []
    for i, source in enumerate(sources):
        path = folder / name_of(i)
        total = path.with_suffix(".documents").stat().st_size // DOCUMENT.itemsize
        first = (0, 0, 0)
        while first[0] < total:
            block = Block(source, path, np.dtype(dtype), hashed, first, (min(size, total - first[0]), 0, 0))
            block = replace(block, count=(block.count[0], int(block.documents["lines"].sum()), 0))
            block = replace(block, count=(*block.count[:2], int(block.lines["tokens"].sum())))
            blocks.append(block)
            first = tuple(a + b for a, b in zip(first, block.count))
    return blocks


def first_occurrences(
    hashes: List[Callable[[], np.ndarray]], eligible: List[np.ndarray], bucket: int = BUCKET
) -> List[np.ndarray]:
    """Which hashes occur for the first time.

    Args:
        hashes: functions that return (m_i,) with ``high`` and ``low``, for block i.
        eligible: (m_i,) boolean per block; others are neither kept nor compared.
        bucket: how many are sorted at once; the blocks are read again for each bucket.

    Returns:
        (m_i,) boolean per block.
    """
    kept = [np.zeros(len(mask), dtype=bool) for mask in eligible]
    buckets = max(1, -(-sum(int(mask.sum()) for mask in eligible) // bucket))
    with Progress("comparing", buckets * sum(map(len, eligible)), "hashes") as progress:
        for b in range(buckets):
            members, pairs = [], [np.empty((0, 2), np.uint64)]
            for read, mask in zip(hashes, eligible):
                found = read()
                members.append(np.flatnonzero(mask & (found["high"] % np.uint64(buckets) == b)))
                pairs.append(np.stack([found["high"][members[-1]], found["low"][members[-1]]], axis=1))
                progress.add(len(mask))
            pairs = np.concatenate(pairs)
            order = np.lexsort((pairs[:, 1], pairs[:, 0]))  # stable: equal ones stay in the order of the sources
            is_first = np.ones(len(order), dtype=bool)
            is_first[1:] = (np.diff(pairs[order], axis=0) != 0).any(1)
            keep = np.zeros(len(order), dtype=bool)
            keep[order[is_first]] = True
            for mask, places in zip(kept, members):
                mask[places], keep = keep[: len(places)], keep[len(places) :]
    return kept


def assemble(
    blocks: List[Block], source_count: int, out: Path, valid_share: float, shards: int, unique_paragraphs: bool
) -> Tuple[Dict[str, Counts], List[Counts]]:
    """Write ``OUT/shardI/train.bin`` and ``.idx``, I from 0, and ``valid`` beside the first.

    Args:
        valid_share: share of the documents that goes to validation, chosen by their hashes.
        unique_paragraphs: drop paragraphs that came before, in any document.

    Returns:
        counts by split (``valid``, ``train0``, ...), and per source.

    Raises:
        ValueError: a split or a shard has no documents.
        OSError: the disk is full.
    """
    documents, lines, dropped = _kept(blocks, unique_paragraphs)
    prefixes = {"valid": out / "shard0" / "valid", **{f"train{i}": out / f"shard{i}" / "train" for i in range(shards)}}
    by_split: Dict[str, Counter] = {name: Counter() for name in prefixes}
    by_source = [Counter(dict.fromkeys((*COUNTED, *DROPPED), 0)) for _ in range(source_count)]
    dtype = blocks[0].dtype if blocks else np.uint16
    with ExitStack() as stack:
        progress = stack.enter_context(Progress("writing", sum(block.count[2] for block in blocks), "tokens"))
        writers = {name: stack.enter_context(closing(Writer(prefix, dtype))) for name, prefix in prefixes.items()}
        for i, block in enumerate(blocks):
            targets = _targets(block.documents, valid_share, shards)
            by_source[block.source].update(dropped[i])
            for name, counts in zip(prefixes, _count(block, documents[i], lines[i], targets, len(prefixes))):
                by_split[name].update(counts)
                by_source[block.source].update(counts)
            for target, ids, sizes in _slabs(block, lines[i], targets):
                name = list(prefixes)[target]
                writers[name].add(ids, sizes)
                by_split[name]["unknown"] += int((ids == UNKNOWN).sum())
            progress.add(block.count[2])
        for name, writer in writers.items():
            if writer.lines == 0:
                raise ValueError(_empty_split(name, sum(counts["documents"] for counts in by_split.values())))
        for writer in writers.values():
            writer.finish()
    return {name: dict(counts) for name, counts in by_split.items()}, [dict(counts) for counts in by_source]


def _empty_split(name: str, documents: int) -> str:
    if documents == 0:
        return "the sources have no documents with text"
    advice = "raise --valid-share" if name == "valid" else "lower --shards or --valid-share"
    hint = f"; {ENDS_OF_DOCUMENTS}" if documents < 10 else ""
    return f"no document fell into {name}, of {documents:,} in all; {advice}{hint}"


def _kept(blocks: List[Block], unique_paragraphs: bool) -> Tuple[List[np.ndarray], List[np.ndarray], List[Counts]]:
    """(documents,) and (lines,) boolean per block, and the counts of what is not kept."""
    everything = [np.ones(block.count[0], dtype=bool) for block in blocks]
    documents = first_occurrences([lambda block=block: block.documents for block in blocks], everything)
    lines = [block.per_line(kept) for block, kept in zip(blocks, documents)]
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
            documents[i] = unique[i][block.ends] = with_text
        lines = unique
    return documents, lines, dropped


def _targets(documents: np.ndarray, valid_share: float, shards: int) -> np.ndarray:
    """(documents,) 0 for validation, 1 + shard for training."""
    valid = documents["high"] < np.uint64(min(valid_share * 2.0**64, 2.0**64 - 2048))
    return np.where(valid, 0, 1 + (documents["low"] % np.uint64(shards)).astype(np.int32)).astype(np.int32)


def _slabs(block: Block, kept: np.ndarray, targets: np.ndarray) -> Iterator[Tuple[int, np.ndarray, np.ndarray]]:
    """(target, tokens, tokens of each line), a few lines at a time."""
    tokens, sizes = block.tokens, block.lines["tokens"].astype(np.int64)
    line_targets = np.where(kept, block.per_line(targets), -1)
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        offset = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, offset + SLAB, side="right")))
        part, part_sizes = line_targets[begin:end], sizes[begin:end]
        token_targets, slab = np.repeat(part, part_sizes), tokens[offset : ends[end - 1]]
        for target in np.unique(part[part >= 0]):
            yield int(target), slab[token_targets == target], part_sizes[part == target]
        begin = end


def _count(block: Block, documents, lines, targets, count: int) -> List[Counts]:
    """What is kept of a block, per target."""
    table, line_targets, paragraphs = block.lines, block.per_line(targets), lines.copy()
    paragraphs[block.ends] = False

    def per_target(values, weights=None):
        return np.bincount(values, weights, minlength=count).astype(np.int64).tolist()

    columns = [
        per_target(targets[documents]),
        per_target(line_targets[paragraphs]),
        per_target(line_targets[lines], table["words"][lines]),
        per_target(line_targets[lines], table["tokens"][lines]),
    ]
    return [dict(zip(COUNTED, counts)) for counts in zip(*columns)]
