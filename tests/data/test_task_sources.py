"""All sources of a task give the same files, which equal those of fairseq's own preprocessing."""

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
from fairseq_linformer.data import sentencepiece_model, tasks
from fairseq_linformer.data.prepare_task import prepare_task
from fairseq_linformer.data.task_source import open_source
from fairseq_linformer.data.tasks import TASKS
from fairseq_linformer.data.tokenizer import SentencePiece

from ..fairseq_preprocessing import gpt2_encode, preprocess
from . import task_files as files


@pytest.mark.parametrize("name", TASKS)
def test_tsv_zip_and_parquet_give_the_same_bytes(name, bpe, tmp_path):
    sources = [
        files.write_tsv(name, tmp_path / "tsv"),
        files.write_tsv(name, tmp_path / "all" / files.FORMATS[name][0]).parent,
        files.write_zip(name, tmp_path / "task.zip"),
        files.write_zip(name, tmp_path / "all.zip", f"glue_data/{files.FORMATS[name][0]}"),
        files.write_parquet(name, tmp_path / "hub"),
        files.write_parquet(name, tmp_path / "shards", shards=2),
    ]
    outputs = []
    for i, source in enumerate(sources):
        manifest = prepare_task(TASKS[name], tmp_path / f"out{i}", source, bpe)
        assert [manifest["splits"][split]["written"] for split in files.splits(name)] == [5, 3, 3][
            : len(files.splits(name))
        ]
        assert not any(split["skipped"] for split in manifest["splits"].values())
        outputs.append(files.bins(tmp_path / f"out{i}"))
    assert all(other == outputs[0] for other in outputs)
    pair = len(files.FORMATS[name][6].split()) == 3
    assert ("input1/train.bin" in outputs[0]) == pair
    for split in files.splits(name):
        rows = files.ROWS[split]
        for i in range(1 + pair):
            data = MMapIndexedDataset(str(tmp_path / "out0" / f"input{i}" / split))
            expected = [bpe.encode([row[i].strip()])[0].tolist() for row in rows]
            assert [item.tolist() for item in data] == expected
        if name == "sts-b":
            assert outputs[0][f"label/{split}.label"].decode() == "".join(["0.2\n", "0.76\n"][c] for _, _, c in rows)
        else:
            data = MMapIndexedDataset(str(tmp_path / "out0" / "label" / split))
            assert [item.tolist() for item in data] == [[4 + c, 2] for _, _, c in rows]


def test_folder_and_tar_of_reviews_give_the_same_bytes(bpe, tmp_path):
    folder = files.write_reviews(tmp_path)
    sources = [folder, tmp_path, files.write_tar(tmp_path / "aclImdb_v1.tar.gz")]
    outputs = []
    for i, source in enumerate(sources):
        manifest = prepare_task(TASKS["imdb"], tmp_path / f"out{i}", source, bpe)
        outputs.append(files.bins(tmp_path / f"out{i}"))
        assert manifest["labels"] == {
            "neg": {"class": "negative", "number": 0},
            "pos": {"class": "positive", "number": 1},
        }
        assert manifest["splits"]["train"]["classes"] == {"negative": 2, "positive": 3}
    assert outputs[0] == outputs[1] == outputs[2]
    data = MMapIndexedDataset(str(tmp_path / "out0" / "input0" / "train"))
    by_class = [a for c in (0, 1) for a, _, label in files.ROWS["train"] if label == c]
    assert [item.tolist() for item in data] == [bpe.encode([text.strip()])[0].tolist() for text in by_class]


