"""Labels: scores, numbered classes in any order, and labels unknown to the model."""

import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_linformer.data.tasks import TASKS
from fairseq_linformer.evaluation.encoded_rows import build_target_lookup

from .. import fairseq_commands
from ..checkpoint_fixtures import finetune_classifier
from .labeled_rows import NAMES, ROWS


@pytest.mark.slow
def test_scores_and_pairs(evaluate, pieces, tmp_path):
    lines = [[int(token) for token in row] for row in MMapIndexedDataset(str(pieces / "train"))]
    data, num_entries = tmp_path / "data", len(Dictionary.load(str(pieces / "dict.txt")))
    for split in ("train", "valid"):
        for part, rows in (("input0", lines), ("input1", lines[::-1])):
            fairseq_commands.write_dataset(data / part, split, rows, num_entries)
            shutil.copy(pieces / "dict.txt", data / part)
        (data / "label").mkdir(exist_ok=True)
        (data / "label" / f"{split}.label").write_text("".join(f"{(i % 5) / 4}\n" for i in range(len(lines))))
    options = "--regression-target --separator-token 2 --shorten-method truncate --best-checkpoint-metric loss"
    model = (
        finetune_classifier(pieces, tmp_path / "save", *options.split(), classes=1, data=data) / "checkpoint_last.pt"
    )
    evaluate(model, data, "--json", tmp_path / "s.json")
    found = json.loads((tmp_path / "s.json").read_text())
    assert set(found["scores"]) == {"pearson", "spearman"} and found["rows"] == len(lines)
    labels = data / "label/valid.label"
    original = labels.read_text()
    for text, message in (
        (original + "1\n", f"valid in {data} must have equally many rows, got 40, 40, 41"),
        (original.replace("0.5", "half", 1), f"{data} valid:3: unknown label 'half'; the model predicts a score"),
        (original.replace("0.5", "nan", 1), f"{data} valid:3: unknown label 'nan'"),
    ):
        labels.write_text(text)
        assert message in evaluate(model, data)
    (tmp_path / "same.tsv").write_text("sentence1\tsentence2\tscore\na\tb\t1\nb\ta\t1\n")
    assert "got 1 in all 2 rows" in evaluate(model, tmp_path / "same.tsv", "--predictions", tmp_path / "p.tsv")
    assert len((tmp_path / "p.tsv").read_text().splitlines()) == 3  # predictions are kept
    assert "--labels x" in evaluate(model, data, "--labels", "x")


def test_number_of_texts_is_that_of_training(evaluate, finetuned, tmp_path):
    shutil.copytree(finetuned.parent, tmp_path / "model")
    (tmp_path / "model/manifest.json").write_text('{"num_inputs": 2}')
    (tmp_path / "one.txt").write_text("the cat\n")
    assert "one.txt:1 must have 2 texts" in evaluate(tmp_path / "model" / finetuned.name, tmp_path / "one.txt")


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
        labels, path = tmp_path / order, tmp_path / f"{order}.json"
        labels.write_text("".join(f"{label} 1\n" for label in order))
        evaluate(finetuned, "sst-2", "--source", folder, "--labels", labels, "--json", path)
        found = json.loads(path.read_text())
        num_correct[order] = np.trace(found["confusion"])
        assert found["classes"] == list(order) and np.sum(found["confusion"], 1).tolist() == [
            sum(NAMES.index(label) == int(name) for _, label in ROWS) for name in order
        ]
    assert num_correct["01"] + num_correct["10"] == len(ROWS) and num_correct["01"] != num_correct["10"]


def test_model_without_names_has_those_of_its_data(evaluate, finetuned, pieces, tmp_path):
    """In fairseq's order, that of the dictionary."""
    shutil.copytree(finetuned.parent, tmp_path / "beside")
    shutil.rmtree(tmp_path / "beside" / "label")
    model = tmp_path / "beside" / finetuned.name
    for name, checkpoint in (("without", model), ("with", finetuned)):
        evaluate(checkpoint, pieces, "--json", tmp_path / name)
    without, expected = (json.loads((tmp_path / name).read_text()) for name in ("without", "with"))
    assert without["classes"] == NAMES and without["confusion"] == expected["confusion"]
    assert f"{tmp_path / 'typo'} does not exist" in evaluate(model, pieces, "--labels", tmp_path / "typo")


