"""A user's own task, prepared from each format."""

import csv
import json

import pytest
from datasets import Dataset
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_linformer.cli import main

from . import task_files as files
from .command_errors import error_of

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


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "parquet"])
def test_each_format_gives_the_same_bytes(suffix, gpt2, bpe, tmp_path):
    outputs = []
    for out, rows in (("out", TRAIN), ("reversed", TRAIN[::-1])):
        train, valid = write(tmp_path / f"a.{suffix}", rows), write(tmp_path / f"b.{suffix}", VALID)
        main(["prepare", "own", *map(str, [tmp_path / out, *words(train, valid), "--tokenizer", gpt2])])
        outputs.append(files.bins(tmp_path / out))
    assert outputs[0]["label/dict.txt"] == outputs[1]["label/dict.txt"] == b"bad 1\ngood 1\nso so 1\n"
    for i in range(2):
        data = MMapIndexedDataset(str(tmp_path / f"out/input{i}/train"))
        assert [item.tolist() for item in data] == [bpe.encode([row[i]])[0].tolist() for row in TRAIN]
    labels = MMapIndexedDataset(str(tmp_path / "out/label/valid"))
    assert [item.tolist() for item in labels] == [[4, 2], [5, 2]]
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert (manifest["task"], manifest["classes"], manifest["num_inputs"]) == ("own", ["bad", "good", "so so"], 2)
    assert manifest["source"]["text_columns"] == ["first", "second"] and manifest["source"]["label_column"] == "mark"


@pytest.mark.parametrize(
    "train, valid, texts, message",
    [
        (TRAIN, [*VALID, ("a", "b", "new")], ["first"], "valid.csv:4: unknown label 'new'; the training file has"),
        (TRAIN[:1], VALID, ["first"], "train.csv must have at least two labels in mark, got good"),
        (TRAIN, VALID, ["text"], "train.csv has no column text; choose from first, second, mark"),
        (TRAIN, VALID, ["first", "second", "third"], "one or two text columns"),
        (TRAIN, [], ["first"], "valid.csv has no rows"),
        (
            [*TRAIN, ("", "", "bad")],
            VALID,
            ["first"],
            "train may be unusable, got 1 of 4; the first is train.csv:5: no",
        ),
    ],
)
def test_rejected_files(train, valid, texts, message, capsys, gpt2, tmp_path):
    paths = write(tmp_path / "train.csv", train), write(tmp_path / "valid.csv", valid)
    assert message in error_of(capsys, gpt2, tmp_path / "empty", *words(*paths, texts), task="own")
