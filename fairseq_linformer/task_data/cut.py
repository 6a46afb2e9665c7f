"""Texts longer than the model, cut to its n positions.

The model reads ``<s> a </s>``, or ``<s> a </s> </s> b </s>``: fairseq's task puts <s> before the first text and the
separator before the second, the files have each text with its </s>. So one text may have n - 2 tokens, a pair n - 4.
Of a pair the longer is cut first, token by token, until both fit, and of equally long ones the second, as in BERT.
"""

from typing import List, Sequence, Tuple

import numpy as np

MAX_POSITIONS = 512
"""The default n, RoBERTa's."""
HOW = ("head", "head+tail")
"""The first is the default."""
# Sun et al. 2019, "How to Fine-Tune BERT for Text Classification": of 510 tokens the first 128 and the last 382.
_HEAD, _ALL = 128, 510


def check(max_positions: int, inputs: int, how: str = HOW[0]) -> None:
    """Raise ValueError if n has no room for a token of each text, or ``how`` is not in ``HOW``."""
    if how not in HOW:
        raise ValueError(f"cut is {how!r}; it must be one of {', '.join(HOW)}")
    if max_positions < 3 * inputs:
        needs = f"<s>, </s> and a token of each text need at least {3 * inputs}"
        raise ValueError(f"max_positions is {max_positions}; {needs}")
    if max_positions > 1 << 30:
        raise ValueError(f"max_positions is {max_positions}; it must be at most {1 << 30}")


def cut(
    ids: Sequence[np.ndarray], sizes: Sequence[np.ndarray], max_positions: int, how: str = HOW[0]
) -> Tuple[List[np.ndarray], List[np.ndarray], int]:
    """Cut rows to n. The </s> at the end of a text always stays.

    Args:
        ids: for each of one or two texts (tokens,), row after row, each with </s> behind it.
        sizes: for each text (rows,) how many tokens each row has, </s> included.
        max_positions: n.
        how: ``head`` keeps the beginning of a text that is cut; ``head+tail`` its beginning and its end, 128 : 382.

    Returns:
        ids and sizes in the same form, and how many rows were cut.
    """
    room = max_positions - 2 * len(ids)
    lengths = [size.astype(np.int64) - 1 for size in sizes]
    if len(ids) == 1:
        kept = [np.minimum(lengths[0], room)]
    else:
        a, b = lengths
        over = a + b > room
        kept = [
            np.where(over, np.minimum(a, np.maximum(-(-room // 2), room - b)), a),
            np.where(over, np.minimum(b, np.maximum(room // 2, room - a)), b),
        ]
    is_cut = np.logical_or.reduce([keep < length for keep, length in zip(kept, lengths)])
    if not is_cut.any():
        return list(ids), list(sizes), 0
    out = [_kept(*text, how) for text in zip(ids, sizes, kept)]
    return out, [(keep + 1).astype(np.int32) for keep in kept], int(is_cut.sum())


def _kept(ids: np.ndarray, sizes: np.ndarray, keep: np.ndarray, how: str) -> np.ndarray:
    lengths = sizes.astype(np.int64) - 1
    head = np.where(keep < lengths, keep * _HEAD // _ALL, keep) if how == "head+tail" else keep
    place = np.arange(len(ids)) - np.repeat(np.cumsum(sizes, dtype=np.int64) - sizes, sizes)
    # The tail ends where the text does; </s> is behind it.
    return ids[(place < np.repeat(head, sizes)) | (place >= np.repeat(lengths - (keep - head), sizes))]
