"""Documents longer than n are scored in spans of n tokens."""

import pytest
import torch

from fairseq_linformer.cli import main
from fairseq_linformer.evaluation.classifier import FairseqClassifier
from fairseq_linformer.evaluation.strided import StridedClassifier


class MeanModel:
    """A model of 6 positions whose logit is the mean of the tokens; it records its batches."""

    max_positions, names = 6, ["a"]

    def __init__(self):
        self.batches = []

    def encode(self, texts, truncated=True):
        assert not truncated
        return [{"input_ids": [0, *map(int, text.split()), 2]} for (text,) in texts]

    def logits(self, batch):
        self.batches.append([row["input_ids"] for row in batch])
        return torch.tensor([[sum(row["input_ids"]) / len(row["input_ids"])] for row in batch])


@pytest.mark.parametrize(
    "tokens, spans",
    [
        (range(5, 6), [[5]]),
        (range(5, 9), [[5, 6, 7, 8]]),
        (range(5, 10), [[5, 6, 7, 8], [6, 7, 8, 9]]),
        (range(5, 13), [[5, 6, 7, 8], [8, 9, 10, 11], [9, 10, 11, 12]]),
    ],
)
def test_spans_cover_the_document(tokens, spans):
    strided = StridedClassifier(MeanModel(), 3, 12)
    row = {"input_ids": [0, *tokens, 2], "attention_mask": [1] * (len(tokens) + 2)}
    split = strided.split(row)
    assert [span["input_ids"] for span in split] == [[0, *span, 2] for span in spans]
    assert [span["attention_mask"] for span in split] == [[1] * (len(span) + 2) for span in spans]


def test_logits_are_means_in_batches_of_bounded_size():
    model = MeanModel()
    strided = StridedClassifier(model, 2, 12)
    texts = [("5 6 7 8 9 10 11 12 13",), ("5 6",), ("7 7 7 7 7 9",)]
    batch = strided.encode(texts)
    expected = [[sum(MeanModel().logits(strided.split(row)).flatten()) / len(strided.split(row))] for row in batch]
    torch.testing.assert_close(strided.logits(batch), torch.tensor(expected))
    assert all(len(part) <= 2 for part in model.batches) and strided.names == ["a"]


@pytest.mark.parametrize("stride", [0, 5])
def test_bad_stride(stride):
    with pytest.raises(ValueError, match=rf"--stride must be between 1 and n - 2 \(4\), got {stride}"):
        StridedClassifier(MeanModel(), stride, 12)


def test_pairs_are_rejected():
    with pytest.raises(ValueError, match="--stride needs one text per row, got 2"):
        StridedClassifier(MeanModel(), 2, 12).encode([("5", "6")])


def test_command(classifier, pieces, tmp_path, capsys):
    """Short rows are unaffected; a long one differs from its truncated beginning, and is the mean of its spans."""
    checkpoint, rows = classifier / "checkpoint_last.pt", tmp_path / "rows.txt"
    texts = ["the cat", "a dog ran to the mat " * 6]
    rows.write_text("".join(text + "\n" for text in texts))
    options = ["evaluate", str(checkpoint), str(rows), "--labels", str(pieces / "label" / "dict.txt")]
    for name, more in (("truncated", []), ("strided", ["--stride", "7"])):
        main([*options, "--predictions", str(tmp_path / f"{name}.tsv"), *more])
    (_, short, long), (_, same, other) = (
        (tmp_path / f"{name}.tsv").read_text().splitlines() for name in ("truncated", "strided")
    )
    assert short == same and long != other
    model = FairseqClassifier(checkpoint, labels=pieces / "label" / "dict.txt")
    model.use_tokenizer()
    strided = StridedClassifier(model, 7, 64)
    (row,) = strided.encode([(texts[1].strip(),)])
    spans = [model.logits([span])[0] for span in strided.split(row)]
    assert len(spans) > 2
    torch.testing.assert_close(strided.logits([row])[0], sum(spans) / len(spans))
    for more, named in (
        (["--truncation", "head"], "--truncation cannot be used"),
        (["--stride", "99"], "--stride must be"),
    ):
        with pytest.raises(SystemExit, match=named):
            main([*options, "--stride", "7", *more])
    with pytest.raises(SystemExit, match="--stride needs text"):
        main([*options[:2], str(pieces), "--stride", "7"])
