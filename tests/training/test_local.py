"""Progress, signals and failures of a worker on this machine."""

import json
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from fairseq_linformer import progress as progress_module
from fairseq_linformer.training import local
from fairseq_linformer.training.job import TrainingJob
from fairseq_linformer.training.run_folder import ATTEMPTS, CONFIG, DONE
from fairseq_linformer.training.signals import hangup_signals

from ..fairseq_commands import load
from ..forked_worker import forked_workers
from .jobs import overrides

STAND_IN = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
os.kill(os.getppid(), {number})
signal.pause()
"""


@pytest.fixture
def train(monkeypatch, tmp_path):
    """``local.train`` with a program in place of a worker."""
    monkeypatch.setattr(local, "write_config", lambda job: None)

    def train(script):
        command = [sys.executable, "-S", "-c", script]
        start = lambda _: subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        monkeypatch.setattr(local, "start_worker", start)
        cfg = SimpleNamespace(optimization=SimpleNamespace(max_update=10))
        local.train(SimpleNamespace(folder=tmp_path, name="run", cfg=cfg))

    return train


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, *hangup_signals()])
def test_signal_is_forwarded_and_the_worker_awaited(number, train):
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(KeyboardInterrupt):
        train(STAND_IN.format(number=int(number)))
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers


def test_signal_during_the_last_update_also_stops_what_follows(train):
    with pytest.raises(KeyboardInterrupt):
        train(STAND_IN.format(number=int(signal.SIGTERM)).replace("exit(75)", "exit(0)"))


def test_signal_before_the_worker_handles_it(train, tmp_path, capsys):
    """A resumed run says so, and a worker that is still starting is not a failure."""
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/checkpoint_last.pt").touch()
    with pytest.raises(KeyboardInterrupt):
        train(f"import os, signal; os.kill(os.getppid(), {int(signal.SIGINT)}); signal.pause()")
    resumed, stopped = capsys.readouterr().err.splitlines()
    assert (
        resumed.startswith("run: resuming from ") and stopped == "run: stopped by a signal; rerun the command to resume"
    )


def log_line(split, **stats):
    return f"2026-01-01 00:00:00 | INFO | {split} | {json.dumps({key: str(value) for key, value in stats.items()})}"


def test_updates_are_counted_and_validation_is_printed(train, capsys, monkeypatch):
    monkeypatch.setattr(progress_module, "DELAY", 0.0)
    lines = [
        "2026 | INFO | fairseq.trainer | begin training epoch 1",
        log_line("train_inner", epoch=1, loss=2.5, wps=1000, num_updates=5),
        log_line("valid", epoch=2, valid_loss=0.5, valid_nll_loss=0.1, valid_accuracy=91.25, valid_num_updates=5),
        '2026 | INFO | valid | {"epoch": 2, "valid_lo',  # truncated by a kill
        log_line("train_inner", epoch=2, loss=0.25, wps=1000, num_updates=10),
    ]
    train(f"print({chr(10).join(lines)!r})")
    shown = capsys.readouterr().err
    assert shown.startswith("run: training; the log is ")
    assert "run: epoch 2, valid: loss 0.5, accuracy 91.25\n" in shown
    assert "10/10" in shown.splitlines()[-1] and "loss 0.25" in shown


def test_failure_message_is_the_last_line(train):
    with pytest.raises(ValueError, match="training run failed: OSError: no space; no checkpoint was saved"):
        train("print('OSError: no space'); raise SystemExit(9)")
    with pytest.raises(ValueError, match="failed: status 9"):
        train("raise SystemExit(9)")
    with pytest.raises(ValueError, match="failed: its process was killed, perhaps for want of memory"):
        train("import os; print('all is well', flush=True); os.kill(os.getpid(), 9)")


@pytest.mark.slow
def test_training_stops_and_resumes(mlm_data, tmp_path):
    """A real worker."""
    run = tmp_path / "run"

    def job(updates):
        words = tuple(overrides(mlm_data, updates, **{"dataset.num_workers": 0}))
        return TrainingJob("configs/pretrain/base.yaml", words, 1, "cpu", str(tmp_path), "run")

    def interrupt():
        while "num_updates" not in (log.read_text() if (log := run / "logs/train.txt").exists() else ""):
            ended.wait(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    ended = threading.Event()
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        local.train(job(1000))
    updates = load(run / "checkpoints")["optimizer_history"][-1]["num_updates"]
    assert 1 <= updates < 1000 and not (run / DONE).exists()
    config = run / CONFIG  # shorten the run, so that the test ends
    config.write_text(config.read_text().replace("max_update: 1000", f"max_update: {updates + 2}"))
    with forked_workers():
        local.train(job(updates + 2))
        (run / DONE).unlink()  # as if it had been killed after its last update
        local.train(job(updates + 2))
    assert load(run / "checkpoints")["optimizer_history"][-1]["num_updates"] == updates + 2
    assert (run / DONE).exists() and len((run / ATTEMPTS).read_text().splitlines()) == 3
