"""A user's own task, prepared from each format."""

import csv
import json
from contextlib import suppress

import pytest
from datasets import Dataset, Features, Value
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_linformer.cli import main
from fairseq_linformer.data.own_files import open_own
from fairseq_linformer.data.task_sources import read_task_rows
from fairseq_linformer.evaluation.encoded_rows import read_prepared_task

TRAIN = [("low hello", "a tale", "good"), ("world", 'say "hello"', "bad"), ("lower", "low", "so so")]
VALID = [("hello", "a, b", "bad"), ("low", "hello", "good")]
COLUMNS = ("first", "second", "mark")


def write(path, rows):
    """The rows in the format of the suffix."""
    records = [dict(zip(COLUMNS, row)) for row in rows]
    if path.suffix == ".parquet":
        Dataset.from_list(records).to_parquet(path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    elif path.suffix == ".tsv":
        path.write_text("".join("\t".join(row) + "\n" for row in (COLUMNS, *rows)))
    else:
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])
    return path


def words(train, valid, texts=("first", "second"), label="mark"):
    columns = [word for text in texts for word in ("--text-column", text)]
    return ["--train", train, "--valid", valid, *columns, "--label-column", label]


def test_prepared_pairs(gpt2, bpe, tmp_path):
    train, valid = write(tmp_path / "a.csv", TRAIN), write(tmp_path / "b.parquet", VALID)
    main(["prepare", "own", *map(str, [tmp_path / "out", *words(train, valid), "--tokenizer", gpt2])])
    assert (tmp_path / "out/label/dict.txt").read_text() == "bad 1\ngood 1\nso so 1\n"
    for i in range(2):
        data = MMapIndexedDataset(str(tmp_path / f"out/input{i}/train"))
        assert [item.tolist() for item in data] == [bpe.encode([row[i]])[0].tolist() for row in TRAIN]
    labels = MMapIndexedDataset(str(tmp_path / "out/label/valid"))
    assert [item.tolist() for item in labels] == [[4, 2], [5, 2]]
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert (manifest["task"], manifest["classes"], manifest["num_inputs"]) == ("own", ["bad", "good", "so so"], 2)
    assert manifest["source"]["text_columns"] == ["first", "second"] and manifest["source"]["label_column"] == "mark"


def test_unknown_labels_are_rejected(error_of, tmp_path):
    paths = write(tmp_path / "train.csv", TRAIN), write(tmp_path / "valid.csv", [*VALID, ("a", "b", "new")])
    message = error_of(*words(*paths), task="own")
    assert "valid.csv:4: unknown label 'new'; the training file has" in message


def test_columns_are_recognized_and_rows_held_out_by_the_hash_of_their_text(tmp_path, capsys):
    """Equal texts are in the same split, whatever their order, and about a tenth of all is held out."""
    rows = [(f"text {i % 500}", "x" if i % 2 else "y") for i in range(1000)]
    found = []
    for name, order in (("a", rows), ("b", rows[::-1])):
        path = tmp_path / f"{name}.tsv"
        path.write_text("text\tlabel\n" + "".join("\t".join(row) + "\n" for row in order))
        task, source = open_own(path)
        path.unlink()  # it is read once
        assert task.class_names == ["x", "y"] and source.description["text_columns"] == ["text"]
        found.append([{row.texts for row in source.read_rows(split)} for split in ("train", "valid")])
        assert sum(len(read_task_rows(task, source, split)) for split in ("train", "valid")) == len(rows)
    assert found[0] == found[1] and not found[0][0] & found[0][1]
    assert len(found[0][1]) == pytest.approx(50, abs=20)  # 3 standard deviations of 6.7
    assert f"{tmp_path}/a.tsv: text in text, labels in label" in capsys.readouterr().err


def test_a_folder_with_train_and_valid(tmp_path):
    for name, rows in (("train", TRAIN), ("dev", VALID)):
        write(tmp_path / f"{name}.jsonl", rows)
    task, source = open_own(tmp_path, text_column=["first"], label_column="mark")
    assert len(list(source.read_rows("train"))) == len(TRAIN) and len(list(source.read_rows("valid"))) == len(VALID)
    write(tmp_path / "train.csv", TRAIN)
    with pytest.raises(ValueError, match="must have one file of train, got train.csv, train.jsonl"):
        open_own(tmp_path, text_column=["first"], label_column="mark")


def test_labels_of_held_out_rows_are_classes(tmp_path):
    """A label may occur in the held-out rows only."""
    for i in range(100):
        path = write(tmp_path / "rows.tsv", [*TRAIN, (f"rare {i}", "x", "rare")])
        with suppress(ValueError):  # no row is held out
            task, source = open_own(path, text_column=["first"], label_column="mark")
            if any(row.label == "rare" for row in source.read_rows("valid")):
                break
    assert task.class_names == ["bad", "good", "rare", "so so"]
    assert "rare" in [row.label for row in read_task_rows(task, source, "valid")]


