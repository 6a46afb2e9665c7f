"""Data that ``finetune`` rejects; ``tests/bad_input`` has its options and checkpoints."""

import json
import re
import shutil

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.training import run_folder

from ..damaged_data import DAMAGE
from .conftest import SHORT


def test_rejects_data_that_does_not_match(finetune, masked_lm, pieces, train_checkpoint, tmp_path):
    ready, checkpoint = tmp_path / "ready", masked_lm / "checkpoint_last.pt"
    shutil.copytree(pieces, ready)

    def rejected(manifest):
        (ready / "manifest.json").write_text(json.dumps(manifest))
        return finetune(checkpoint, "--truncation", "head+tail", folder=ready)

    assert "task must be qnli, got sst-2" in rejected({"task": "qnli", "max_positions": 16})
    assert "n = 32 and has 0 truncated rows, but the model has n = 16" in rejected({"max_positions": 32})
    truncated = {"max_positions": 8, "splits": {"train": {"cut": 3}, "valid": {"cut": 0}}}
    assert "n = 8 and has 3 truncated rows, but the model has n = 16" in rejected(truncated)
    assert "truncation must be head, got head+tail" in rejected({"max_positions": 16, "cut": "head"})
    (ready / "manifest.json").unlink()
    (ready / "runs").touch()
    words = (checkpoint, "--dry-run")
    assert "runs is not a folder" in finetune(*words, "--runs", ready / "runs", folder=ready)
    (ready / "label/valid.bin").rename(ready / "valid.bin")
    assert "label/valid.bin does not exist" in finetune(*words, folder=ready)
    (ready / "valid.bin").rename(ready / "label/valid.bin")
    assert "input0/dict.txt must have " in finetune(train_checkpoint() / "checkpoint_last.pt", folder=ready)


DAMAGED = [("input0/train.idx", "truncated"), ("input0/dict.txt", "empty"), ("manifest.json", "foreign")]


@pytest.fixture(scope="module")
def interrupted(masked_lm, glue, tmp_path_factory):
    """The words of a command whose run has checkpoints but no result, and its folder with ``data`` and ``runs``."""
    folder = tmp_path_factory.mktemp("interrupted")
    words = ["finetune", "sst-2", masked_lm / "checkpoint_last.pt", "--runs", folder / "runs", "--name", "cats"]
    words += ["--data", folder / "data", "--source", glue, "--device", "cpu", *SHORT, "--lr", 5e-3]
    main([*map(str, words)])
    for end in ("result.json", run_folder.DONE):
        (folder / "runs/cats" / end).unlink()
    return words, folder


@pytest.mark.slow
@pytest.mark.parametrize("name, damage", DAMAGED)
def test_damaged_data_is_named_and_the_checkpoints_stay(name, damage, interrupted, command):
    words, folder = interrupted
    path, checkpoints = folder / "data" / name, sorted((folder / "runs/cats/checkpoints").glob("*.pt"))
    intact, before = path.read_bytes(), [checkpoint.read_bytes() for checkpoint in checkpoints]
    DAMAGE[damage](path)
    try:
        output = command(*words)
    finally:
        path.write_bytes(intact)
    assert re.search(f"{re.escape(str(path))} ", output) and "Traceback" not in output and "\n" not in output, output
    assert before and before == [checkpoint.read_bytes() for checkpoint in checkpoints]
