"""Paired differences, rules, and what each reader reads."""

import numpy as np
import pytest
import torch

from fairseq_linformer.modules.linear import LinearProjection
from fairseq_linformer.reproduction import retrieval
from fairseq_linformer.reproduction.beyond import distillation, long_documents
from fairseq_linformer.reproduction.document_models import cut, cut_ids, truncate_ids
from fairseq_linformer.reproduction.paired import answer_row, answers_of, difference, unpack
from fairseq_linformer.reproduction.paper import table_2
from fairseq_linformer.reproduction.result import Rows
from fairseq_linformer.reproduction.run import CONTROL_K, Model
from fairseq_linformer.reproduction.verdict import FAILS, HOLDS, UNDECIDED, Estimate

READERS = long_documents.readers(64, {"piece": 12, "k": 16, "window": 4, "keep_layers": 1})
DOCUMENT = [0, *range(100, 130), 2]


def test_answers_round_trip():
    answers = [True, False, False, True, True, False, True, False, True]
    row = answer_row(answers, "accuracy", reader="a", seed=1)
    assert row.value == pytest.approx(100 * 5 / 9) and unpack(row).tolist() == answers
    rows = Rows(
        [answer_row([False], "accuracy", reader="a", seed=2), answer_row([True], "accuracy", reader="a", seed=1)]
    )
    assert answers_of(rows, "accuracy", reader="a").tolist() == [[True], [False]]


def test_the_interval_of_a_difference():
    """Of the mean of 1,000 differences with standard deviation s, about 1.96 s / sqrt(1,000) on either side."""
    draw = np.random.default_rng(1)
    a, b = (draw.random((1, 1000)) < p for p in (0.9, 0.8))
    change = a.astype(float) - b
    found, half = difference([(a, b)], "x"), 100 * 1.96 * change.std() / 1000**0.5
    assert found.value == pytest.approx(100 * change.mean())
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half), abs=0.2)
    assert difference([(a, a)], "x").high == 0
    mean = difference([(a, b), (b[:, :500], b[:, :500])], "x")  # of two tasks, one of which adds nothing
    assert (mean.value, mean.high - mean.low) == pytest.approx((found.value / 2, half), rel=0.1)


def test_the_interval_includes_the_seeds():
    """Models whose seeds differ by 10 points, on questions that do not."""
    a, b = np.zeros((3, 100), dtype=bool), np.zeros((3, 100), dtype=bool)
    a[0, :10] = a[1, :20] = a[2, :30] = True
    found = difference([(a, b)], "x")
    assert found.value == pytest.approx(20) and found.low < 14 and found.high > 26


def test_the_control_is_the_first_token_and_one_average():
    """Here, in Table 2 and in the distillation; k = 1 averages the first token with the others."""
    of_table_2 = table_2.ENCODER_SIZES["encoder"]["models"][-1]
    assert READERS["k = 2, W"].model.k == of_table_2.k == CONTROL_K == 2
    assert Model.graded(128, 2, local_window=4) in distillation.SIZES["encoder"]["distilled"]
    E, single = (LinearProjection(64, k, singletons=16)() for k in (2, 1))
    assert E[0].tolist() == [1.0] + 63 * [0.0] and E[1, 0] == 0 and (E[1, 1:] > 0).all() and (single > 0).all()


def test_what_is_read():
    assert truncate_ids(DOCUMENT, READERS["first piece"]) == [0, *range(100, 110), 2]
    assert truncate_ids(DOCUMENT, READERS["both ends"]) == [0, 100, 101, *range(122, 130), 2]  # 10 * 128 // 510 = 2
    assert truncate_ids(DOCUMENT, READERS["Linformer"]) == DOCUMENT
    pieces = cut_ids(DOCUMENT, READERS["pieces"])
    assert pieces == [[0, *range(i, i + 10), 2] for i in (100, 110, 120)]
    assert [len(piece) for piece in cut_ids(DOCUMENT, READERS["half pieces"])] == 6 * [6] + 2 * [5]
    tokens = torch.arange(48).reshape(2, 24)
    assert (
        cut(tokens, READERS["pieces"]).tolist()[1] == list(range(12, 24))
        and cut(tokens, READERS["pieces"]).size(0) == 4
    )
    assert cut(tokens, READERS["first piece"]).tolist() == [list(range(12)), list(range(24, 36))]


