"""Options and data that ``finetune`` rejects."""

import json
import re
import shutil

from fairseq_linformer.finetuning import data
from fairseq_linformer.finetuning.initial_checkpoint import open_checkpoint


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
