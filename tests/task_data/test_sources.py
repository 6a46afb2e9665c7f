"""Every source of a task gives the same files, and those are what the stock route makes."""

import hashlib
import json
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_linformer.cli import main
from fairseq_linformer.corpus import spm
from fairseq_linformer.corpus.tokenizer import SentencePiece
from fairseq_linformer.task_data import table
from fairseq_linformer.task_data.prepare import prepare
from fairseq_linformer.task_data.read import open_source
from fairseq_linformer.task_data.table import TASKS

from ..stock_text import gpt2_encode, preprocess
from . import files


@pytest.mark.parametrize("name", TASKS)
def test_tsv_zip_and_hub_are_the_same(name, gpt2, tmp_path):
    sources = [
        files.write_tsv(name, tmp_path / "tsv"),
        files.write_tsv(name, tmp_path / "all" / files.FORMATS[name][0]).parent,
        files.write_zip(name, tmp_path / "task.zip"),
        files.write_zip(name, tmp_path / "all.zip", f"glue_data/{files.FORMATS[name][0]}"),
        files.write_parquet(name, tmp_path / "hub"),
        files.write_parquet(name, tmp_path / "shards", shards=2),
    ]
    made = []
    for i, source in enumerate(sources):
        manifest = prepare(TASKS[name], tmp_path / f"out{i}", source, gpt2)
        assert [manifest["splits"][split]["written"] for split in files.splits(name)] == [5, 3, 3][: len(files.splits(name))]
        assert not any(split["skipped"] for split in manifest["splits"].values())
        made.append(files.bins(tmp_path / f"out{i}"))
    assert all(other == made[0] for other in made)
    pair = len(files.FORMATS[name][6].split()) == 3
    assert ("input1/train.bin" in made[0]) == pair
    for split in files.splits(name):
        rows = files.ROWS[split]
        for i in range(1 + pair):
            data = MMapIndexedDataset(str(tmp_path / "out0" / f"input{i}" / split))
            expected = [gpt2.encode([row[i].strip()])[0].tolist() for row in rows]
            assert [item.tolist() for item in data] == expected
        if name == "sts-b":
            assert made[0][f"label/{split}.label"].decode() == "".join(["0.2\n", "0.76\n"][c] for _, _, c in rows)
        else:
            data = MMapIndexedDataset(str(tmp_path / "out0" / "label" / split))
            assert [item.tolist() for item in data] == [[4 + c, 2] for _, _, c in rows]


def test_reviews_in_all_forms_are_the_same(gpt2, tmp_path):
    folder = files.write_reviews(tmp_path)
    sources = [folder, tmp_path, files.write_tar(tmp_path / "aclImdb_v1.tar.gz")]
    made = []
    for i, source in enumerate(sources):
        manifest = prepare(TASKS["imdb"], tmp_path / f"out{i}", source, gpt2)
        made.append(files.bins(tmp_path / f"out{i}"))
        assert manifest["labels"] == {"neg": {"class": "negative", "number": 0}, "pos": {"class": "positive", "number": 1}}
        assert manifest["splits"]["train"]["classes"] == {"negative": 2, "positive": 3}
    assert made[0] == made[1] == made[2]
    data = MMapIndexedDataset(str(tmp_path / "out0" / "input0" / "train"))
    by_class = [a for c in (0, 1) for a, _, label in files.ROWS["train"] if label == c]
    assert [item.tolist() for item in data] == [gpt2.encode([text.strip()])[0].tolist() for text in by_class]


def test_files_come_in_the_order_of_their_numbers(gpt2, tmp_path):
    folder = files.write_reviews(tmp_path)
    for number in (2, 10, 100):
        (folder / "train" / "neg" / f"{number}_1.txt").write_text(f"low {number}")
    for i, name in enumerate(sorted(path.name for path in (folder / "train" / "pos").iterdir())):
        (folder / "train" / "pos" / name).unlink()
        (folder / "train" / "pos" / f"{i}_9.txt").write_text("hello")
    prepare(TASKS["imdb"], tmp_path / "out", folder, gpt2)
    data = [item.tolist() for item in MMapIndexedDataset(str(tmp_path / "out" / "input0" / "train"))]
    places = [data.index(gpt2.encode([f"low {number}"])[0].tolist()) for number in (2, 10, 100)]
    assert places == [1, 3, 4]  # beside 0_4.txt and 7_4.txt