def test_reviews_are_ordered_by_number(bpe, tmp_path):
    folder = files.write_reviews(tmp_path)
    for number in (2, 10, 100):
        (folder / "train" / "neg" / f"{number}_1.txt").write_text(f"low {number}")
    for i, name in enumerate(sorted(path.name for path in (folder / "train" / "pos").iterdir())):
        (folder / "train" / "pos" / name).unlink()
        (folder / "train" / "pos" / f"{i}_9.txt").write_text("hello")
    prepare_task(TASKS["imdb"], tmp_path / "out", folder, bpe)
    data = [item.tolist() for item in MMapIndexedDataset(str(tmp_path / "out" / "input0" / "train"))]
    indices = [data.index(bpe.encode([f"low {number}"])[0].tolist()) for number in (2, 10, 100)]
    assert indices == [1, 3, 4]  # between and after 0_4.txt and 7_4.txt


@pytest.mark.slow
def test_pairs_equal_fairseq_preprocessing(gpt2, bpe, tmp_path):
    """Against tail, cut, multiprocessing_bpe_encoder and fairseq-preprocess, as in preprocess_GLUE_tasks.sh."""
    source = files.write_tsv("qnli", tmp_path / "QNLI")
    prepare_task(TASKS["qnli"], tmp_path / "ours", source, bpe)
    outputs = files.bins(tmp_path / "ours")
    for file, split in (("train.tsv", "train"), ("dev.tsv", "valid")):
        raw = {name: tmp_path / f"{split}.raw.{name}" for name in ("input0", "input1", "label")}
        for column, text in zip((2, 3, 4), raw.values()):
            subprocess.run(f"tail -n +2 {source / file} | cut -f{column} >{text}", shell=True, check=True)
        encoded = {name: tmp_path / f"{split}.{name}" for name in ("input0", "input1")}
        gpt2_encode(gpt2, [raw[name] for name in encoded], encoded.values())
        for name, text in {**encoded, "label": raw["label"]}.items():
            # Without a dictionary fairseq-preprocess orders classes by frequency.
            dictionary = tmp_path / "ours" / "label" / "dict.txt" if name == "label" else gpt2 / "dict.txt"
            out = tmp_path / "stock" / split / name
            assert [outputs[f"{name}/{split}.{end}"] for end in ("bin", "idx")] == preprocess(text, dictionary, out)
            if name != "label":
                assert outputs[f"{name}/dict.txt"] == (out / "dict.txt").read_bytes()
    names = ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx")
    expected = [f"{name}/{file}" for name in ("input0", "input1", "label") for file in names]
    assert sorted(outputs) == sorted([*expected, "encoder.json", "vocab.bpe"])
    for name in ("encoder.json", "vocab.bpe"):  # the tokenizer is copied
        assert outputs[name] == (gpt2 / name).read_bytes()


def test_scores_equal_fairseqs_script(bpe, tmp_path):
    source = tmp_path / "STS-B"
    files.write_tsv("sts-b", source)
    scores = ["0", "5", "0.000", "5.000", "3.267", "1.3333333", "4.5", "2.222"]
    lines = [f"{i}\tg\tf\t2012\t{i}\tn\tn\ta\tb\t{score}\n" for i, score in enumerate(scores)]
    (source / "train.tsv").write_text(files.FORMATS["sts-b"][1] + "\n" + "".join(lines))
    prepare_task(TASKS["sts-b"], tmp_path / "ours", source, bpe)
    awk = subprocess.run(
        ["awk", "{print $1 / 5.0 }"], input="\n".join(scores) + "\n", text=True, capture_output=True, check=True
    )
    assert (tmp_path / "ours" / "label" / "train.label").read_text() == awk.stdout
    assert not (tmp_path / "ours" / "label" / "dict.txt").exists()


def test_line_breaks_become_spaces(bpe, tmp_path):
    def change(columns):
        columns["text"][0] = "\n low\tlow\r\nlower<br />low\r"
        return columns

    prepare_task(TASKS["imdb"], tmp_path / "out", files.write_parquet("imdb", tmp_path / "hub", change), bpe)
    first = MMapIndexedDataset(str(tmp_path / "out" / "input0" / "train"))[0]
    assert first.tolist() == bpe.encode(["low low lower<br />low"])[0].tolist()


