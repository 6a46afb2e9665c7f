"""Labels: scores, numbered classes in any order, and labels unknown to the model."""

import json
import shutil

import numpy as np
import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from .. import fairseq_commands
from ..checkpoint_fixtures import TEXT, finetune_classifier
from .labeled_rows import NAMES, ROWS


@pytest.mark.slow
def test_scores_and_pairs(evaluate, pieces, tmp_path):
    lines = [[int(token) for token in row] for row in MMapIndexedDataset(str(pieces / "train"))]
    data = tmp_path / "data"
    for split in ("train", "valid"):
        for part in ("input0", "input1"):
            fairseq_commands.write_dataset(
                data / part,
                split,
                lines if part == "input0" else lines[::-1],
                len(Dictionary.load(str(pieces / "dict.txt"))),
            )
            shutil.copy(pieces / "dict.txt", data / part)
        (data / "label").mkdir(exist_ok=True)
        (data / "label" / f"{split}.label").write_text("".join(f"{(i % 5) / 4}\n" for i in range(len(lines))))
    folder = finetune_classifier(
        pieces,
        tmp_path / "save",
        "--regression-target",
        "--separator-token",
        2,
        "--shorten-method",
        "truncate",
        "--best-checkpoint-metric",
        "loss",
        classes=1,
        data=data,
    )
    evaluate(folder / "checkpoint_last.pt", data, "--json", tmp_path / "s.json", "--device", "cpu")
    found = json.loads((tmp_path / "s.json").read_text())
    assert set(found["scores"]) == {"pearson", "spearman"} and found["rows"] == len(lines)
    labels = data / "label/valid.label"
    original = labels.read_text()
    for text, message in (
        (original + "1\n", f"{labels} must have {len(lines)} rows"),
        (original.replace("0.5", "half", 1), f"{labels}:3 must be a finite number, got 'half'"),
        (original.replace("0.5", "nan", 1), f"{labels}:3 must be a finite number, got 'nan'"),
    ):
        labels.write_text(text)
        assert message in evaluate(folder / "checkpoint_last.pt", data, "--device", "cpu")
    labels.write_text(original)
    pair = data / "input1"
    fairseq_commands.write_dataset(pair, "valid", lines[:-1], len(Dictionary.load(str(pieces / "dict.txt"))))
    assert f"{pair}/valid must have {len(lines)} rows" in evaluate(
        folder / "checkpoint_last.pt", data, "--device", "cpu"
    )
    (tmp_path / "pair.tsv").write_text(
        "sentence1\tsentence2\tscore\n" + "".join(f"{text}\t{TEXT[i - 1]}\t{i / 4}\n" for i, text in enumerate(TEXT))
    )
    evaluate(folder / "checkpoint_last.pt", tmp_path / "pair.tsv", "--json", tmp_path / "t.json", "--device", "cpu")
    assert json.loads((tmp_path / "t.json").read_text())["rows"] == len(TEXT)  # the label column is inferred
    for name, rows, message in (
        ("nan", ["a\tb\tnan"], "nan.tsv:2: unknown label 'nan'"),
        ("few", ["a\tb\t1", "b\ta\t0"], "got 2"),
    ):
        (tmp_path / f"{name}.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n")
        assert message in evaluate(
            folder / "checkpoint_last.pt",
            tmp_path / f"{name}.tsv",
            "--predictions",
            tmp_path / "p.tsv",
            "--device",
            "cpu",
        )
        assert (tmp_path / "p.tsv").exists() == (name == "few")  # predictions are kept
    assert "--labels x" in evaluate(folder / "checkpoint_last.pt", data, "--labels", "x")
    shutil.copy(folder / "checkpoint_last.pt", tmp_path / "model.pt")
    (tmp_path / "manifest.json").write_text('{"task": "sts-b"}')
    (tmp_path / "one.txt").write_text("the cat\n")
    shutil.copy(pieces / "dict.txt", tmp_path)
    shutil.copy(pieces / "sentencepiece.bpe.model", tmp_path)
    assert "one.txt must have 2 texts" in evaluate(tmp_path / "model.pt", tmp_path / "one.txt")


def test_numbered_labels_in_another_order(evaluate, finetuned, tmp_path):
    """fairseq's script for GLUE orders them by frequency: entry 0 may be the class 1."""
    folder = tmp_path / "SST-2"
    folder.mkdir()
    for name in ("train", "dev"):
        (folder / f"{name}.tsv").write_text(
            "".join(["sentence\tlabel\n", *(f"{text}\t{NAMES.index(label)}\n" for text, label in ROWS)])
        )
    num_correct = {}
    for order in ("01", "10"):
        (tmp_path / order).write_text("".join(f"{label} 1\n" for label in order))
        evaluate(
            finetuned, "sst-2", "--source", folder, "--labels", tmp_path / order, "--json", tmp_path / f"{order}.json"
        )
        found = json.loads((tmp_path / f"{order}.json").read_text())
        num_correct[order] = np.trace(found["confusion"])
        assert found["classes"] == list(order) and np.sum(found["confusion"], 1).tolist() == [
            sum(NAMES.index(label) == int(name) for _, label in ROWS) for name in order
        ]
    assert num_correct["01"] + num_correct["10"] == len(ROWS) and num_correct["01"] != num_correct["10"]


def test_order_of_numbered_labels_must_be_known(evaluate, finetuned, pieces, tmp_path):
    shutil.copytree(finetuned.parent, tmp_path / "beside")
    shutil.rmtree(tmp_path / "beside" / "label")
    data, model = tmp_path / "data", tmp_path / "beside" / finetuned.name
    shutil.copytree(pieces, data)
    (data / "label/dict.txt").write_text("1 1\n0 1\n")
    assert "order 1, 0" in evaluate(model, data)
    (data / "label/dict.txt").write_text("0 1\n1 1\n")
    assert "accuracy" in evaluate(model, data)
    assert f"{tmp_path / 'typo'} does not exist" in evaluate(model, data, "--labels", tmp_path / "typo")


def test_label_outside_the_dictionary_is_located(evaluate, finetuned, pieces, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(pieces, data)
    labels = MMapIndexedDataset(str(data / "label/valid"))
    rows = [[int(token) for token in labels[i]] for i in range(len(labels))]
    rows[2] = [3]  # <unk>
    fairseq_commands.write_dataset(data / "label", "valid", rows, 8)
    assert f"{data} valid:3 " in evaluate(finetuned, data)
