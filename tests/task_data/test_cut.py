"""Cutting, against token by token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_linformer.task_data.cut import check, cut


def keep(text, length, how):
    """``length`` tokens of a text."""
    if len(text) == length or how == "head":
        return text[:length]
    head = length * 128 // 510
    return text[:head] + text[len(text) - (length - head) :]


def slowly(row, n, how):
    """One or two texts without </s> in n positions, as BERT's truncate_seq_pair."""
    lengths = [len(text) for text in row]
    while sum(lengths) + 2 * len(row) > n:
        longest = 0 if len(row) == 1 or lengths[0] > lengths[1] else 1
        lengths[longest] -= 1
    return [keep(text, length, how) for text, length in zip(row, lengths)]


def arrays(texts):
    ids = [token for text in texts for token in (*text, 2)]
    return np.array(ids, dtype=np.uint16), np.array([len(text) + 1 for text in texts], dtype=np.int32)


def texts_of(ids, sizes):
    ends = np.cumsum(sizes)
    assert (ends[-1] if len(ends) else 0) == len(ids) and all(ids[end - 1] == 2 for end in ends)
    return [ids[end - size : end - 1].tolist() for end, size in zip(ends, sizes)]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_cut(data):
    inputs = data.draw(st.sampled_from((1, 2)))
    how = data.draw(st.sampled_from(("head", "head+tail")))
    n = data.draw(st.integers(3 * inputs, 40))
    text = st.integers(1, 50).map(lambda length: list(range(10, 10 + length)))
    rows = data.draw(st.lists(st.tuples(*[text] * inputs), max_size=6))
    ids, sizes = zip(*(arrays([row[i] for row in rows]) for i in range(inputs)))
    out_ids, out_sizes, count = cut(ids, sizes, n, how)
    expected = [slowly(row, n, how) for row in rows]
    assert [texts_of(*text) for text in zip(out_ids, out_sizes)] == [[row[i] for row in expected] for i in range(inputs)]
    assert count == sum(list(map(len, new)) != list(map(len, old)) for new, old in zip(expected, rows))
    for row in expected:  # <s> a </s> </s> b </s>, and nothing is wasted
        assert sum(map(len, row)) + 2 * inputs <= n and all(row)
    assert all(new.dtype == old.dtype for new, old in zip((*out_ids, *out_sizes), (*ids, *sizes)))


def test_sun_et_al():
    (ids,), (sizes,), count = cut([np.arange(10, 611)], [np.array([601], dtype=np.int32)], 512, "head+tail")
    assert count == 1 and sizes.tolist() == [511]
    assert ids.tolist() == [*range(10, 138), *range(610 - 382, 610), 610]


def test_what_is_fairseq_s_input(tmp_path):
    """A pair that just fits, and the one that is a token too long."""
    a, b = [10] * 5, [11] * 4
    for n, expected in ((13, (5, 4, 0)), (12, (4, 4, 1)), (11, (4, 3, 1))):
        ids, sizes, count = cut(*zip(arrays([a]), arrays([b])), n)
        assert (sizes[0][0] - 1, sizes[1][0] - 1, count) == expected


def test_an_n_in_which_nothing_fits():
    for n, inputs in ((2, 1), (5, 2), (-1, 1)):
        with pytest.raises(ValueError, match=f"max_positions is {n}; .* at least {3 * inputs}"):
            check(n, inputs)
    check(3, 1), check(6, 2)
    with pytest.raises(ValueError, match="cut is 'tail'.*head, head\\+tail"):
        check(3, 1, "tail")
