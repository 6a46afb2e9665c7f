"""Rows through a model in batches of like length, in their own order at the end.

Padding reaches nothing, so that what a row gets does not depend on the batch it was in, but for rounding.
"""

import time
from dataclasses import dataclass
from itertools import islice
from typing import Iterable, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..progress import Progress
from .rows import Row

WINDOW = 8192
"""Rows that are held and sorted at a time."""
MAX_TOKENS, BATCH_SIZE = 8192, 256


@dataclass
class Work:
    """
    Attributes:
        rows: judged.
        tokens: in them, without padding.
        seconds: that the model took; without reading and tokenizing.
    """

    rows: int = 0
    tokens: int = 0
    seconds: float = 0.0


def predict(classifier, rows: Iterable[Row], work: Work, max_tokens: int = MAX_TOKENS, batch_size: int = BATCH_SIZE, total: Optional[int] = None) -> Iterator[Tuple[Row, Tensor]]:
    """
    Args:
        classifier: what has ``logits``.
        work: is counted up.
        max_tokens: of a batch, with padding; a longer row is a batch of its own.
        batch_size: rows of a batch, at most.
        total: rows, for the progress bar; None where they are not known.

    Returns:
        each row with its logits (C,), in the order of ``rows``.

    Raises:
        ValueError: a logit is not finite; or as ``check_sizes``.
    """
    check_sizes(max_tokens, batch_size)
    rows = iter(rows)
    with Progress("judging", total, "rows") as progress:
        while window := list(islice(rows, WINDOW)):
            found: List[Optional[Tensor]] = [None] * len(window)
            for batch in batches([length(row) for row in window], max_tokens, batch_size):
                begun = time.perf_counter()
                logits = classifier.logits([window[i].encoded for i in batch])
                work.seconds += time.perf_counter() - begun
                work.rows += len(batch)
                work.tokens += sum(length(window[i]) for i in batch)
                for i, row in zip(batch, logits):
                    found[i] = row
                progress.add(len(batch))
            for row, logits in zip(window, found):
                if not bool(torch.isfinite(logits).all()):
                    raise ValueError(f"{row.place}: the model gives {logits.tolist()}; its weights are damaged")
                yield row, logits


def check_sizes(max_tokens: int, batch_size: int) -> None:
    """
    Raises:
        ValueError: ``max_tokens`` or ``batch_size`` is below 1.
    """
    for name, value in (("max-tokens", max_tokens), ("batch-size", batch_size)):
        if value < 1:
            raise ValueError(f"--{name} is {value}; it must be at least 1")


def length(row: Row) -> int:
    """Tokens of a row."""
    return len(row.encoded["input_ids"])


def batches(lengths: Sequence[int], max_tokens: int, batch_size: int) -> Iterator[List[int]]:
    """Numbers of rows, those of like length together, the longest first: if memory is short, it is at once."""
    batch: List[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) == batch_size or lengths[batch[0]] * (len(batch) + 1) > max_tokens):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