@pytest.mark.slow
def test_a_pair_is_the_stock_route(gpt2_files, gpt2, tmp_path):
    """tail, cut, multiprocessing_bpe_encoder, fairseq-preprocess, as fairseq's preprocess_GLUE_tasks.sh calls them."""
    source = files.write_tsv("qnli", tmp_path / "QNLI")
    prepare(TASKS["qnli"], tmp_path / "ours", source, gpt2)
    made = files.bins(tmp_path / "ours")
    for file, split in (("train.tsv", "train"), ("dev.tsv", "valid")):
        raw = {name: tmp_path / f"{split}.raw.{name}" for name in ("input0", "input1", "label")}
        for column, text in zip((2, 3, 4), raw.values()):
            subprocess.run(f"tail -n +2 {source / file} | cut -f{column} >{text}", shell=True, check=True)
        encoded = {name: tmp_path / f"{split}.{name}" for name in ("input0", "input1")}
        gpt2_encode(gpt2_files, [raw[name] for name in encoded], encoded.values())
        for name, text in {**encoded, "label": raw["label"]}.items():
            # Left to itself fairseq-preprocess numbers classes by frequency.
            dictionary = tmp_path / "ours" / "label" / "dict.txt" if name == "label" else gpt2_files / "dict.txt"
            out = tmp_path / "stock" / split / name
            assert [made[f"{name}/{split}.{end}"] for end in ("bin", "idx")] == preprocess(text, dictionary, out)
            if name != "label":
                assert made[f"{name}/dict.txt"] == (out / "dict.txt").read_bytes()
    files_of_parts = ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx")
    expected = [f"{name}/{file}" for name in ("input0", "input1", "label") for file in files_of_parts]
    assert sorted(made) == sorted([*expected, "encoder.json", "vocab.bpe"])
    for name in ("encoder.json", "vocab.bpe"):  # the tokenizer goes with the data
        assert made[name] == (gpt2_files / name).read_bytes()


def test_scores_are_the_stock_script_s(gpt2, tmp_path):
    source = tmp_path / "STS-B"
    files.write_tsv("sts-b", source)
    scores = ["0", "5", "0.000", "5.000", "3.267", "1.3333333", "4.5", "2.222"]
    lines = [f"{i}\tg\tf\t2012\t{i}\tn\tn\ta\tb\t{score}\n" for i, score in enumerate(scores)]
    (source / "train.tsv").write_text(files.FORMATS["sts-b"][1] + "\n" + "".join(lines))
    prepare(TASKS["sts-b"], tmp_path / "ours", source, gpt2)
    awk = subprocess.run(["awk", "{print $1 / 5.0 }"], input="\n".join(scores) + "\n", text=True, capture_output=True, check=True)
    assert (tmp_path / "ours" / "label" / "train.label").read_text() == awk.stdout
    assert not (tmp_path / "ours" / "label" / "dict.txt").exists()


def test_line_breaks_become_spaces(gpt2, tmp_path):
    def change(columns):
        columns["text"][0] = "\n low\tlow\r\nlower<br />low\r"
        return columns

    prepare(TASKS["imdb"], tmp_path / "out", files.write_parquet("imdb", tmp_path / "hub", change), gpt2)
    first = MMapIndexedDataset(str(tmp_path / "out" / "input0" / "train"))[0]
    assert first.tolist() == gpt2.encode(["low low lower<br />low"])[0].tolist()


def test_classes_go_by_name_not_by_number(gpt2, tmp_path, monkeypatch):
    """A source that numbers the classes otherwise."""
    made = prepare(TASKS["qnli"], tmp_path / "as-is", files.write_parquet("qnli", tmp_path / "hub"), gpt2)
    row = list(files.FORMATS["qnli"])
    row[5] = "not_entailment entailment"
    monkeypatch.setitem(files.FORMATS, "qnli", tuple(row))
    turned = prepare(TASKS["qnli"], tmp_path / "turned", files.write_parquet("qnli", tmp_path / "hub2"), gpt2)
    assert made["splits"]["train"]["classes"] == {"entailment": 2, "not_entailment": 3}
    assert turned["splits"]["train"]["classes"] == {"entailment": 3, "not_entailment": 2}
    names = ("entailment", "not_entailment")
    assert turned["labels"] == made["labels"] == {name: {"class": name, "number": i} for i, name in enumerate(names)}


def test_the_same_input_makes_the_same_manifest(gpt2, tmp_path):
    manifests = []
    for place in ("here", "there"):
        files.write_tsv("sst-2", tmp_path / place / "SST 2")
        prepare(TASKS["sst-2"], tmp_path / place / "out", tmp_path / place / "SST 2", gpt2)
        manifests.append((tmp_path / place / "out" / "manifest.json").read_bytes())
    assert manifests[0] == manifests[1]
    manifest = json.loads(manifests[0])
    for name, content in files.bins(tmp_path / "here" / "out").items():
        assert manifest["files"].pop(name) == hashlib.sha256(content).hexdigest()
    assert not manifest["files"] and shlex.split(manifest["command"])[4:6] == ["--source", "SST 2"]
    assert manifest["source"]["sha256"]["dev.tsv"] == hashlib.sha256(files.tsv("sst-2", "valid")).hexdigest()
    assert manifest["labels"]["1"] == {"class": "positive", "number": 1}


