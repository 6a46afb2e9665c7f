"""Data that ``finetune`` rejects; ``tests/bad_input`` has its options and checkpoints."""

import json
import shutil


def test_rejects_data_that_does_not_match(finetune, command, masked_lm, pieces, train_checkpoint, tmp_path):
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
    (ready / "manifest.json").write_text('{"task": "sst-2"}')
    other = command("finetune", ready, checkpoint, "--data", tmp_path / "other")
    assert f"--data has no effect on {ready}, which is prepared" in other
    (ready / "manifest.json").unlink()
    (ready / "runs").touch()
    words = (checkpoint, "--dry-run")
    assert "runs is not a folder" in finetune(*words, "--runs", ready / "runs", folder=ready)
    (ready / "label/valid.bin").rename(ready / "valid.bin")
    assert "label/valid.bin does not exist" in finetune(*words, folder=ready)
    (ready / "valid.bin").rename(ready / "label/valid.bin")
    assert "input0/dict.txt must have " in finetune(train_checkpoint() / "checkpoint_last.pt", folder=ready)
