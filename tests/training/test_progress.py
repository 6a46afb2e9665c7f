"""Progress of training, from fairseq's log."""

import json

from fairseq_linformer import progress as progress_module
from fairseq_linformer.training.progress import TrainingProgress


def log_line(split, **stats):
    return f"2026-01-01 00:00:00 | INFO | {split} | {json.dumps({key: str(value) for key, value in stats.items()})}\n"


def test_updates_are_counted_and_validation_is_printed(capsys, monkeypatch):
    monkeypatch.setattr(progress_module, "DELAY", 0.0)
    with TrainingProgress("run", 10) as progress:
        progress.read("2026 | INFO | fairseq.trainer | begin training epoch 1\n")
        progress.read(log_line("train_inner", epoch=1, loss=2.5, wps=1000, num_updates=5))
        progress.read(
            log_line("valid", epoch=2, valid_loss=0.5, valid_accuracy=91.25, valid_wps=9, valid_num_updates=5)
        )
        progress.read('2026 | INFO | valid | {"epoch": 2, "valid_lo')  # truncated by a kill
        progress.read(log_line("train_inner", epoch=2, loss=0.25, wps=1000, num_updates=10))
    shown = capsys.readouterr().err
    assert "run: epoch 2, valid: loss 0.5, accuracy 91.25\n" in shown
    assert "10/10" in shown.splitlines()[-1] and "loss 0.25" in shown
