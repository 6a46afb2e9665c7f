"""Batches, and the order of what comes back."""

import pytest
import torch

from fairseq_linformer.evaluation import predict
from fairseq_linformer.evaluation.rows import Row


class Sums:
    """A model whose logit is the sum of its row; it remembers its batches."""

    def __init__(self):
        self.batches = []

    def logits(self, batch):
        self.batches.append([len(row["input_ids"]) for row in batch])
        return torch.tensor([[float(sum(row["input_ids"]))] for row in batch])


def rows(lengths):
    return [Row(f"here:{i}", {"input_ids": [i + 1] * length}) for i, length in enumerate(lengths)]


@pytest.mark.parametrize("window", [3, 100])
@pytest.mark.parametrize("max_tokens, batch_size", [(1, 1), (12, 3), (1000, 100)])
def test_rows_come_back_in_their_order(window, max_tokens, batch_size, monkeypatch):
    monkeypatch.setattr(predict, "WINDOW", window)
    lengths, model, work = [5, 1, 9, 2, 2, 7, 30, 1], Sums(), predict.Work()
    found = list(predict.predict(model, iter(rows(lengths)), work, max_tokens, batch_size))
    assert [row.place for row, _ in found] == [f"here:{i}" for i in range(8)]
    assert [float(logits) for _, logits in found] == [(i + 1) * length for i, length in enumerate(lengths)]
    assert (work.rows, work.tokens) == (8, sum(lengths)) and work.seconds > 0
    for batch in model.batches:
        assert len(batch) <= batch_size and (len(batch) == 1 or max(batch) * len(batch) <= max_tokens)


def test_a_row_that_is_not_finite_is_named():
    bad = [Row("here:1", {"input_ids": [1]}), Row("here:2", {"input_ids": [float("nan")]})]
    with pytest.raises(ValueError, match=r"here:2.*\[nan\]"):
        list(predict.predict(Sums(), bad, predict.Work()))
