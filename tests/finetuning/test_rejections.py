"""Options and data that ``finetune`` rejects."""

import json
import re
import shutil

import pytest

from fairseq_linformer.finetuning import data
from fairseq_linformer.finetuning.initial_checkpoint import open_checkpoint
from fairseq_linformer.launching import run_folder

from ..damaged_data import DAMAGE
from .conftest import SHORT


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


DAMAGED = {
    "input0/train.idx": DAMAGE,
    "input0/valid.bin": DAMAGE,
    "input0/dict.txt": DAMAGE,
    "label/train.bin": DAMAGE,
    "label/dict.txt": DAMAGE,
    "sentencepiece.bpe.model": DAMAGE,
    "manifest.json": ["truncated", "empty", "foreign"],
}


@pytest.mark.slow
@pytest.mark.fault("damaged data: finetune")
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_data_is_named_and_the_run_can_resume(name, finetune, masked_lm, tmp_path):
    """An interrupted run, whose data is then damaged in several ways and restored."""
    words = (masked_lm / "checkpoint_last.pt", *SHORT, "--lr", 5e-3, "--name", "cats")
    finished, run, path = finetune(*words), tmp_path / "runs/cats", tmp_path / "data" / name
    for end in ("result.json", run_folder.DONE):
        (run / end).unlink()
    checkpoints = {path: path.read_bytes() for path in (run / "checkpoints").rglob("*.pt")}
    intact = path.read_bytes()
    for damage in DAMAGED[name]:
        DAMAGE[damage](path)
        output = finetune(*words)
        assert re.search(f"{re.escape(str(path))} ", output) and "Traceback" not in output, (damage, output)
        assert output.count("\n") == 0
        assert checkpoints == {path: path.read_bytes() for path in checkpoints}, damage
    path.write_bytes(intact)
    assert finetune(*words).splitlines()[0] == finished.splitlines()[0]
