"""Options and data that ``finetune`` rejects."""

import json
import re
import shutil

import pytest

from fairseq_linformer.finetuning import data
from fairseq_linformer.finetuning.initial_checkpoint import open_checkpoint


@pytest.mark.parametrize(
    "words, pattern",
    [
        (["{lost}"], "lost.pt is not a file"),
        (["{ckpt}", "--lr", "0"], "--lr must .*0.0"),
        (["{ckpt}", "--max-epoch", "0"], "--max-epoch must .*0"),
        (["{ckpt}", "--batch-size", "0"], "--batch-size must .*0"),
        (["{ckpt}", "--lr", "1e-5,2e-5"], "--lr.*--grid"),
        (["{ckpt}", "--grid", "--seed", "1,1"], "--seed.*1, 1"),
        (["{ckpt}", "--slurm"], "--slurm.*--grid"),
        (["{ckpt}", "--dry-run"], "--dry-run.*--slurm"),
        (["{ckpt}", "--partition=gpu"], "--partition=gpu.*--slurm"),
        (["{ckpt}", "--batch", "3"], "unknown option --batch"),
        (["{ckpt}", "nonsense"], "KEY=VALUE.*nonsense"),
        (["{ckpt}", "--name", "../up"], "--name must .*../up"),
        (["{ckpt}", "--max-positions", "0"], "--max-positions must .* 1 .*0"),
        (["{ckpt}", "--max-positions", "100000000"], "--max-positions must .*1,048,576.*100000000"),
        (["{ckpt}", "--seed", "99999999999"], "--seed must .*4294967295.*99999999999"),
        (["{ckpt}", "common.seed=5"], "common.seed=5.*--seed"),
        (["{ckpt}", "model.max_positions=8"], "model.max_positions=8.*--max-positions"),
        (["{ckpt}", "optimization.max_epoch=1"], "optimization.max_epoch=1.*--max-epoch"),
        (["{ckpt}", "distributed_training.distributed_world_size=4"], "distributed_world_size=4.*recipe"),
        (["{ckpt}", "+dataset.max_tokens=100"], "dataset.max_tokens=100.*recipe"),
        (["{ckpt}", "dataset.disable_validation=true"], "dataset.disable_validation=true.*recipe"),
        (["{ckpt}", "--results", "{lost}"], "lost.pt"),
        (["{ckpt}", "--results", ""], "--results must .*''"),
        (["{ckpt}", "--runs", ""], "--runs must .*''"),
        (["{ckpt}", "--data", ""], "--data must .*''"),
        (["{ckpt}", "--results", "{records}", "--name", "_/__"], "--name must .*'_/__'"),
        (["{ckpt}", "--results", "{records}", "--name", 201 * "x"], "--name must .*'x+'"),
        (["{ckpt}", "optimization.nope=3"], "^.{,220}$"),
        (["{ckpt}", "model.droput=1"], "droput"),
        (["{ckpt}", "optimizer.adam_betas=abc"], "optimizer"),
        (["{bare}"], "bare/checkpoint_last.pt.*--sentencepiece-model or --wordpiece"),
        (["{ckpt}", "--sentencepiece-model", "{lost}"], "lost.pt does not exist"),
        (["{hub}", "--gpt2-bpe", "x"], "--data.*nobody/nothing"),
    ],
)
def test_rejections(words, pattern, finetune, masked_lm, tmp_path):
    (tmp_path / "bare").mkdir()
    (tmp_path / "records").mkdir()
    shutil.copy(masked_lm / "checkpoint_last.pt", tmp_path / "bare")
    paths = dict(
        ckpt=masked_lm / "checkpoint_last.pt",
        lost=tmp_path / "lost.pt",
        records=tmp_path / "records",
        bare=tmp_path / "bare/checkpoint_last.pt",
        hub="nobody/nothing",
    )
    message = finetune(*(word.format(**paths) for word in words))
    assert message.startswith("fairseq-linformer: ") and "\n" not in message and re.search(pattern, message), message
    assert {path.name for path in tmp_path.glob("runs/*")} <= {"starts"}


def test_rejects_data_that_does_not_match(finetune, masked_lm, pieces, train_checkpoint, tmp_path):
    ready = tmp_path / "ready"
    start = open_checkpoint(masked_lm / "checkpoint_last.pt", tmp_path / "runs")
    assert data.find_tokenizer(start, data.DataOptions()).dictionary == (pieces / "dict.txt").read_text().splitlines()
    assert (
        "--max-epoch must" in finetune(masked_lm / "checkpoint_last.pt", "--max-epoch", 0, folder=ready)
        and not ready.exists()
    )
    shutil.copytree(pieces, ready)
    (ready / "manifest.json").write_text(json.dumps({"task": "qnli", "max_positions": 16}))
    assert "must be a folder of sst-2, got qnli" in finetune(masked_lm / "checkpoint_last.pt", folder=ready)
    (ready / "manifest.json").write_text(json.dumps({"task": "sst-2", "max_positions": 32}))
    assert "n = 32, but the model has n = 16" in finetune(masked_lm / "checkpoint_last.pt", folder=ready)
    (ready / "manifest.json").write_text(
        json.dumps({"task": "sst-2", "max_positions": 8, "splits": {"train": {"cut": 3}, "valid": {"cut": 0}}})
    )
    assert "3 rows truncated to n = 8, but the model has n = 16" in finetune(
        masked_lm / "checkpoint_last.pt", folder=ready
    )
    (ready / "manifest.json").unlink()
    assert "input0/dict.txt must have " in finetune(train_checkpoint() / "checkpoint_last.pt", folder=ready)
    lines = (ready / "input0/dict.txt").read_text().splitlines()
    (ready / "input0/dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    assert re.search("input0/dict.txt .*: entry 4", finetune(masked_lm / "checkpoint_last.pt", folder=ready))


def test_rejects_options_for_data_without_a_manifest(finetune, masked_lm, pieces, tmp_path):
    assert re.search("has no manifest.json .*--source", finetune(masked_lm / "checkpoint_last.pt", folder=pieces))
