"""Options and data that ``finetune`` rejects."""

import json
import re
import shutil

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.training import data, run_folder
from fairseq_linformer.training.initial_checkpoint import open_initial_checkpoint

from ..damaged_data import DAMAGE
from .conftest import SHORT


def test_rejects_data_that_does_not_match(finetune, masked_lm, pieces, train_checkpoint, tmp_path):
    ready = tmp_path / "ready"
    start = open_initial_checkpoint(masked_lm / "checkpoint_last.pt", tmp_path / "runs")
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
    (ready / "runs").touch()
    words = (masked_lm / "checkpoint_last.pt", "--dry-run")
    assert "runs is not a folder" in finetune(*words, "--runs", ready / "runs", folder=ready)
    intact = (ready / "label/valid.bin").read_bytes()
    (ready / "label/valid.bin").write_bytes(intact[:-1])
    assert "label/valid.bin must have" in finetune(*words, folder=ready)
    (ready / "label/valid.bin").unlink()
    assert "label/valid.bin is missing; run" in finetune(*words, folder=ready)
    (ready / "label/valid.bin").write_bytes(intact)
    assert "input0/dict.txt must have " in finetune(train_checkpoint() / "checkpoint_last.pt", folder=ready)
    lines = (ready / "input0/dict.txt").read_text().splitlines()
    (ready / "input0/dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    assert re.search("input0/dict.txt .*: entry 4", finetune(masked_lm / "checkpoint_last.pt", folder=ready))


def test_rejects_options_for_data_without_a_manifest(finetune, masked_lm, pieces, tmp_path):
    assert re.search("has no manifest.json .*--source", finetune(masked_lm / "checkpoint_last.pt", folder=pieces))


DAMAGED = {
    "input0/train.idx": DAMAGE,
    "input0/train.bin": ["truncated"],
    "input0/dict.txt": ["empty"],
    "label/train.bin": ["truncated"],
    "label/dict.txt": ["empty"],
    "manifest.json": DAMAGE,
}


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
@pytest.mark.parametrize("name, damage", [(name, damage) for name, kinds in DAMAGED.items() for damage in kinds])
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
