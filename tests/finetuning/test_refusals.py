"""Options and data that ``finetune`` refuses."""

import json
import re
import shutil

import pytest

from fairseq_linformer.finetuning import data
from fairseq_linformer.finetuning.start import open_start


@pytest.mark.parametrize("words, said", [
    (["{lost}"], "lost.pt is not a file; a checkpoint of fairseq is wanted"),
    (["{ckpt}", "--lr", "0"], "--lr is 0.0; it must be above 0"),
    (["{ckpt}", "--epochs", "0"], "--epochs is 0; it must be at least 1"),
    (["{ckpt}", "--batch-size", "0"], "--batch-size is 0; it must be at least 1"),
    (["{ckpt}", "--lr", "1e-5,2e-5"], "--lr has several values; --grid runs them all"),
    (["{ckpt}", "--grid", "--seed", "1,1"], "--seed has a value twice: 1, 1"),
    (["{ckpt}", "--slurm"], "--slurm is given without --grid"),
    (["{ckpt}", "--dry-run"], "--dry-run is given without --slurm"),
    (["{ckpt}", "--partition=gpu"], "--partition=gpu is no option; with --slurm it would go to sbatch"),
    (["{ckpt}", "nonsense"], "nonsense is no override; KEY=VALUE is wanted"),
    (["{ckpt}", "--name", "../up"], "--name is ../up; it must be a folder below"),
    (["{ckpt}", "--max-positions", "0"], "--max-positions is 0; it must be between 1 and"),
    (["{ckpt}", "--max-positions", "100000000"], "--max-positions is 100000000; it must be between 1 and"),
    (["{ckpt}", "--seed", "99999999999"], "--seed is 99999999999; it must be from 0 to"),
    (["{ckpt}", "common.seed=5"], "common.seed=5 is given; --seed says it"),
    (["{ckpt}", "model.max_positions=8"], "model.max_positions=8 is given; --max-positions says it"),
    (["{ckpt}", "optimization.max_epoch=1"], "optimization.max_epoch=1 is given; --epochs says it"),
    (["{ckpt}", "distributed_training.distributed_world_size=4"], "distributed_training.distributed_world_size=4 is given; it is part of the recipe"),
    (["{ckpt}", "+dataset.max_tokens=100"], "dataset.max_tokens=100 is given; it is part of the recipe"),
    (["{ckpt}", "dataset.disable_validation=true"], "dataset.disable_validation=true is given; it is part of the recipe"),
    (["{ckpt}", "--ledger", "{lost}"], "--ledger is .*lost.pt; a folder that can be written is wanted"),
    (["{ckpt}", "optimization.nope=3"], "^.{,220}$"),
    (["{ckpt}", "model.droput=1"], "droput"),
    (["{ckpt}", "optimizer.adam_betas=abc"], "fairseq cannot build the optimizer"),
    (["{bare}"], "there is no tokenizer beside .*; --sentencepiece or --gpt2 says which"),
    (["{ckpt}", "--sentencepiece", "{lost}"], "lost.pt is not a file; --sentencepiece needs a model file"),
    (["{hub}", "--gpt2", "x"], "--data is given; it is for a checkpoint of fairseq, and nobody/nothing is not a file"),
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
    assert "ready holds qnli; sst-2 is wanted" in finetune(masked_lm / "checkpoint_last.pt", folder=ready)
    (ready / "manifest.json").write_text(json.dumps({"task": "sst-2", "max_positions": 32}))
    assert "has rows of up to 32 positions, the model has 16" in finetune(masked_lm / "checkpoint_last.pt", folder=ready)
    (ready / "manifest.json").write_text(json.dumps({"task": "sst-2", "max_positions": 8, "splits": {"train": {"cut": 3}, "valid": {"cut": 0}}}))
    assert "has 3 rows cut to 8 positions, the model has 16" in finetune(masked_lm / "checkpoint_last.pt", folder=ready)
    (ready / "manifest.json").unlink()
    assert "it is another dictionary" in finetune(trained() / "checkpoint_last.pt", folder=ready)
    lines = (ready / "input0/dict.txt").read_text().splitlines()
    (ready / "input0/dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    assert re.search("is not the dictionary that .* was pretrained with: entry 4 is", finetune(masked_lm / "checkpoint_last.pt", folder=ready))


def test_data_that_does_not_say_what_it_is_of_takes_no_options(finetune, masked_lm, pieces, tmp_path):
    assert "does not say what it was made of" in finetune(masked_lm / "checkpoint_last.pt", folder=pieces)
