"""Options, unusable rows, and the manifest of a prepared task."""

import hashlib
import json

from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_linformer.cli import main
from fairseq_linformer.data.tokenizer import load_tokenizer
from fairseq_linformer.data.tokenizer_files import find_tokenizer_files

from . import task_files as files
from .test_task_sources import prepare


def test_selected_rows_are_rows_of_the_source_in_their_order(bpe, tmp_path):
    """All development sets are limited; the same number gives the same rows, and the manifest has the options."""
    source = files.write_tsv("mnli", tmp_path / "MNLI")

    def prepare_rows(name, **options):
        manifest = prepare("mnli", tmp_path / name, source, bpe, **options)
        paths = {split: tmp_path / name / "input0" / split for split in files.splits("mnli")}
        return manifest, {
            split: [row.tolist() for row in MMapIndexedDataset(str(path))] for split, path in paths.items()
        }

    _, every = prepare_rows("every")
    manifest, selected = prepare_rows("selected", num_rows={"train": 3, "valid": 2})
    assert {split: len(rows) for split, rows in selected.items()} == {"train": 3, "valid": 2, "valid1": 2}
    for split, rows in selected.items():
        at = [every[split].index(row) for row in rows]
        assert at == sorted(at) and len(every[split]) > len(rows)
    assert manifest["selected_rows"] == {"train": 3, "valid": 2}
    assert prepare_rows("again", num_rows={"train": 3, "valid": 2})[1] == selected


def write_rows(tmp_path, lines):
    """SST-2 with 200 good training rows before these lines."""
    source = files.write_tsv("sst-2", tmp_path / "SST-2")
    (source / "train.tsv").write_bytes(b"sentence\tlabel\n" + b"low\t1\n" * 200 + lines)
    return source


def test_unusable_rows_are_skipped_and_located(capsys, gpt2, tmp_path):
    source = write_rows(tmp_path, b"low\t2\nlatin \xe4\t1\nhello\t0\n")
    words = ["prepare", "sst-2", tmp_path / "out", "--source", source, "--tokenizer", gpt2]
    main([*map(str, words)])
    train = "train: 201 rows, 2 skipped (the first is train.tsv:202: unknown label '2'), 0 truncated"
    assert train in capsys.readouterr().out
    write_rows(tmp_path, b"hello\t0\n")
    words[2] = tmp_path / "without"
    main([*map(str, words)])
    assert files.bins(tmp_path / "out") == files.bins(tmp_path / "without")


def test_too_many_unusable_rows_are_rejected(error_of, tmp_path):
    source = write_rows(tmp_path, b"a\tb\t1\n" * 3)
    message = error_of("--source", source)
    assert (
        "at most 1 % of the rows of train may be unusable, got 3 of 203; the first is train.tsv:202: 3 col" in message
    )


def test_invalid_scores_are_unusable(error_of, tmp_path):
    source = files.write_tsv("sts-b", tmp_path / "STS-B")
    with open(source / "train.tsv", "a") as file:
        for label in ("5.1", "-0.1", "nan", "inf", "", "high"):
            file.write(f"9\ta\tb\t{label}\n")
    message = error_of("--source", source, task="sts-b")
    assert message.endswith("got 6 of 11; the first is train.tsv:7: unknown label '5.1'")


def test_text_that_sentencepiece_removes(pieces, tmp_path):
    source = write_rows(tmp_path, "\u200b\t1\nthe cat\t0\n".encode())
    tokenizer = load_tokenizer(find_tokenizer_files(pieces))
    counts = prepare("sst-2", tmp_path / "out", source, tokenizer)["splits"]["train"]
    assert (counts["skipped"], counts["first_skipped"]) == (1, "train.tsv:202: no tokens")
    data = MMapIndexedDataset(str(tmp_path / "out/input0/train"))
    assert len(data) == 201 and data[200].tolist() == tokenizer.encode(["the cat"])[0].tolist()


def test_manifest_is_deterministic(bpe, tmp_path):
    manifests = []
    for place in ("here", "there"):
        files.write_tsv("sst-2", tmp_path / place / "SST 2")
        prepare("sst-2", tmp_path / place / "out", tmp_path / place / "SST 2", bpe)
        manifests.append((tmp_path / place / "out" / "manifest.json").read_bytes())
    assert manifests[0] == manifests[1]
    manifest = json.loads(manifests[0])
    for name, content in files.bins(tmp_path / "here" / "out").items():
        assert manifest["files"].pop(name) == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert not manifest["files"]
    assert manifest["source"]["sha256"]["dev.tsv"] == hashlib.sha256(files.tsv("sst-2", "valid")).hexdigest()
    assert manifest["classes"] == ["negative", "positive"]


def test_summary(gpt2, bpe, tmp_path, capsys):
    source = files.write_tsv("mnli", tmp_path / "MNLI")
    options = ["--source", source, "--tokenizer", gpt2, "--max-positions", 20]
    main(["prepare", "mnli", *map(str, [tmp_path / "out", *options])])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path / 'out'}: mnli, tokenized with gpt2"
    lengths = [sum(bpe.encode([text.strip() for text in row[:2]])[1]) + 2 for row in files.ROWS["train"]]
    truncated, tokens = sum(length > 20 for length in lengths), sum(min(length, 20) - 2 for length in lengths)
    assert 0 < truncated < 5
    assert lines[1] == f"train: 5 rows, 0 skipped, {truncated} truncated to 20 positions, {tokens} tokens"
    assert lines[-1].endswith(
        "--num-classes 3 --max-positions 20 --init-token 0 --separator-token 2 --valid-subset valid,valid1"
    )
