"""Progress of training: numbers from fairseq's log, a line every 30 seconds."""

import json
import sys

import pytest

from fairseq_linformer.training.progress import TrainingProgress


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lines(capsys):
    """The lines printed since the last call."""
    return lambda: capsys.readouterr().err.splitlines()


def log_line(split, **stats):
    return f"2026-01-01 00:00:00 | INFO | {split} | {json.dumps({key: str(value) for key, value in stats.items()})}\n"


def inner(update, loss=2.5, wps=1000, ups=0.5):
    return log_line("train_inner", epoch=1, loss=loss, wps=wps, ups=ups, num_updates=update)


def wait(progress, clock, seconds):
    """Do the work of the reporting thread, without waiting."""
    for _ in range(seconds):
        clock.now += 1
        progress.report()


def test_line_every_30_seconds_even_if_fairseq_logs_nothing(clock, lines):
    progress = TrainingProgress("sst-2", 200, clock)
    wait(progress, clock, 61)
    assert lines() == [f"sst-2: no update logged yet, 0:0{i}:{s} after the start" for i, s in ((0, 30), (1, "00"))]
    progress.read(inner(10))  # half an update per second, by fairseq's count
    wait(progress, clock, 29)
    assert lines() == ["sst-2: update 10/200 (5 %), loss 2.5, 1,000 tokens/s, ETA 0:05:51"]
    progress.read("2026 | INFO | fairseq.trainer | begin training epoch 1\n")
    progress.read(inner(68, loss=0.75, wps=20300))  # 58 updates in 29 s
    wait(progress, clock, 30)
    assert lines() == ["sst-2: update 68/200 (34 %), loss 0.75, 20,300 tokens/s, ETA 0:00:36"]
    wait(progress, clock, 90)
    assert [line.rpartition(", ")[2] for line in lines()] == ["ETA 0:00:06", "ETA 0:00:00", "ETA 0:00:00"]


def test_resumed_run_reports_the_rate_of_this_attempt(clock, lines):
    progress = TrainingProgress("run", 1000, clock)
    progress.read(inner(900, ups=0.001))
    clock.now += 10
    progress.read(log_line("train", epoch=9, train_loss=3, train_wps=64, train_num_updates=910))
    clock.now += 20
    progress.report()
    assert lines() == ["run: update 910/1,000 (91 %), loss 3, 64 tokens/s, ETA 0:01:10"]


def test_validation_is_announced_immediately(clock, lines):
    progress = TrainingProgress("run", 10, clock)
    progress.read(log_line("valid", epoch=2, valid_loss=0.5, valid_accuracy=91.25, valid_wps=9, valid_num_updates=4))
    progress.read('2026 | INFO | valid | {"epoch": 2, "valid_lo')  # truncated by a kill
    assert lines() == ["run: epoch 2, valid: loss 0.5, accuracy 91.25"]


def test_summary_is_printed_unless_training_failed(clock, lines):
    with TrainingProgress("run", 10, clock) as progress:
        progress.read(inner(10))
    assert lines() == ["run: update 10/10 (100 %), loss 2.5, 1,000 tokens/s"]
    with pytest.raises(OSError), TrainingProgress("run", 10, clock):
        raise OSError
    assert lines() == []


def test_terminal_shows_one_line(clock, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    progress = TrainingProgress("run", 10, clock)
    progress.read(inner(5))
    wait(progress, clock, 3)
    shown = capsys.readouterr().err
    assert shown.count("\r") == 3 and "\n" not in shown and shown.endswith("ETA 0:00:07\033[K")
    progress.announce("epoch 1")
    assert capsys.readouterr().err == "\repoch 1\033[K\n"