def write_labels(path, labels):
    path.write_text("a,b,rating\n" + "".join(f"first {i},second {i},{label}\n" for i, label in enumerate(labels)))
    return path


def open_labels(path, labels, **options):
    task, source = open_own(write_labels(path, labels), path, ["a", "b"], "rating", **options)
    return task, [task.target(row.label) for row in read_task_rows(task, source, "train")]


@pytest.mark.parametrize(
    "labels, options, expected",
    [
        ([1 + i / 100 for i in range(300)], {}, [i / 299 for i in range(300)]),
        ([0, 5, 2, 1], {"regression": True}, [0, 1, 0.4, 0.2]),
        (["-1", "1e1", "4.5"], {}, [0, 1, 0.5]),
    ],
)
def test_scores_are_scaled_to_0_to_1(labels, options, expected, tmp_path, capsys):
    task, targets = open_labels(tmp_path / "a.csv", labels, **options)
    assert targets == pytest.approx(expected) and not task.classes and task.metrics == ("pearson", "spearman")
    assert f"scores from {float(min(map(float, labels))):g} to" in capsys.readouterr().err


@pytest.mark.parametrize(
    "labels, options, classes, targets",
    [
        ([0, 5, 2, 5], {}, ["0", "2", "5"], [0, 2, 1, 2]),
        (["1.5", "0.5", "1.5"], {"regression": False}, ["0.5", "1.5"], [1, 0, 1]),
        (["1.0", "0.0", "1"], {}, ["0.0", "1"], [1, 0, 1]),  # what pandas makes of a gap, and an integer
        (["true", "1", "False"], {}, ["1", "False"], [0, 0, 1]),
        (["007", "7", "7.0"], {}, ["007", "7"], [0, 1, 1]),  # a code is no number
        (["1.5", "x", "1.5"], {}, ["1.5", "x"], [0, 1, 0]),
    ],
)
def test_equal_numbers_are_one_class(labels, options, classes, targets, tmp_path, capsys):
    task, found = open_labels(tmp_path / "a.csv", labels, **options)
    assert task.class_names == classes and found == targets
    numbers = all(label.replace(".", "").isdigit() for label in map(str, labels))
    assert ("--regression for scores" in capsys.readouterr().err) == (numbers and len(classes) > 2)


@pytest.mark.parametrize(
    "labels, options, message",
    [
        (range(21), {}, "rating of .*a.csv has 21 different numbers: classes or a score. pass --no-regression or"),
        ([*(i / 7 for i in range(30)), "n/a"], {}, "has 30 different numbers, and 'n/a': classes or a score"),
        ([1, 2, "x"], {"regression": True}, "rating of .*a.csv must be numbers for --regression, got 'x'"),
        ([1, 1], {"regression": True}, "a.csv must have at least two different scores, got 1"),
    ],
)
def test_uncertain_scores_are_rejected(labels, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        open_labels(tmp_path / "a.csv", labels, **options)


def test_prepared_scores(gpt2, tmp_path):
    """``evaluate`` and ``finetune`` read the range in the manifest; validation may have scores outside it."""
    paths = [write_labels(tmp_path / f"{name}.csv", labels) for name, labels in (("t", [1, 3, 2.5]), ("v", [5, 0]))]
    main(["prepare", "own", *map(str, [tmp_path / "out", *words(*paths, "ab", "rating"), "--tokenizer", gpt2])])
    assert (tmp_path / "out/label/train.label").read_text() == "0\n1\n0.75\n"
    assert (tmp_path / "out/label/valid.label").read_text() == "2\n-0.5\n"
    task = read_prepared_task(tmp_path / "out")
    assert task.score_range == (1, 3) and task.num_inputs == 2 and task.target("2") == 0.5
    bad = write_labels(tmp_path / "bad.csv", [1, "x"])
    task, source = open_own(paths[0], bad, ["a"], "rating")
    with pytest.raises(ValueError, match="bad.csv:3: unknown label 'x'; the training file has numbers"):
        read_task_rows(task, source, "valid")


def test_columns_without_rows(tmp_path):
    empty = Dataset.from_dict({"text": [], "label": []}, features=Features(text=Value("string"), label=Value("string")))
    empty.to_parquet(tmp_path / "e.parquet")
    with pytest.raises(ValueError, match="e.parquet has no rows"):
        open_own(tmp_path / "e.parquet", write(tmp_path / "b.csv", VALID))