def test_scores_are_not_classes():
    with pytest.raises(ValueError, match="labels of sst-2 are classes, but the model's head predicts a score"):
        build_target_lookup(SimpleNamespace(names=[], is_score=True), TASKS["sst-2"])


@pytest.mark.parametrize(
    "names, task, labels, expected",
    [
        (["0", "1"], None, ["0", "1.0", "0.00", "true", "False", "1e0"], [0, 1, 0, 1, 0, 1]),
        (["1", "0"], None, ["0.0", "TRUE"], [1, 0]),
        (["0.0", "1.0"], None, ["0", "1", "false", "True"], [0, 1, 0, 1]),
        (["LABEL_0", "LABEL_1"], None, ["0.0", "LABEL_1", "true"], [0, 1, 1]),
        (["False", "True"], None, ["1", "0.0", "true"], [1, 0, 1]),
        (["negative", "positive"], None, ["1.0", "negative", "False", "pos"], [1, 0, 0, 1]),
        (["POSITIVE", "NEGATIVE"], "sst-2", ["1.0", "true", "negative"], [0, 0, 1]),
        (["1", "0"], "sst-2", ["1.0", "negative", "false"], [0, 1, 1]),
        (["1", "1.0"], None, ["1.0", "1"], [1, 0]),  # a checkpoint of an earlier version
    ],
)
def test_equal_numbers_are_equal_labels(names, task, labels, expected):
    """pandas writes 0.0 and 1.0 for 0 and 1 in a column with a gap; False and True may come from a database."""
    target_of = build_target_lookup(SimpleNamespace(names=names, is_score=False), TASKS.get(task))
    assert [target_of("row", label) for label in labels] == expected


@pytest.mark.parametrize("label", ["2", "00", "1.5", "yes", "", "nan", "0x1"])
def test_other_labels_are_unknown(label):
    target_of = build_target_lookup(SimpleNamespace(names=["0", "1"], is_score=False))
    with pytest.raises(ValueError, match=f"row: unknown label '{label}'; the model's classes are 0, 1"):
        target_of("row", label)


@pytest.mark.parametrize("names", ["a 1\nb 1\n", "1 1\n2 1\n"])
def test_numbers_are_not_taken_for_indices_of_classes(names, evaluate, finetuned, tmp_path):
    (tmp_path / "labels.txt").write_text(names)
    (tmp_path / "rows.tsv").write_text("sentence\tlabel\ncat\t0\ndog\t1\n")
    shown = ", ".join(name.split()[0] for name in names.splitlines())
    message = evaluate(finetuned, tmp_path / "rows.tsv", "--labels", tmp_path / "labels.txt")
    assert f"rows.tsv:2: unknown label '0'; the model's classes are {shown}" in message


def test_data_with_another_dictionary_or_labels_is_rejected(evaluate, finetuned, pieces, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(pieces, other)
    lines = (other / "input0/dict.txt").read_text().splitlines()
    (other / "input0/dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    assert re.search("other/input0/dict.txt .*: entry 4", evaluate(finetuned, other))
    shutil.copy(pieces / "dict.txt", other / "input0")
    (other / "label/dict.txt").write_text("dog 1\nbird 1\n")
    assert re.search("unknown label 'bird'.*animal: cat, dog", evaluate(finetuned, other))
    labels = MMapIndexedDataset(str(other / "label/valid"))
    rows = [[int(token) for token in labels[i]] for i in range(len(labels))]
    rows[2] = [3]  # <unk>
    shutil.copy(pieces / "label/dict.txt", other / "label")
    fairseq_commands.write_dataset(other / "label", "valid", rows, 8)
    assert f"{other} valid:3: unknown label '<unk>'" in evaluate(finetuned, other)
