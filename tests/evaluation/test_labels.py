"""Labels: scores, numbers in any order, and those that the model does not know."""

import json
import shutil

import numpy as np
import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from .. import stock
from ..trained import TEXT, finetune
from .rows import ROWS


@pytest.mark.slow
def test_scores_and_pairs(evaluate, pieces, tmp_path):
    lines = [[int(token) for token in row] for row in MMapIndexedDataset(str(pieces / "train"))]
    data = tmp_path / "data"
    for split in ("train", "valid"):
        for part in ("input0", "input1"):
            stock.write_dataset(data / part, split, lines if part == "input0" else lines[::-1], len(Dictionary.load(str(pieces / "dict.txt"))))
            shutil.copy(pieces / "dict.txt", data / part)
        (data / "label").mkdir(exist_ok=True)
        (data / "label" / f"{split}.label").write_text("".join(f"{(i % 5) / 4}\n" for i in range(len(lines))))
    folder = finetune(pieces, tmp_path / "save", "--regression-target", "--separator-token", 2, "--shorten-method", "truncate", "--best-checkpoint-metric", "loss", classes=1, data=data)
    evaluate(folder / "checkpoint_last.pt", data, "--json", tmp_path / "s.json", "--device", "cpu")
    found = json.loads((tmp_path / "s.json").read_text())
    assert set(found["scores"]) == {"pearson", "spearman"} and found["rows"] == len(lines)
    labels = data / "label/valid.label"
    whole = labels.read_text()
    for text, said in ((whole + "1\n", f"{labels} has {len(lines) + 1} rows"), (whole.replace("0.5", "half", 1), f"{labels}:3 is 'half'"),
                       (whole.replace("0.5", "nan", 1), f"{labels}:3 is 'nan'")):  # fmt: skip
        labels.write_text(text)
        assert said in evaluate(folder / "checkpoint_last.pt", data, "--device", "cpu")
    labels.write_text(whole)
    pair = data / "input1"
    stock.write_dataset(pair, "valid", lines[:-1], len(Dictionary.load(str(pieces / "dict.txt"))))
    assert f"{pair}/valid has {len(lines) - 1} rows" in evaluate(folder / "checkpoint_last.pt", data, "--device", "cpu")
    (tmp_path / "pair.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(f"{text}\t{TEXT[i - 1]}\t{i / 4}\n" for i, text in enumerate(TEXT)))
    evaluate(folder / "checkpoint_last.pt", tmp_path / "pair.tsv", "--json", tmp_path / "t.json", "--device", "cpu")
    assert json.loads((tmp_path / "t.json").read_text())["rows"] == len(TEXT)  # the column is found
    for name, rows, said in (("nan", ["a\tb\tnan"], "nan.tsv:2 has the label 'nan'"),
                             ("few", ["a\tb\t1", "b\ta\t0"], "2 rows")):  # fmt: skip
        (tmp_path / f"{name}.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n")
        assert said in evaluate(folder / "checkpoint_last.pt", tmp_path / f"{name}.tsv", "--predictions", tmp_path / "p.tsv", "--device", "cpu")
        assert (tmp_path / "p.tsv").exists() == (name == "few")  # what was predicted is kept
    assert "--labels is x" in evaluate(folder / "checkpoint_last.pt", data, "--labels", "x")
    shutil.copy(folder / "checkpoint_last.pt", tmp_path / "beside.pt")
    (tmp_path / "manifest.json").write_text('{"task": "sts-b"}')
    (tmp_path / "one.txt").write_text("the cat\n")
    shutil.copy(pieces / "dict.txt", tmp_path)
    shutil.copy(pieces / "sentencepiece.bpe.model", tmp_path)
    assert "one.txt has 1 texts" in evaluate(tmp_path / "beside.pt", tmp_path / "one.txt")


def test_labels_that_are_numbers_in_another_order(evaluate, finetuned, tmp_path):
    """fairseq's script for GLUE orders them by how frequent they are: entry 0 may be called 1."""
    folder = tmp_path / "SST-2"
    folder.mkdir()
    for name in ("train", "dev"):
        (folder / f"{name}.tsv").write_text("".join(["sentence\tlabel\n", *(f"{text}\t{label}\n" for text, label in ROWS)]))
    right = {}
    for order in ("01", "10"):
        (tmp_path / order).write_text("".join(f"{label} 1\n" for label in order))
        evaluate(finetuned, "sst-2", "--source", folder, "--labels", tmp_path / order, "--json", tmp_path / f"{order}.json")
        found = json.loads((tmp_path / f"{order}.json").read_text())
        right[order] = np.trace(found["confusion"])
        assert found["classes"] == list(order) and np.sum(found["confusion"], 1).tolist() == [sum(label == int(name) for _, label in ROWS) for name in order]
    assert right["01"] + right["10"] == len(ROWS) and right["01"] != right["10"]


def test_an_order_of_numbers_is_not_guessed(evaluate, finetuned, pieces, tmp_path):
    shutil.copytree(finetuned.parent, tmp_path / "beside")
    shutil.rmtree(tmp_path / "beside" / "label")
    data, model = tmp_path / "data", tmp_path / "beside" / finetuned.name
    shutil.copytree(pieces, data)
    (data / "label/dict.txt").write_text("1 1\n0 1\n")
    assert "order 1, 0" in evaluate(model, data)
    (data / "label/dict.txt").write_text("0 1\n1 1\n")
    assert "accuracy" in evaluate(model, data)
    assert f"no {tmp_path / 'typo'}" in evaluate(model, data, "--labels", tmp_path / "typo")


def test_a_label_that_is_no_class_is_named(evaluate, finetuned, pieces, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(pieces, data)
    labels = MMapIndexedDataset(str(data / "label/valid"))
    rows = [[int(token) for token in labels[i]] for i in range(len(labels))]
    rows[2] = [3]  # <unk>
    stock.write_dataset(data / "label", "valid", rows, 8)
    assert f"{data} valid:3 " in evaluate(finetuned, data)
