"""Assembles tokenized chunks into fairseq's data-bin, without duplicate documents.

Of equal documents the first one is kept, in the order of the sources. Its hash decides its split and shard, so the
result does not depend on how chunks were distributed over processes and machines.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from ..progress import Progress
from .binarized import BinarizedWriter
from .chunks import DOCUMENT, chunk_name, line_dtype
from .documents import BLANK_LINE_HINT
from .tokenizer import UNK

BLOCK_DOCUMENTS = 1 << 18
HASHES_PER_PASS = 4 << 20
"""Hashes sorted per pass: 200 MB of memory."""
TOKENS_PER_WRITE = 4 << 20

Counts = dict[str, int]
KEPT_COUNTS = ("documents", "paragraphs", "words", "tokens")
"""Tokens include the </s> of lines and documents. Splits also count ``unknown`` tokens."""
DROPPED_COUNTS = ("duplicate_documents", "duplicate_paragraphs", "emptied_documents")
"""An emptied document is not a duplicate, but each of its paragraphs is."""


@dataclass(frozen=True)
class Block:
    """Consecutive documents of a chunk, memory-mapped."""

    source: int
    path: Path
    """Of the files of ``chunks.py``, without suffix."""
    dtype: np.dtype
    hashed: bool
    start: tuple[int, int, int]
    """Index of the first document, line and token."""
    count: tuple[int, int, int]
    """Number of documents, lines and tokens."""

    def _map(self, suffix: str, dtype: np.dtype, level: int) -> np.ndarray:
        offset = self.start[level] * dtype.itemsize
        return np.memmap(self.path.with_suffix(suffix), dtype, "r", offset, (self.count[level],))

    @property
    def documents(self) -> np.ndarray:
        """(documents,) of ``DOCUMENT``."""
        return self._map(".documents", DOCUMENT, 0)

    @property
    def lines(self) -> np.ndarray:
        """(lines,) of ``line_dtype``."""
        return self._map(".lines", line_dtype(self.hashed), 1)

    @property
    def tokens(self) -> np.ndarray:
        """(tokens,)."""
        return self._map(".tokens", self.dtype, 2)

    @property
    def ends(self) -> np.ndarray:
        """(documents,) index of the line that ends each document, a lone </s>."""
        return np.cumsum(self.documents["lines"], dtype=np.int64) - 1

    def expand(self, per_document: np.ndarray) -> np.ndarray:
        """(documents,) to (lines,): each line gets the value of its document."""
        return np.repeat(per_document, self.documents["lines"])


def list_blocks(folder: Path, sources: list[int], dtype, hashed: bool) -> list[Block]:
    """All documents of all chunks in order, in blocks of at most ``BLOCK_DOCUMENTS``, which bounds their memory.

    Args:
        sources: index of the source of each chunk.
        dtype: of the tokens.
        hashed: whether lines have hashes.
    """
    blocks = []
    for i, source in enumerate(sources):
        path = folder / chunk_name(i)
        total = path.with_suffix(".documents").stat().st_size // DOCUMENT.itemsize
        start = (0, 0, 0)
        while start[0] < total:
            documents = min(BLOCK_DOCUMENTS, total - start[0])
            block = Block(source, path, np.dtype(dtype), hashed, start, (documents, 0, 0))
            lines = int(block.documents["lines"].sum())
            tokens = int(replace(block, count=(documents, lines, 0)).lines["tokens"].sum())
            blocks.append(replace(block, count=(documents, lines, tokens)))
            start = (start[0] + documents, start[1] + lines, start[2] + tokens)
    return blocks


def find_first_occurrences(
    blocks: Sequence[Block],
    level: Literal["documents", "lines"],
    eligible: list[np.ndarray],
    hashes_per_pass: int = HASHES_PER_PASS,
) -> list[np.ndarray]:
    """Find the documents or lines whose hash did not occur before.

    Args:
        eligible: (m_i,) boolean for block i; others are neither kept nor compared.
        hashes_per_pass: bounds the memory; each pass reads all blocks.

    Returns:
        (m_i,) boolean for block i.
    """
    is_kept = [np.zeros(len(mask), dtype=bool) for mask in eligible]
    num_passes = max(1, -(-sum(int(mask.sum()) for mask in eligible) // hashes_per_pass))
    with Progress("comparing", num_passes * sum(map(len, eligible)), "hashes") as progress:
        for i in range(num_passes):
            members, pairs = [], [np.empty((0, 2), np.uint64)]
            for block, mask in zip(blocks, eligible):
                records = getattr(block, level)
                members.append(np.flatnonzero(mask & (records["high"] % np.uint64(num_passes) == i)))
                pairs.append(np.stack([records["high"][members[-1]], records["low"][members[-1]]], axis=1))
                progress.add(len(mask))
            hashes = np.concatenate(pairs)
            order = np.lexsort((hashes[:, 1], hashes[:, 0]))  # stable: equal hashes stay in the order of the sources
            is_first = np.ones(len(order), dtype=bool)
            is_first[1:] = (np.diff(hashes[order], axis=0) != 0).any(1)
            keep = np.zeros(len(order), dtype=bool)
            keep[order[is_first]] = True
            for mask, indices in zip(is_kept, members):
                mask[indices], keep = keep[: len(indices)], keep[len(indices) :]
    return is_kept


def assemble(
    blocks: list[Block], num_sources: int, out: Path, valid_share: float, shards: int, unique_paragraphs: bool
) -> tuple[dict[str, Counts], list[Counts]]:
    """Write ``OUT/shardI/train.bin`` and ``.idx``, I from 0, and ``OUT/shard0/valid``.

    Args:
        valid_share: share of the documents for validation, selected by hash.
        unique_paragraphs: drop repeated paragraphs, in any document.

    Returns:
        counts per split (``valid``, ``train0``, ...), and per source.

    Raises:
        ValueError: a split or shard has no documents.
        OSError: the disk is full.
    """
    documents, lines, dropped = _drop_duplicates(blocks, unique_paragraphs)
    prefixes = {"valid": out / "shard0" / "valid", **{f"train{i}": out / f"shard{i}" / "train" for i in range(shards)}}
    by_split: dict[str, Counter[str]] = {name: Counter() for name in prefixes}
    by_source = [Counter(dict.fromkeys((*KEPT_COUNTS, *DROPPED_COUNTS), 0)) for _ in range(num_sources)]
    dtype = blocks[0].dtype if blocks else np.uint16
    with ExitStack() as stack:
        progress = stack.enter_context(Progress("writing", sum(block.count[2] for block in blocks), "tokens"))
        writers = {name: stack.enter_context(closing(BinarizedWriter(p, dtype))) for name, p in prefixes.items()}
        for i, block in enumerate(blocks):
            targets = _assign_targets(block.documents, valid_share, shards)
            by_source[block.source].update(dropped[i])
            for name, counts in zip(prefixes, _count_kept(block, documents[i], lines[i], targets, len(prefixes))):
                by_split[name].update(counts)
                by_source[block.source].update(counts)
            for target, ids, sizes in _split_tokens(block, lines[i], targets):
                name = list(prefixes)[target]
                writers[name].add(ids, sizes)
                by_split[name]["unknown"] += int((ids == UNK).sum())
            progress.add(block.count[2])
        for name, writer in writers.items():
            if writer.num_lines == 0:
                raise ValueError(_empty_split_message(name, sum(c["documents"] for c in by_split.values())))
        for writer in writers.values():
            writer.finish()
    return {name: dict(counts) for name, counts in by_split.items()}, [dict(counts) for counts in by_source]


def _empty_split_message(name: str, documents: int) -> str:
    if documents == 0:
        return "the sources have no documents with text"
    advice = "raise --valid-share" if name == "valid" else "lower --shards or --valid-share"
    hint = f"; {BLANK_LINE_HINT}" if documents < 10 else ""
    return f"{name} is empty: none of the {documents:,} documents was assigned to it; {advice}{hint}"


def _drop_duplicates(
    blocks: list[Block], unique_paragraphs: bool
) -> tuple[list[np.ndarray], list[np.ndarray], list[Counts]]:
    """Per block, boolean masks of kept documents (documents,) and lines (lines,), and counts of dropped ones."""
    documents = find_first_occurrences(blocks, "documents", [np.ones(block.count[0], dtype=bool) for block in blocks])
    lines = [block.expand(mask) for block, mask in zip(blocks, documents)]
    dropped = [{**dict.fromkeys(DROPPED_COUNTS, 0), "duplicate_documents": int((~mask).sum())} for mask in documents]
    if unique_paragraphs:
        for block, mask in zip(blocks, lines):
            mask[block.ends] = False
        unique = find_first_occurrences(blocks, "lines", lines)
        for i, block in enumerate(blocks):
            dropped[i]["duplicate_paragraphs"] = int(lines[i].sum() - unique[i].sum())
            # A document without paragraphs is dropped; the others keep their end.
            has_text = np.add.reduceat(unique[i], np.r_[0, block.ends[:-1] + 1], dtype=np.int64) > 0
            dropped[i]["emptied_documents"] = int(documents[i].sum() - has_text.sum())
            documents[i] = unique[i][block.ends] = has_text
        lines = unique
    return documents, lines, dropped


def _assign_targets(documents: np.ndarray, valid_share: float, shards: int) -> np.ndarray:
    """(documents,) 0 for validation, 1 + shard for training."""
    is_valid = documents["high"] < np.uint64(min(valid_share * 2.0**64, 2.0**64 - 2048))
    return np.where(is_valid, 0, 1 + (documents["low"] % np.uint64(shards)).astype(np.int32)).astype(np.int32)


def _split_tokens(
    block: Block, is_kept: np.ndarray, targets: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(target, tokens, length of each line), at most ``TOKENS_PER_WRITE`` tokens or one line at a time."""
    tokens, sizes = block.tokens, block.lines["tokens"].astype(np.int64)
    line_targets = np.where(is_kept, block.expand(targets), -1)
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        offset = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, offset + TOKENS_PER_WRITE, side="right")))
        part_targets, part_sizes = line_targets[start:end], sizes[start:end]
        token_targets, part = np.repeat(part_targets, part_sizes), tokens[offset : ends[end - 1]]
        for target in np.unique(part_targets[part_targets >= 0]):
            yield int(target), part[token_targets == target], part_sizes[part_targets == target]
        start = end


def _count_kept(block: Block, documents, lines, targets, num_targets: int) -> list[Counts]:
    """Counts of the kept documents and lines of a block, per target."""
    table, line_targets, paragraphs = block.lines, block.expand(targets), lines.copy()
    paragraphs[block.ends] = False

    def count(values, weights=None):
        return np.bincount(values, weights, minlength=num_targets).astype(np.int64).tolist()

    columns = [
        count(targets[documents]),
        count(line_targets[paragraphs]),
        count(line_targets[lines], table["words"][lines]),
        count(line_targets[lines], table["tokens"][lines]),
    ]
    return [dict(zip(KEPT_COUNTS, counts)) for counts in zip(*columns)]