def test_classes_are_matched_by_name(bpe, tmp_path, monkeypatch):
    """In a source with another order of classes."""
    outputs = prepare_task(TASKS["qnli"], tmp_path / "as-is", files.write_parquet("qnli", tmp_path / "hub"), bpe)
    row = list(files.FORMATS["qnli"])
    row[5] = "not_entailment entailment"
    monkeypatch.setitem(files.FORMATS, "qnli", tuple(row))
    swapped = prepare_task(TASKS["qnli"], tmp_path / "swapped", files.write_parquet("qnli", tmp_path / "hub2"), bpe)
    assert outputs["splits"]["train"]["classes"] == {"entailment": 2, "not_entailment": 3}
    assert swapped["splits"]["train"]["classes"] == {"entailment": 3, "not_entailment": 2}
    names = ("entailment", "not_entailment")
    assert (
        swapped["labels"] == outputs["labels"] == {name: {"class": name, "number": i} for i, name in enumerate(names)}
    )


def test_manifest_is_deterministic(bpe, tmp_path):
    manifests = []
    for place in ("here", "there"):
        files.write_tsv("sst-2", tmp_path / place / "SST 2")
        prepare_task(TASKS["sst-2"], tmp_path / place / "out", tmp_path / place / "SST 2", bpe)
        manifests.append((tmp_path / place / "out" / "manifest.json").read_bytes())
    assert manifests[0] == manifests[1]
    manifest = json.loads(manifests[0])
    for name, content in files.bins(tmp_path / "here" / "out").items():
        assert manifest["files"].pop(name) == hashlib.sha256(content).hexdigest()
    assert not manifest["files"] and shlex.split(manifest["command"])[4:6] == ["--source", "SST 2"]
    assert manifest["source"]["sha256"]["dev.tsv"] == hashlib.sha256(files.tsv("sst-2", "valid")).hexdigest()
    assert manifest["labels"]["1"] == {"class": "positive", "number": 1}