def test_command(gpt2_files, gpt2, tmp_path, capsys):
    source = files.write_tsv("mnli", tmp_path / "MNLI")
    main(["prepare", "mnli", str(tmp_path / "out"), "--source", str(source), "--gpt2", str(gpt2_files), "--max-positions", "20"])
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{tmp_path / 'out'}: mnli in the tokens of gpt2"
    lengths = [sum(gpt2.encode([text.strip() for text in row[:2]])[1]) + 2 for row in files.ROWS["train"]]
    cut, tokens = sum(length > 20 for length in lengths), sum(min(length, 20) - 2 for length in lengths)
    assert 0 < cut < 5
    assert said[1] == f"train: 5 rows, 0 skipped, {cut} cut to 20 positions, {tokens} tokens"
    assert said[-1] == (
        f"fairseq-train {tmp_path / 'out'} --task sentence_prediction --criterion sentence_prediction --num-classes 3 "
        "--max-positions 20 --init-token 0 --separator-token 2 --valid-subset valid,valid1"
    )


def test_sentencepiece(tmp_path, capsys):
    (tmp_path / "text").write_text("the cat sat on the mat\n" * 20)
    (tmp_path / "spm.model").write_bytes(spm.train([tmp_path / "text"], vocab_size=20, fold_case=True))
    source = files.write_tsv("qqp", tmp_path / "QQP")
    with open(source / "train.tsv", "a") as file:
        file.write("9\t1\t2\tthe cat\t\u200b\t1\n")  # normalised to nothing
    options = ["--source", source, "--sentencepiece", tmp_path / "spm.model", "--max-skipped", 0.2]
    main(["prepare", "qqp", *map(str, [tmp_path / "out", *options])])
    assert "  1 skipped, empty text: train.tsv:7: no tokens" in capsys.readouterr().out
    data = MMapIndexedDataset(str(tmp_path / "out" / "input1" / "train"))
    assert np.array_equal(data[4], SentencePiece(tmp_path / "spm.model").encode(["</s> <mask>"])[0]) and len(data) == 5
    spm.write_dictionary(tmp_path / "spm.model", tmp_path / "dict.txt")
    assert (tmp_path / "out" / "input0" / "dict.txt").read_bytes() == (tmp_path / "dict.txt").read_bytes()


def test_the_hub_itself_is_asked_for_a_commit(gpt2, tmp_path, monkeypatch):
    """What goes to ``datasets`` for --source hub; its answer is the folder's."""
    import datasets

    folder, load, asked = files.write_parquet("sst-2", tmp_path / "hub"), datasets.load_dataset, []

    def answer(name, revision, **options):
        asked.append((name, revision, options["data_files"]))
        return load(str(folder), **options)

    monkeypatch.setattr(datasets, "load_dataset", answer)
    manifest = prepare(TASKS["sst-2"], tmp_path / "out", "hub", gpt2)
    commit = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
    assert asked == [("nyu-mll/glue", commit, {split: f"sst2/{split}-*.parquet"}) for split in ("train", "validation")]
    assert manifest["source"] == {"kind": "hub", "name": "nyu-mll/glue", "revision": commit, "config": "sst2"}
    prepare(TASKS["sst-2"], tmp_path / "local", folder, gpt2)
    assert files.bins(tmp_path / "out") == files.bins(tmp_path / "local")


def test_the_entry_of_the_readme(gpt2, tmp_path):
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    block = re.search(r"^    Task\(\n.*?^    \),\n", readme, re.MULTILINE | re.DOTALL)[0]
    (task,) = eval(block.strip(), vars(table))  # the comma of the table makes it a tuple
    for file in ("train.tsv", "dev.tsv"):
        (tmp_path / file).write_text("index\tsentence1\tsentence2\tlabel\n0\thello world\tlow\t1\n")
    manifest = prepare(task, tmp_path / "out", tmp_path, gpt2)
    assert manifest["splits"]["valid"]["classes"] == {"not_entailment": 0, "entailment": 1}


def test_a_folder_of_texts_says_what_it_is_before_and_after_it_is_read(tmp_path):
    """By which finetune knows that data was made of this folder."""
    folder = files.write_reviews(tmp_path)
    unread, read = (open_source(TASKS["imdb"], str(folder)) for _ in range(2))
    rows = sum(1 for split in TASKS["imdb"].splits for _ in read.rows(split))
    assert unread.described() == read.described() and unread.described()["files"] == rows
    before = unread.described()
    (folder / "test/pos/0_4.txt").write_text("another")
    assert unread.described() != before