class Bag:
    """Features that are the one-hot vectors of tokens, or of the tokens ``shift`` after them."""

    def __init__(self, shift=0):
        self.shift = shift

    def __call__(self, tokens, features_only):
        return torch.nn.functional.one_hot((tokens + self.shift) % 200, 200).float(), None


def test_a_query_finds_its_article_by_the_pieces_that_have_its_words():
    """The second query has most tokens of its article behind the first piece, and one in that of another article."""
    articles = [[0, *[110] * 10, *[111] * 10, 2], [0, *[120] * 10, *[121] * 10, 2], [0, *[130] * 10, *[131] * 10, 2]]
    queries = [[0, 110, 2], [0, 121, 121, 110, 2], [0, 130, 2]]
    candidates = [retrieval.Candidate("", "", "", query, ids) for query, ids in zip(queries, articles)]
    for name, expected in (("first piece", [0, 1, 0]), ("pieces", [0, 0, 0]), ("nearest piece", [0, 0, 0])):
        assert retrieval.find_by_reader(Bag(), Bag(), READERS[name], candidates).tolist() == expected, name
    other = retrieval.find_by_reader(Bag(10), Bag(), READERS["pieces"], candidates)
    assert other.tolist() == [1, 1, 0]  # the first model reads the queries
    vectors = retrieval.embed(Bag(), [[5, 5, 6], [7]])
    assert vectors[0, [5, 6]].tolist() == pytest.approx([2 / 5**0.5, 1 / 5**0.5]) and vectors[1, 7] == 1


class Words:
    """A tokenizer with a token per word."""

    def encode(self, lines):
        ids = [[10 + len(word) for word in line.split()] + [2] for line in lines]
        return np.concatenate([np.array(each) for each in ids]), np.array([len(each) for each in ids])


def test_candidates(tmp_path):
    """Queries are removed from their articles, from each place in turn; short articles are left out."""
    paragraphs = [" ".join([chr(ord("a") + i) * (i + 1)] * 4) for i in range(10)]
    (tmp_path / "text.txt").write_text("\n".join(paragraphs) + "\n\nshort\n\n" + 3 * ("\n".join(paragraphs) + "\n\n"))
    found = retrieval.choose_candidates([str(tmp_path / "text.txt")], Words(), 3, 30, 8, (4, 4))
    assert [each.place for each in found] == list(retrieval.PLACES)
    for each, (first, last) in zip(found, ((0, 8), (8, 16), (16, 30))):
        assert first <= 4 * paragraphs.index(each.query) < last and each.query not in each.text
        assert len(each.ids) == 30 and each.query_ids[1] not in each.ids
    with pytest.raises(ValueError, match="must have 9 articles of 30 tokens with a query, got 4"):
        retrieval.choose_candidates([str(tmp_path / "text.txt")], Words(), 9, 30, 8, (4, 4))


@pytest.mark.parametrize(
    "change, speed, outcome",
    [
        ((0.1, 2.0), (1.0, 1.2), HOLDS),  # better, and as fast
        ((-1.0, 0.5), (1.01, 1.2), HOLDS),  # faster, and at most a point below
        ((-1.01, 0.5), (1.01, 1.2), UNDECIDED),
        ((-1.0, 0.5), (1.0, 1.2), UNDECIDED),
        ((0.1, 2.0), (0.8, 0.99), FAILS),  # slower
        ((-3.0, -1.01), (1.5, 2.0), FAILS),  # worse
    ],
)
def test_worth(change, speed, outcome):
    estimates = [Estimate(low, low, high, "x") for low, high in (change, speed)]
    assert long_documents.worth(*estimates).outcome == outcome
