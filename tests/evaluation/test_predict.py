"""Batches by length, and the order of results."""

import pytest
import torch

from fairseq_linformer.data.tables import Row
from fairseq_linformer.evaluation import encoded_rows, predict
from fairseq_linformer.evaluation.encoded_rows import EncodedRow


class SumModel:
    """A model whose logit is the sum of the row; it records its batches."""

    def __init__(self):
        self.batches = []

    def logits(self, batch):
        self.batches.append([len(row["input_ids"]) for row in batch])
        return torch.tensor([[float(sum(row["input_ids"]))] for row in batch])


def rows(lengths):
    return [EncodedRow(f"data:{i}", {"input_ids": [i + 1] * length}) for i, length in enumerate(lengths)]


@pytest.mark.parametrize("window", [3, 100])
@pytest.mark.parametrize("max_tokens, batch_size", [(1, 1), (12, 3), (1000, 100)])
def test_results_are_in_the_order_of_the_rows(window, max_tokens, batch_size, monkeypatch):
    monkeypatch.setattr(predict, "SORTED_ROWS", window)
    lengths, model, throughput = [5, 1, 9, 2, 2, 7, 30, 1], SumModel(), predict.Throughput()
    results = list(predict.predict(model, iter(rows(lengths)), throughput, max_tokens, batch_size))
    assert [row.location for row, _ in results] == [f"data:{i}" for i in range(8)]
    assert [float(logits) for _, logits in results] == [(i + 1) * length for i, length in enumerate(lengths)]
    assert (throughput.rows, throughput.tokens) == (8, sum(lengths)) and throughput.seconds > 0
    for batch in model.batches:
        assert len(batch) <= batch_size and (len(batch) == 1 or max(batch) * len(batch) <= max_tokens)


def test_long_rows_are_few_in_memory(monkeypatch):
    """Rows are read while those before them are still few tokens, whatever the number of rows."""
    monkeypatch.setattr(predict, "SORTED_TOKENS", 10)
    read, yielded = 0, 0

    def count(rows):
        nonlocal read
        for row in rows:
            read += 1
            assert read - yielded <= 3  # 12 tokens
            yield row

    for _ in predict.predict(SumModel(), count(rows([4] * 20)), predict.Throughput()):
        yielded += 1
    assert read == yielded == 20


def test_long_texts_are_tokenized_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(encoded_rows, "_CHUNK_CHARACTERS", 8)
    chunks = []

    class Characters:
        def encode(self, texts):
            chunks.append(len(texts))
            return [{"input_ids": list(map(ord, "".join(row)))} for row in texts]

    examples = [Row(f"data:{i}", text) for i, text in enumerate([("ab", "c"), ("d",), ("efgh",), ("i" * 30,), ("j",)])]
    found = list(encoded_rows.encode_rows(Characters(), examples, float))
    assert [row.location for row in found] == [f"data:{i}" for i in range(5)] and chunks == [3, 1, 1]


def test_nan_logits_are_located():
    bad = [EncodedRow("data:1", {"input_ids": [1]}), EncodedRow("data:2", {"input_ids": [float("nan")]})]
    with pytest.raises(ValueError, match=r"data:2.*\[nan\]"):
        list(predict.predict(SumModel(), bad, predict.Throughput()))
