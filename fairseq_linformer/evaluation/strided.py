"""Documents longer than n: scored in spans of n tokens, whose logits are averaged.

Span i begins i * stride tokens after the first, and the last span ends with the document, so that each has n
tokens. With a stride of (n - 2) / 2 every token but those at both ends is in two spans.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from .classifier import Encoding

NUM_SPECIAL = 2
"""<s> and </s> of each span."""


class StridedClassifier:
    """A classifier of documents of any length, one per row; those of up to n tokens have the logits of ``classifier``.

    Args:
        classifier: a ``FairseqClassifier``, ``TransformersClassifier`` or ``OnnxClassifier``, whose other
            attributes this one has.
        stride: tokens between the starts of spans.
        max_tokens: maximum number of tokens of the spans in a batch.

    Raises:
        ValueError: the stride is not between 1 and n - 2.
    """

    def __init__(self, classifier: Any, stride: int, max_tokens: int):
        longest = classifier.max_positions - NUM_SPECIAL
        if not 1 <= stride <= longest:
            raise ValueError(f"--stride must be between 1 and n - {NUM_SPECIAL} ({longest}), got {stride}")
        self.classifier, self.stride = classifier, stride
        self._max_spans = max(1, max_tokens // classifier.max_positions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.classifier, name)

    def encode(self, texts: Sequence[tuple[str, ...]]) -> list[Encoding]:
        """Encode whole documents. Raises ValueError for a pair."""
        if len(texts[0]) > 1:
            raise ValueError(f"--stride needs one text per row, got {len(texts[0])}")
        return self.classifier.encode(texts, truncated=False)

    def logits(self, batch: Sequence[Encoding]) -> Tensor:
        """(B, C) in float32, on the CPU: for each document the mean over its spans."""
        spans = ((i, span) for i, row in enumerate(batch) for span in self.split(row))
        sums: Any = [0.0] * len(batch)
        counts = [0] * len(batch)
        while part := list(islice(spans, self._max_spans)):
            for (i, _), logits in zip(part, self.classifier.logits([span for _, span in part])):
                sums[i], counts[i] = sums[i] + logits, counts[i] + 1
        return torch.stack([total / count for total, count in zip(sums, counts)])

    def split(self, row: Encoding) -> list[Encoding]:
        """The spans of a document, each between the document's first and last token, <s> and </s>."""
        width = self.classifier.max_positions - NUM_SPECIAL
        last = len(row["input_ids"]) - NUM_SPECIAL - width
        starts = [0] if last <= 0 else [*range(0, last, self.stride), last]
        return [
            {key: [*value[:1], *value[1:-1][start : start + width], *value[-1:]] for key, value in row.items()}
            for start in starts
        ]
