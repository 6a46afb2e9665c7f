"""Options and data that ``finetune`` refuses."""

import json
import re
import shutil

import pytest

from fairseq_linformer.finetuning import data
from fairseq_linformer.finetuning.start import open_start


@pytest.mark.parametrize("words, said", [
    (["{lost}"], "lost.pt is not a file"),
    (["{ckpt}", "--lr", "0"], "--lr is 0.0"),
    (["{ckpt}", "--epochs", "0"], "--epochs is 0"),
    (["{ckpt}", "--batch-size", "0"], "--batch-size is 0"),
    (["{ckpt}", "--lr", "1e-5,2e-5"], "--lr.*--grid"),
    (["{ckpt}", "--grid", "--seed", "1,1"], "--seed.*1, 1"),
    (["{ckpt}", "--slurm"], "--slurm.*--grid"),
    (["{ckpt}", "--dry-run"], "--dry-run.*--slurm"),
    (["{ckpt}", "--partition=gpu"], "--partition=gpu.*--slurm"),
    (["{ckpt}", "nonsense"], "nonsense.*KEY=VALUE"),
    (["{ckpt}", "--name", "../up"], "--name is ../up"),
    (["{ckpt}", "--max-positions", "0"], "--max-positions is 0.*1"),
    (["{ckpt}", "--max-positions", "100000000"], "--max-positions is 100000000.*1,048,576"),
    (["{ckpt}", "--seed", "99999999999"], "--seed is 99999999999.*4294967295"),
    (["{ckpt}", "common.seed=5"], "common.seed=5.*--seed"),
    (["{ckpt}", "model.max_positions=8"], "model.max_positions=8.*--max-positions"),
    (["{ckpt}", "optimization.max_epoch=1"], "optimization.max_epoch=1.*--epochs"),
    (["{ckpt}", "distributed_training.distributed_world_size=4"], "distributed_world_size=4.*recipe"),
    (["{ckpt}", "+dataset.max_tokens=100"], "dataset.max_tokens=100.*recipe"),
    (["{ckpt}", "dataset.disable_validation=true"], "dataset.disable_validation=true.*recipe"),
    (["{ckpt}", "--ledger", "{lost}"], "--ledger is .*lost.pt"),
    (["{ckpt}", "optimization.nope=3"], "^.{,220}$"),
    (["{ckpt}", "model.droput=1"], "droput"),
    (["{ckpt}", "optimizer.adam_betas=abc"], "optimizer"),
    (["{bare}"], "bare/checkpoint_last.pt.*--sentencepiece or --gpt2"),
    (["{ckpt}", "--sentencepiece", "{lost}"], "lost.pt is not a file.*--sentencepiece"),
    (["{hub}", "--gpt2", "x"], "--data.*nobody/nothing"),
])  # fmt: skip
def test_what_is_refused(words, said, finetune, masked_lm, tmp_path):
    (tmp_path / "bare").mkdir()
    shutil.copy(masked_lm / "checkpoint_last.pt", tmp_path / "bare")
    places = dict(ckpt=masked_lm / "checkpoint_last.pt", lost=tmp_path / "lost.pt", bare=tmp_path / "bare/checkpoint_last.pt", hub="nobody/nothing")
    end = finetune(*(word.format(**places) for word in words))
    assert end.startswith("fairseq-linformer: ") and "\n" not in end and re.search(said, end), end
    assert not list(tmp_path.glob("runs/finetune*"))


def test_data_that_does_not_fit_is_refused(finetune, masked_lm, pieces, trained, tmp_path):
    ready = tmp_path / "ready"
    start = open_start(masked_lm / "checkpoint_last.pt", tmp_path / "runs")
    assert data.find_tokenizer(start).dictionary == (pieces / "dict.txt").read_text().splitlines()
    assert "--epochs is 0" in finetune(masked_lm / "checkpoint_last.pt", "--epochs", 0, folder=ready) and not ready.exists()
    shutil.copytree(pieces, ready)
    (ready / "manifest.json").write_text(json.dumps({"task": "qnli", "max_positions": 16}))
    assert "ready holds qnli, not sst-2" in finetune(masked_lm / "checkpoint_last.pt", folder=ready)
    (ready / "manifest.json").write_text(json.dumps({"task": "sst-2", "max_positions": 32}))
    assert "32 positions, the model has 16" in finetune(masked_lm / "checkpoint_last.pt", folder=ready)
    (ready / "manifest.json").write_text(json.dumps({"task": "sst-2", "max_positions": 8, "splits": {"train": {"cut": 3}, "valid": {"cut": 0}}}))
    assert "3 rows cut to 8 positions, the model has 16" in finetune(masked_lm / "checkpoint_last.pt", folder=ready)
    (ready / "manifest.json").unlink()
    assert "input0/dict.txt has " in finetune(trained() / "checkpoint_last.pt", folder=ready)
    lines = (ready / "input0/dict.txt").read_text().splitlines()
    (ready / "input0/dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    assert re.search("input0/dict.txt .*: entry 4", finetune(masked_lm / "checkpoint_last.pt", folder=ready))


def test_data_that_does_not_say_what_it_is_of_takes_no_options(finetune, masked_lm, pieces, tmp_path):
    assert "does not say what it was made of" in finetune(masked_lm / "checkpoint_last.pt", folder=pieces)
