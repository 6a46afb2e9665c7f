"""Truncation against removing token by token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_linformer.data.truncation import check_max_positions, truncate


def keep_tokens(text, length, truncation):
    """``length`` tokens of a text."""
    if len(text) == length or truncation == "head":
        return text[:length]
    head = length * 128 // 510
    return text[:head] + text[len(text) - (length - head) :]


def truncate_slowly(row, n, truncation):
    """Truncate one or two texts without </s> to n positions, like BERT's truncate_seq_pair."""
    lengths = [len(text) for text in row]
    while sum(lengths) + 2 * len(row) > n:
        longest = 0 if len(row) == 1 or lengths[0] > lengths[1] else 1
        lengths[longest] -= 1
    return [keep_tokens(text, length, truncation) for text, length in zip(row, lengths)]


def arrays(texts):
    ids = [token for text in texts for token in (*text, 2)]
    return np.array(ids, dtype=np.uint16), np.array([len(text) + 1 for text in texts], dtype=np.int32)


def texts_of(ids, sizes):
    ends = np.cumsum(sizes)
    assert (ends[-1] if len(ends) else 0) == len(ids) and all(ids[end - 1] == 2 for end in ends)
    return [ids[end - size : end - 1].tolist() for end, size in zip(ends, sizes)]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_truncation_equals_token_by_token_removal(data):
    inputs = data.draw(st.sampled_from((1, 2)))
    truncation = data.draw(st.sampled_from(("head", "head+tail")))
    n = data.draw(st.integers(3 * inputs, 40))
    text = st.integers(1, 50).map(lambda length: list(range(10, 10 + length)))
    rows = data.draw(st.lists(st.tuples(*[text] * inputs), max_size=6))
    ids, sizes = zip(*(arrays([row[i] for row in rows]) for i in range(inputs)))
    out_ids, out_sizes, count = truncate(ids, sizes, n, truncation)
    expected = [truncate_slowly(row, n, truncation) for row in rows]
    assert [texts_of(*text) for text in zip(out_ids, out_sizes)] == [
        [row[i] for row in expected] for i in range(inputs)
    ]
    assert count == sum(list(map(len, new)) != list(map(len, old)) for new, old in zip(expected, rows))
    for row in expected:  # <s> a </s> </s> b </s>
        assert sum(map(len, row)) + 2 * inputs <= n and all(row)
    assert all(new.dtype == old.dtype for new, old in zip((*out_ids, *out_sizes), (*ids, *sizes)))


def test_rejected_n():
    for n, inputs in ((2, 1), (5, 2), (-1, 1)):
        with pytest.raises(ValueError, match=f"max-positions .* {3 * inputs} .*got {n}"):
            check_max_positions(n, inputs)
    check_max_positions(3, 1), check_max_positions(6, 2)
