"""Batches by length, the order of results, and documents longer than n in pieces."""

import pytest
import torch

from fairseq_linformer.cli import main
from fairseq_linformer.data.tables import Example
from fairseq_linformer.evaluation import encoded_rows, predict
from fairseq_linformer.evaluation.encoded_rows import EncodedExample
from fairseq_linformer.evaluation.example_files import read_file


class SumModel:
    """A model whose logit is the sum of the row; it records its batches."""

    def __init__(self, max_positions=100):
        self.batches, self.max_positions = [], max_positions

    def logits(self, batch):
        self.batches.append([row["input_ids"] for row in batch])
        return torch.tensor([[float(sum(row["input_ids"]))] for row in batch])


class Characters:
    """A tokenizer of single sentences between two special tokens; it records its batches."""

    is_score, names, max_positions = True, [], 6

    def __init__(self):
        self.batches = []

    def encode(self, texts, truncated):
        self.batches.append(len(texts))
        end = self.max_positions - 2 if truncated else None
        return [{"input_ids": [0, *map(ord, "".join(row)[:end]), 2]} for row in texts]


def rows(lengths):
    return [EncodedExample(f"data:{i}", {"input_ids": [i + 1] * length}) for i, length in enumerate(lengths)]


@pytest.mark.parametrize("window", [3, 100])
@pytest.mark.parametrize("max_tokens, batch_size", [(1, 1), (12, 3), (1000, 100)])
def test_results_are_in_the_order_of_the_rows(window, max_tokens, batch_size, monkeypatch):
    monkeypatch.setattr(predict, "SORTED_ROWS", window)
    monkeypatch.setattr(predict, "BATCH_SIZE", batch_size)
    lengths, model, throughput = [5, 1, 9, 2, 2, 7, 30, 1], SumModel(), predict.Throughput()
    results = list(predict.predict(model, iter(rows(lengths)), throughput, max_tokens))
    assert [row.location for row, _ in results] == [f"data:{i}" for i in range(8)]
    assert [float(logits) for _, logits in results] == [(i + 1) * length for i, length in enumerate(lengths)]
    assert (throughput.rows, throughput.tokens) == (8, sum(lengths)) and throughput.seconds > 0
    for batch in model.batches:
        assert len(batch) <= batch_size and (len(batch) == 1 or max(map(len, batch)) * len(batch) <= max_tokens)


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
    tokenizer = Characters()
    tokenizer.max_positions = 100
    examples = [
        Example(f"data:{i}", text) for i, text in enumerate([("ab", "c"), ("d",), ("efgh",), ("i" * 30,), ("j",)])
    ]
    found = list(encoded_rows.encode_examples(tokenizer, examples))
    assert [row.location for row in found] == [f"data:{i}" for i in range(5)] and tokenizer.batches == [3, 1, 1]


def test_dropped_tokens_are_counted():
    examples = [Example(f"data:{i}", (text,)) for i, text in enumerate(("ab", "abcd", "abcdefg"))]
    found = list(encoded_rows.encode_examples(Characters(), examples))
    assert [(len(row.encoded["input_ids"]), row.dropped) for row in found] == [(4, 0), (6, 0), (6, 3)]
    throughput = predict.Throughput()
    list(predict.predict(SumModel(6), found, throughput))
    assert (throughput.truncated_rows, throughput.dropped_tokens, throughput.tokens) == (1, 3, 16)


@pytest.mark.parametrize("length, starts", [(1, [0]), (4, [0]), (5, [0, 1]), (8, [0, 3, 4])])
def test_pieces_cover_the_document(length, starts):
    assert [*predict.piece_starts(length, width=4, stride=3)] == starts


def test_logits_of_documents_are_means_over_pieces_in_small_batches():
    examples = [Example(f"data:{i}", (text,)) for i, text in enumerate(("abcdefghi", "ab", "aaaaac"))]
    documents, model = list(encoded_rows.encode_examples(Characters(), examples, truncated=False)), SumModel(6)
    found = predict.predict(model, documents, predict.Throughput(), max_tokens=12, stride=2)
    for row, logits in found:
        text = "".join(map(chr, row.encoded["input_ids"][1:-1]))
        pieces = [text[start : start + 4] for start in predict.piece_starts(len(text), 4, 2)]
        assert float(logits) == sum(sum(map(ord, piece)) + 2 for piece in pieces) / len(pieces)
    assert sorted(map(len, model.batches)) == [1, 2, 2, 2]  # 4, 1 and 2 pieces of up to 6 tokens


def test_a_model_of_pairs_reads_no_single_sentences(tmp_path):
    (tmp_path / "dev.tsv").write_text("question\tsentence\tlabel\nwho?\tthe cat\t1\n")
    classifier = Characters()
    classifier.num_inputs, classifier.columns = 2, None
    with pytest.raises(ValueError, match="--stride needs one text per row"):
        list(read_file(classifier, str(tmp_path / "dev.tsv"), truncated=False)[1])


def test_command_with_stride(classifier, pieces, tmp_path, capsys):
    """Short rows are unaffected; a long one differs from its truncated beginning."""
    checkpoint, labels, rows = classifier / "checkpoint_last.pt", pieces / "label" / "dict.txt", tmp_path / "rows.txt"
    texts = ["the cat", "a dog ran to the mat " * 6]
    rows.write_text("".join(text + "\n" for text in texts))
    for name, more in (("truncated", []), ("strided", ["--stride", "7"])):
        options = ["--labels", str(labels), "--predictions", str(tmp_path / f"{name}.tsv"), *more]
        main(["evaluate", str(checkpoint), str(rows), *options])
        message = "1 of 2 rows truncated to 16 tokens (74 % of tokens dropped); --stride S reads all"
        assert (message in capsys.readouterr().err) == (name == "truncated")
    (_, short, long), (_, same, other) = (
        (tmp_path / f"{name}.tsv").read_text().splitlines() for name in ("truncated", "strided")
    )
    assert short == same and long != other
