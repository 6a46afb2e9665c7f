"""Time limit, signals and failures of a worker on this machine."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from fairseq_linformer.signals import hangup_signals
from fairseq_linformer.training import local, run_folder
from fairseq_linformer.training.job import TrainingJob
from fairseq_linformer.training.progress import TrainingProgress

from ..damaged_data import DAMAGE
from ..fairseq_commands import load
from ..forked_worker import forked_workers
from .jobs import overrides

STAND_IN = """
import signal, sys, time
started = False

def stop(number, frame):
    print("stopped after the start" if started else "stopped before the start", flush=True)
    sys.exit(0 if started else 3)

signal.signal(signal.SIGTERM, stop)
print("importing", flush=True)
time.sleep(0.2)  # a signal would come too early
started = True
print("Start iterating over samples", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def worker():
    """Start a program in place of a worker."""
    return lambda script: subprocess.Popen([sys.executable, "-S", "-c", script], stdout=subprocess.PIPE, text=True)


def test_time_limit_stops_a_worker_after_its_first_update(worker, tmp_path):
    assert local.follow(worker(STAND_IN), tmp_path / "log", TrainingProgress("run", 9), 0.0) is None
    assert (tmp_path / "log").read_text().splitlines()[-1] == "stopped after the start"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, *hangup_signals()])
def test_signal_is_forwarded_and_the_worker_awaited(number, worker, tmp_path):
    process, log = worker(STAND_IN), tmp_path / "log"
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    def interrupt():
        while not log.exists() or "Start" not in log.read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        local.follow(process, log, TrainingProgress("run", 9), None)
    assert process.poll() == 0 and "stopped after the start" in log.read_text()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers


def test_worker_is_stopped_if_its_log_cannot_be_opened(worker, tmp_path):
    process = worker("import time; time.sleep(600)")
    with pytest.raises(IsADirectoryError):
        local.follow(process, tmp_path, TrainingProgress("run", 9), None)
    assert process.poll() == -signal.SIGTERM


def test_failure_message_is_the_workers_or_its_last_line(worker, tmp_path, capsys):
    valid = '2026 | INFO | valid | {"epoch": 1, "valid_loss": "7.25", "valid_wps": "9"}'
    failed = "2026 | ERROR | worker | rank 0 of 1 on here failed: OSError: no space"
    named, killed = (worker(f"print({output!r}); raise SystemExit(9)") for output in (f"{valid}\n{failed}", "Killed\n"))
    assert local.follow(named, tmp_path / "log", TrainingProgress("run", 9), None) == "OSError: no space"
    assert "epoch 1, valid: loss 7.25\n" in capsys.readouterr().err
    assert local.follow(killed, tmp_path / "log", TrainingProgress("run", 9), None) == "status 9: Killed"
    assert (tmp_path / "log").read_text() == f"{valid}\n{failed}\nKilled\n\n"


def test_a_worker_that_was_stopped_without_a_time_limit_interrupts_the_command(worker, tmp_path, monkeypatch):
    """Its ``STOPPED`` would otherwise read as the end of the time limit, and the command would report no error."""
    (tmp_path / run_folder.LOGS).mkdir()
    training = SimpleNamespace(folder=tmp_path, name="run")
    monkeypatch.setattr(run_folder, "create_or_resume", lambda _: [])
    stop = f"open({str(tmp_path / run_folder.STOPPED)!r}, 'w'); print('Start iterating over samples')"
    monkeypatch.setattr(local, "start_worker", lambda _: worker(stop))
    with pytest.raises(KeyboardInterrupt):
        local.train(training, "log.txt", 9)
    assert local.train(training, "log.txt", 9, time.monotonic()) is False
    assert not (tmp_path / run_folder.DONE).exists()
    (tmp_path / run_folder.DONE).touch()
    assert local.train(training, "log.txt", 9) is True  # no worker starts


@pytest.mark.slow
def test_training_stops_at_the_time_limit_and_resumes(mlm_data, tmp_path):
    def training(updates):
        words = tuple(overrides(mlm_data, updates))
        return TrainingJob("configs/pretrain/base.yaml", words, 1, "cpu", str(tmp_path), "run")

    assert local.train(training(1000), "log.txt", 1000, time.monotonic()) is False
    run = tmp_path / "run"
    first = int((run / run_folder.STOPS).read_text())
    assert 1 <= first < 1000 and load(run / "checkpoints")["optimizer_history"][-1]["num_updates"] == first
    assert not (run / run_folder.DONE).exists()
    config = run / run_folder.CONFIG  # shorten the run, so that the test ends
    config.write_text(config.read_text().replace("max_update: 1000", f"max_update: {first + 2}"))
    with forked_workers():
        assert local.train(training(first + 2), "log.txt", first + 2) is True
    assert load(run / "checkpoints")["optimizer_history"][-1]["num_updates"] == first + 2
    assert (run / run_folder.DONE).exists() and len((run / run_folder.ATTEMPTS).read_text().splitlines()) == 2


@pytest.mark.slow
def test_damaged_data_is_named_once_and_the_run_can_resume(mlm_data, tmp_path):
    data, run = tmp_path / "data", tmp_path / "run"
    shutil.copytree(mlm_data, data)
    words = tuple(overrides(data, 2, **{"dataset.num_workers": 0}))
    training = TrainingJob("configs/pretrain/base.yaml", words, 1, "cpu", str(tmp_path), "run")
    with forked_workers():
        assert local.train(training, "log.txt", 2)
        (run / run_folder.DONE).unlink()
        checkpoints = {path: path.read_bytes() for path in (run / "checkpoints").iterdir()}
        intact = (data / "train.bin").read_bytes()
        DAMAGE["truncated"](data / "train.bin")
        with pytest.raises(ValueError, match=r"failed: ValueError: \S*/train.bin .*checkpoint_last"):
            local.train(training, "damaged.txt", 2)
        lines = (run / run_folder.LOGS / "damaged.txt").read_text().splitlines()
        assert len([line for line in lines if "train.bin" in line]) == 1
        assert not any("Traceback" in line for line in lines)
        assert checkpoints == {path: path.read_bytes() for path in (run / "checkpoints").iterdir()}
        (data / "train.bin").write_bytes(intact)
        assert local.train(training, "log.txt", 2)
