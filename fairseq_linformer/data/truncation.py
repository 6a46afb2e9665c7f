"""Truncates texts and pairs to the model's n positions.

The model reads ``<s> a </s>`` or ``<s> a </s> </s> b </s>``: the files hold each text with its </s>, and fairseq's task
adds <s> and the separator. So a text may have n - 2 tokens, and a pair n - 4. A pair is truncated as in BERT, token by
token: the longer text, or the second of equally long ones, until both fit.
"""

from collections.abc import Sequence

import numpy as np

from .tasks import TRUNCATIONS

# Sun et al. 2019, "How to Fine-Tune BERT for Text Classification": of 510 tokens the first 128 and the last 382.
_HEAD, _TOTAL = 128, 510


def check_max_positions(max_positions: int, num_inputs: int) -> None:
    """Raise ValueError if n has no room for a token of each input."""
    if not 3 * num_inputs <= max_positions <= 1 << 30:
        raise ValueError(
            f"--max-positions must be between {3 * num_inputs} (<s>, </s> and a token per input) and {1 << 30}, "
            f"got {max_positions}"
        )


def truncate(
    ids: Sequence[np.ndarray], sizes: Sequence[np.ndarray], max_positions: int, truncation: str = TRUNCATIONS[0]
) -> tuple[list[np.ndarray], list[np.ndarray], int]:
    """Truncate rows to n positions. The </s> of a text is always kept.

    Args:
        ids: (tokens,) for each of one or two inputs, row after row, each with its </s>.
        sizes: (rows,) for each input, the number of tokens of each row, including </s>.
        max_positions: n.
        truncation: ``head`` or ``head+tail``.

    Returns:
        ids and sizes in the same form, and the number of truncated rows.
    """
    max_tokens = max_positions - 2 * len(ids)
    lengths = [size.astype(np.int64) - 1 for size in sizes]
    total = np.sum(lengths, axis=0)
    new_lengths = [  # what the other text leaves, and of a pair at least half; the first text gets the odd token
        np.minimum(length, np.maximum((max_tokens + 1 - i) // 2, max_tokens - (total - length)))
        for i, length in enumerate(lengths)
    ]
    num_truncated = int((np.sum(new_lengths, axis=0) < total).sum())
    if not num_truncated:
        return list(ids), list(sizes), 0
    new_ids = [_select_tokens(*text, truncation) for text in zip(ids, sizes, new_lengths)]
    return new_ids, [(length + 1).astype(np.int32) for length in new_lengths], num_truncated


def _select_tokens(ids: np.ndarray, sizes: np.ndarray, new_lengths: np.ndarray, truncation: str) -> np.ndarray:
    lengths, head = sizes.astype(np.int64) - 1, new_lengths
    if truncation == "head+tail":
        head = np.where(new_lengths < lengths, new_lengths * _HEAD // _TOTAL, new_lengths)
    position = np.arange(len(ids)) - np.repeat(np.cumsum(sizes, dtype=np.int64) - sizes, sizes)
    tail_start = lengths - (new_lengths - head)  # the tail includes </s>
    return ids[(position < np.repeat(head, sizes)) | (position >= np.repeat(tail_start, sizes))]
