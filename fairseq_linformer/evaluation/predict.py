"""Batched inference: rows are batched by length, and results are in the order of the rows.

Padding does not change the model's output, so the result for a row depends on its batch only through rounding.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..progress import progress_bar
from .encoded_rows import EncodedRow, split_rows

SORTED_ROWS = 8192
SORTED_TOKENS = 512 * SORTED_ROWS
"""Rows are sorted by length in chunks of SORTED_ROWS rows, or fewer that have SORTED_TOKENS tokens."""
MAX_TOKENS, BATCH_SIZE = 8192, 256


@dataclass
class Throughput:
    """Totals of the batches so far.

    Attributes:
        rows: number of rows.
        tokens: number of tokens, without padding.
        seconds: time in the model, without reading and tokenization.
    """

    rows: int = 0
    tokens: int = 0
    seconds: float = 0.0


def predict(
    classifier,
    rows: Iterable[EncodedRow],
    throughput: Throughput,
    max_tokens: int = MAX_TOKENS,
    batch_size: int = BATCH_SIZE,
    total: int | None = None,
) -> Iterator[tuple[EncodedRow, Tensor]]:
    """Yield each row with its logits (C,), in the order of ``rows``.

    Args:
        classifier: an object with ``logits``.
        throughput: updated after each batch.
        max_tokens: maximum number of tokens per batch, with padding; a longer row is a batch of its own.
        batch_size: maximum number of rows per batch.
        total: number of rows, for progress; None if unknown.

    Raises:
        ValueError: a logit is NaN or infinite, or a limit is below 1.
    """
    check_batch_limits(max_tokens, batch_size)
    with progress_bar("evaluating", total, "row") as progress:
        for chunk in split_rows(rows, SORTED_ROWS, SORTED_TOKENS, lambda row: len(row.encoded["input_ids"])):
            lengths = [len(row.encoded["input_ids"]) for row in chunk]
            logits_of: dict[int, Tensor] = {}
            for batch in batch_by_length(lengths, max_tokens, batch_size):
                start = time.perf_counter()
                logits_of.update(zip(batch, classifier.logits([chunk[i].encoded for i in batch])))
                throughput.seconds += time.perf_counter() - start
                throughput.rows += len(batch)
                throughput.tokens += sum(lengths[i] for i in batch)
                progress.update(len(batch))
            for i, row in enumerate(chunk):
                if not bool(torch.isfinite(logits_of[i]).all()):
                    raise ValueError(
                        f"{row.location}: logits must be finite, got {logits_of[i].tolist()}; the weights are damaged"
                    )
                yield row, logits_of[i]


def check_batch_limits(max_tokens: int, batch_size: int) -> None:
    """Raise ValueError if ``max_tokens`` or ``batch_size`` is below 1."""
    for name, value in (("max-tokens", max_tokens), ("batch-size", batch_size)):
        if value < 1:
            raise ValueError(f"--{name} must be at least 1, got {value}")


def batch_by_length(lengths: Sequence[int], max_tokens: int, batch_size: int) -> Iterator[list[int]]:
    """Indices of rows of similar length, longest first, so that running out of memory happens in the first batch."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) == batch_size or lengths[batch[0]] * (len(batch) + 1) > max_tokens):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
