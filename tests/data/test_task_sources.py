"""All sources of a task give the same files, which equal those of fairseq's own preprocessing."""

import subprocess

import huggingface_hub
import pytest
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_linformer.data.prepare_task import prepare_task
from fairseq_linformer.data.task_sources import open_source
from fairseq_linformer.data.tasks import TASKS

from ..fairseq_preprocessing import gpt2_encode, preprocess
from . import task_files as files


def prepare(name, out, source, bpe, **options):
    return prepare_task(TASKS[name], out, open_source(TASKS[name], source), bpe, **options)


@pytest.mark.parametrize("name", TASKS)
def test_tsv_and_parquet_give_the_same_bytes(name, bpe, tmp_path):
    folder = files.write_tsv(name, tmp_path / "all" / files.FORMATS[name][0])
    sources = [folder, files.write_parquet(name, tmp_path / "hub", shards=2)]
    if name == "mnli":
        sources.append(folder.parent)
    outputs = []
    for i, source in enumerate(sources):
        splits = prepare(name, tmp_path / f"out{i}", source, bpe)["splits"]
        assert {split: counts["written"] for split, counts in splits.items()} == {
            split: len(files.ROWS[split]) for split in files.splits(name)
        }
        outputs.append(files.bins(tmp_path / f"out{i}"))
    assert all(other == outputs[0] for other in outputs)
    pair = len(files.FORMATS[name][4].split()) == 3
    assert ("input1/train.bin" in outputs[0]) == pair
    for split in files.splits(name):
        rows = files.ROWS[split]
        for i in range(1 + pair):
            data = MMapIndexedDataset(str(tmp_path / "out0" / f"input{i}" / split))
            assert [item.tolist() for item in data] == [bpe.encode([row[i].strip()])[0].tolist() for row in rows]
        if name == "sts-b":
            assert outputs[0][f"label/{split}.label"].decode() == "".join(["0.2\n", "0.76\n"][c] for _, _, c in rows)
        else:
            data = MMapIndexedDataset(str(tmp_path / "out0" / "label" / split))
            assert [item.tolist() for item in data] == [[4 + c, 2] for _, _, c in rows]


def test_reviews_are_ordered_by_class_and_number(bpe, tmp_path):
    folder = files.write_reviews(tmp_path)
    for number in (2, 10, 100):  # next to 0_4.txt and 7_4.txt
        (folder / "train" / "neg" / f"{number}_1.txt").write_text(f"low {number}")
    manifests = [prepare("imdb", tmp_path / out, path, bpe) for out, path in (("a", folder), ("b", tmp_path))]
    assert files.bins(tmp_path / "a") == files.bins(tmp_path / "b")
    neg, pos = ([a for a, _, c in files.ROWS["train"] if c == label] for label in (0, 1))
    expected = [neg[0], "low 2", neg[1], "low 10", "low 100", *pos]
    data = MMapIndexedDataset(str(tmp_path / "a/input0/train"))
    assert [item.tolist() for item in data] == [bpe.encode([text.strip()])[0].tolist() for text in expected]
    assert manifests[0]["splits"]["train"]["classes"] == {"negative": 5, "positive": 3}
    (folder / "test/pos/0_4.txt").write_text("another")
    assert open_source(TASKS["imdb"], folder).description != manifests[0]["source"]


@pytest.mark.slow
def test_pairs_equal_fairseq_preprocessing(gpt2, bpe, tmp_path):
    """Against tail, cut, multiprocessing_bpe_encoder and fairseq-preprocess, as in preprocess_GLUE_tasks.sh."""
    source = files.write_tsv("qnli", tmp_path / "QNLI")
    prepare("qnli", tmp_path / "ours", source, bpe)
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
    for name in ("encoder.json", "vocab.bpe"):  # the tokenizer is copied
        assert outputs[name] == (gpt2 / name).read_bytes()


def test_classes_are_matched_by_name(bpe, tmp_path, monkeypatch):
    """In a source with another order of classes."""
    *official, _, hub = files.FORMATS["qnli"]
    monkeypatch.setitem(files.FORMATS, "qnli", (*official, "not_entailment entailment", hub))
    manifest = prepare("qnli", tmp_path / "swapped", files.write_parquet("qnli", tmp_path / "hub"), bpe)
    assert manifest["splits"]["train"]["classes"] == {"entailment": 3, "not_entailment": 2}


def test_hub_is_read_at_a_pinned_commit(bpe, tmp_path, monkeypatch):
    folder, requests = files.write_parquet("sst-2", tmp_path / "hub"), []

    def snapshot_download(name, **options):
        requests.append((name, options["repo_type"], options["revision"], options["allow_patterns"]))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    manifest = prepare("sst-2", tmp_path / "out", "hub", bpe)
    commit = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
    patterns = ["sst2/train-*.parquet", "sst2/validation-*.parquet"]
    assert requests == [("nyu-mll/glue", "dataset", commit, patterns)]
    assert manifest["source"] == {"kind": "hub", "name": "nyu-mll/glue", "revision": commit}
    prepare("sst-2", tmp_path / "local", folder, bpe)
    assert files.bins(tmp_path / "out") == files.bins(tmp_path / "local")


def test_unreachable_hub(error_of, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    message = error_of()
    assert "the dataset nyu-mll/glue of the hub cannot be read" in message


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "train.tsv does not exist; sst-2 needs it"),
        (b"", "train.tsv has no rows"),
        (b"label\ttext\n1\tlow\n", "train.tsv has no column sentence; choose from label, text"),
        ("sentence\tlabel\nlow\t1\n".encode("utf-16"), "train.tsv has no column sentence"),
    ],
)
def test_modified_files_are_rejected(content, message, error_of, tmp_path):
    source = files.write_tsv("sst-2", tmp_path / "SST-2")
    (source / "train.tsv").unlink()
    if content is not None:
        (source / "train.tsv").write_bytes(content)
    assert message in error_of("--source", source)
