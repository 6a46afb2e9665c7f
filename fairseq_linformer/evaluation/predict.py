"""Rows through a model in batches of similar length; their own order is restored.

Padding reaches nothing, so that the result for a row depends on its batch only by rounding.
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
        rows: evaluated so far.
        tokens: in them, without padding.
        seconds: spent in the model; without reading and tokenizing.
    """

    rows: int = 0
    tokens: int = 0
    seconds: float = 0.0


def predict(
    classifier, rows: Iterable[Row], work: Work, max_tokens: int = MAX_TOKENS, batch_size: int = BATCH_SIZE,
    total: Optional[int] = None,
) -> Iterator[Tuple[Row, Tensor]]:  # fmt: skip
    """
    Args:
        classifier: an object with ``logits``.
        work: is counted up.
        max_tokens: per batch, with padding; a longer row is a batch of its own.
        batch_size: rows per batch, at most.
        total: rows, for the progress bar; None where it is not known.

    Returns:
        each row with its logits (C,), in the order of ``rows``.

    Raises:
        ValueError: a logit is not finite; or as ``check_sizes``.
    """
    check_sizes(max_tokens, batch_size)
    rows = iter(rows)
    with Progress("evaluating", total, "rows") as progress:
        while window := list(islice(rows, WINDOW)):
            lengths, logits_of = [len(row.encoded["input_ids"]) for row in window], {}
            for batch in batches(lengths, max_tokens, batch_size):
                begun = time.perf_counter()
                logits_of.update(zip(batch, classifier.logits([window[i].encoded for i in batch])))
                work.seconds += time.perf_counter() - begun
                work.rows += len(batch)
                work.tokens += sum(lengths[i] for i in batch)
                progress.add(len(batch))
            for i, row in enumerate(window):
                if not bool(torch.isfinite(logits_of[i]).all()):
                    raise ValueError(f"{row.place}: the model gives {logits_of[i].tolist()}; its weights are damaged")
                yield row, logits_of[i]


def check_sizes(max_tokens: int, batch_size: int) -> None:
    """Raise ValueError if ``max_tokens`` or ``batch_size`` is below 1."""
    for name, value in (("max-tokens", max_tokens), ("batch-size", batch_size)):
        if value < 1:
            raise ValueError(f"--{name} is {value}; it must be at least 1")


def batches(lengths: Sequence[int], max_tokens: int, batch_size: int) -> Iterator[List[int]]:
    """Indices of rows of similar length, the longest first: if memory is too small, that shows at once."""
    batch: List[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) == batch_size or lengths[batch[0]] * (len(batch) + 1) > max_tokens):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
