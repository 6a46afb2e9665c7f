"""Batched inference: rows are batched by length, and results are in the order of the rows.

Padding does not change the model's output, so the result for a row depends on its batch only through rounding.

A document longer than n is scored in pieces of n tokens, whose logits are averaged. Piece i begins i * stride tokens
after the first, and the last piece ends with the document, so that each has n tokens. With a stride of (n - 2) / 2
every token but those at both ends is in two pieces.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..progress import progress_bar
from .classifier import Classifier, Encoding
from .encoded_rows import EncodedExample, split_rows

SORTED_ROWS = 8192
SORTED_TOKENS = 512 * SORTED_ROWS
"""Rows are sorted by length in chunks of SORTED_ROWS rows, or fewer that have SORTED_TOKENS tokens."""
MAX_TOKENS, BATCH_SIZE = 8192, 256
"""Tokens, with padding, and rows per batch at most."""
NUM_SPECIAL = 2
"""<s> and </s> of each piece."""


@dataclass
class Throughput:
    """Throughput of predictions: totals of the rows so far.

    Attributes:
        rows, tokens: number of rows, and of their tokens, without padding.
        seconds: time in the model, without reading and tokenization.
        truncated_rows, dropped_tokens: number of rows that were truncated, and of the tokens that this dropped.
    """

    rows: int = 0
    tokens: int = 0
    seconds: float = 0.0
    truncated_rows: int = 0
    dropped_tokens: int = 0


def predict(
    classifier: Classifier,
    rows: Iterable[EncodedExample],
    throughput: Throughput,
    max_tokens: int = MAX_TOKENS,
    total: int | None = None,
    stride: int | None = None,
) -> Iterator[tuple[EncodedExample, Tensor]]:
    """Yield each row with its logits (C,), in the order of ``rows``.

    Args:
        throughput: updated while rows are predicted.
        max_tokens: maximum number of tokens per batch, with padding; a longer row is a batch of its own.
        total: number of rows, for progress; None if unknown.
        stride: tokens between the starts of pieces, if rows may be longer than n.
    """
    width = classifier.max_positions - NUM_SPECIAL
    if stride is not None and not 1 <= stride <= width:
        raise ValueError(f"--stride must be between 1 and n - {NUM_SPECIAL} ({width}), got {stride}")
    with progress_bar("evaluating", total, "row") as progress:
        for chunk in split_rows(rows, SORTED_ROWS, SORTED_TOKENS, lambda row: len(row.encoded["input_ids"])):
            lengths = [len(row.encoded["input_ids"]) for row in chunk]
            throughput.rows += len(chunk)
            throughput.tokens += sum(lengths)
            throughput.truncated_rows += sum(row.dropped > 0 for row in chunk)
            throughput.dropped_tokens += sum(row.dropped for row in chunk)
            starts = [piece_starts(length - NUM_SPECIAL, width, stride) for length in lengths]
            pieces = [(i, start) for i, row_starts in enumerate(starts) for start in row_starts]
            sums: list[Any] = [0.0] * len(chunk)
            piece_lengths = [min(lengths[i], width + NUM_SPECIAL) for i, _ in pieces]
            for batch in batch_by_length(piece_lengths, max_tokens):
                inputs = [take_piece(chunk[i].encoded, start, width) for i, start in (pieces[j] for j in batch)]
                before = time.perf_counter()
                logits = classifier.logits(inputs)
                throughput.seconds += time.perf_counter() - before
                for j, values in zip(batch, logits):
                    sums[pieces[j][0]] = sums[pieces[j][0]] + values
                progress.update(sum(pieces[j][1] == 0 for j in batch))
            for row, row_starts, total_logits in zip(chunk, starts, sums):
                mean = total_logits / len(row_starts)
                if not bool(torch.isfinite(mean).all()):
                    raise ValueError(
                        f"{row.location}: logits must be finite, got {mean.tolist()}; the weights are damaged"
                    )
                yield row, mean


def piece_starts(length: int, width: int, stride: int | None) -> Sequence[int]:
    """Where the pieces of a document of ``length`` tokens start, without special tokens; each has ``width`` tokens."""
    if stride is None or length <= width:
        return [0]
    return [*range(0, length - width, stride), length - width]


def take_piece(encoded: Encoding, start: int, width: int) -> Encoding:
    """A piece between the first and the last token of a document, <s> and </s>."""
    if start == 0 and len(encoded["input_ids"]) <= width + NUM_SPECIAL:
        return encoded
    return {key: [*value[:1], *value[1:-1][start : start + width], *value[-1:]] for key, value in encoded.items()}


def batch_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Indices of rows of similar length, longest first, so that running out of memory happens in the first batch."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) == BATCH_SIZE or lengths[batch[0]] * (len(batch) + 1) > max_tokens):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