def test_command(gpt2, bpe, tmp_path, capsys):
    source = files.write_tsv("mnli", tmp_path / "MNLI")
    main(
        [
            "prepare",
            "mnli",
            str(tmp_path / "out"),
            "--source",
            str(source),
            "--gpt2-bpe",
            str(gpt2),
            "--max-positions",
            "20",
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path / 'out'}: mnli, tokenized with gpt2"
    lengths = [sum(bpe.encode([text.strip() for text in row[:2]])[1]) + 2 for row in files.ROWS["train"]]
    truncated, tokens = sum(length > 20 for length in lengths), sum(min(length, 20) - 2 for length in lengths)
    assert 0 < truncated < 5
    assert lines[1] == f"train: 5 rows, 0 skipped, {truncated} truncated to 20 positions, {tokens} tokens"
    assert lines[-1] == (
        f"fairseq-train {tmp_path / 'out'} --task sentence_prediction --criterion sentence_prediction --num-classes 3 "
        "--max-positions 20 --init-token 0 --separator-token 2 --valid-subset valid,valid1"
    )


def test_sentencepiece_tokenizer(tmp_path, capsys):
    (tmp_path / "text").write_text("the cat sat on the mat\n" * 20)
    (tmp_path / "spm.model").write_bytes(
        sentencepiece_model.train_model([tmp_path / "text"], vocab_size=20, fold_case=True)
    )
    source = files.write_tsv("qqp", tmp_path / "QQP")
    with open(source / "train.tsv", "a") as file:
        file.write("9\t1\t2\tthe cat\t\u200b\t1\n")  # empty after normalization
    options = ["--source", source, "--sentencepiece-model", tmp_path / "spm.model", "--max-skipped", 0.2]
    main(["prepare", "qqp", *map(str, [tmp_path / "out", *options])])
    assert "  1 skipped, empty text: train.tsv:7: no tokens" in capsys.readouterr().out
    data = MMapIndexedDataset(str(tmp_path / "out" / "input1" / "train"))
    assert np.array_equal(data[4], SentencePiece(tmp_path / "spm.model").encode(["</s> <mask>"])[0]) and len(data) == 5
    sentencepiece_model.write_dictionary(tmp_path / "spm.model", tmp_path / "dict.txt")
    assert (tmp_path / "out" / "input0" / "dict.txt").read_bytes() == (tmp_path / "dict.txt").read_bytes()


def test_hub_is_read_at_a_pinned_commit(bpe, tmp_path, monkeypatch):
    """The arguments of ``datasets.load_dataset``, which reads a local folder instead."""
    import datasets

    folder, load, requests = files.write_parquet("sst-2", tmp_path / "hub"), datasets.load_dataset, []

    def load_dataset(name, revision, **options):
        requests.append((name, revision, options["data_files"]))
        return load(str(folder), **options)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    manifest = prepare_task(TASKS["sst-2"], tmp_path / "out", "hub", bpe)
    commit = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
    assert requests == [
        ("nyu-mll/glue", commit, {split: f"sst2/{split}-*.parquet"}) for split in ("train", "validation")
    ]
    assert manifest["source"] == {"kind": "hub", "name": "nyu-mll/glue", "revision": commit, "config": "sst2"}
    prepare_task(TASKS["sst-2"], tmp_path / "local", folder, bpe)
    assert files.bins(tmp_path / "out") == files.bins(tmp_path / "local")


def test_example_of_the_docs(bpe, tmp_path):
    page = (Path(__file__).parents[2] / "docs/data.md").read_text()
    block = re.search(r"^    Task\(\n.*?^    \),\n", page, re.MULTILINE | re.DOTALL)[0]
    (task,) = eval(block.strip(), vars(tasks))  # the comma of the table makes it a tuple
    for file in ("train.tsv", "dev.tsv"):
        (tmp_path / file).write_text("index\tsentence1\tsentence2\tlabel\n0\thello world\tlow\t1\n")
    manifest = prepare_task(task, tmp_path / "out", tmp_path, bpe)
    assert manifest["splits"]["valid"]["classes"] == {"not_entailment": 0, "entailment": 1}


def test_description_of_a_text_folder_depends_on_its_content_only(tmp_path):
    """``finetune`` compares it to find prepared data."""
    folder = files.write_reviews(tmp_path)
    unread, read = (open_source(TASKS["imdb"], str(folder)) for _ in range(2))
    rows = sum(1 for split in TASKS["imdb"].splits for _ in read.read_rows(split))
    assert unread.describe() == read.describe() and unread.describe()["files"] == rows
    before = unread.describe()
    (folder / "test/pos/0_4.txt").write_text("another")
    assert unread.describe() != before


def test_counted_rows_equal_the_rows_that_are_read(tmp_path):
    """Each kind of source; a last line without a line end counts."""
    tsv = files.write_tsv("qnli", tmp_path / "tsv")
    (tsv / "dev.tsv").write_bytes((tsv / "dev.tsv").read_bytes().removesuffix(b"\n"))
    cola = files.write_tsv("cola", tmp_path / "cola")  # without a header
    reviews = files.write_reviews(tmp_path)
    for name, source in (
        ("qnli", tsv),
        ("cola", cola),
        ("qnli", files.write_zip("qnli", tmp_path / "qnli.zip")),
        ("qnli", files.write_parquet("qnli", tmp_path / "parquet", shards=2)),
        ("imdb", reviews),
    ):
        task_source = open_source(TASKS[name], source)
        for split in TASKS[name].splits:
            assert task_source.count_rows(split) == len(list(task_source.read_rows(split))) > 0
    assert open_source(TASKS["imdb"], files.write_tar(tmp_path / "x.tar.gz")).count_rows("train") is None
    assert open_source(TASKS["qnli"], "hub").count_rows("train") is None
