"""Labels: scores, numbered classes in any order, and labels unknown to the model."""

import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from fairseq_linformer.data.tasks import TASKS
from fairseq_linformer.evaluation.encoded_rows import build_target_lookup

from .. import fairseq_commands
from .labeled_rows import NAMES, ROWS


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
    with pytest.raises(ValueError, match="unknown label 'nan'"):
        build_target_lookup(SimpleNamespace(names=[], is_score=True))("row", "nan")


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
        (["a", "a", "b"], None, ["a", "b"], [0, 2]),  # classes of the same name
    ],
)
def test_equal_numbers_are_equal_labels(names, task, labels, expected):
    """pandas writes 0.0 and 1.0 for 0 and 1 in a column with a gap; False and True may come from a database."""
    target_of = build_target_lookup(SimpleNamespace(names=names, is_score=False), TASKS.get(task))
    assert [target_of("row", label) for label in labels] == expected


@pytest.mark.parametrize(
    "names, label", [*(("01", each) for each in ("2", "00", "1.5", "yes", "", "nan", "0x1")), ("ab", "0"), ("12", "0")]
)
def test_other_labels_are_unknown(names, label):
    """Also numbers, which are no indices of classes."""
    target_of = build_target_lookup(SimpleNamespace(names=[*names], is_score=False))
    with pytest.raises(ValueError, match=f"row: unknown label '{label}'; the model's classes are {', '.join(names)}"):
        target_of("row", label)


def test_data_with_another_dictionary_or_labels_is_rejected(evaluate, finetuned, pieces, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(pieces, other)
    lines = (other / "input0/dict.txt").read_text().splitlines()
    (other / "input0/dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    assert re.search("other/input0/dict.txt .*: entry 4", evaluate(finetuned, other))
    shutil.copy(pieces / "dict.txt", other / "input0")
    (other / "label/dict.txt").write_text("dog 1\nbird 1\n")
    assert re.search("unknown label 'bird'.*animal: cat, dog", evaluate(finetuned, other))
    shutil.copy(pieces / "label/dict.txt", other / "label")
    fairseq_commands.write_dataset(other / "label", "valid", [[4]] * 3, 8)
    assert re.search(f"valid in {other} must have equally many rows, got .*, 3", evaluate(finetuned, other))
