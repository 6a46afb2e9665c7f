"""Whole fairseq-train processes: tokens per second, memory and options."""

import itertools
import os
import sys

import pytest

from fairseq_linformer.benchmark import processes as module
from fairseq_linformer.benchmark.measure import Setup, make_cases
from fairseq_linformer.benchmark.processes import processes, run_training, tokens_per_second, training_options
from fairseq_linformer.benchmark.rows import Case
from fairseq_linformer.reproduction.result import Rows

SETUP = Setup(layers=1, embed_dim=64, rounds=1)
LINE = '2026 | INFO | train_inner | {{"epoch": 1, "wps": "{}", "wpb": "{}"}}'


@pytest.fixture
def python(monkeypatch):
    """Runs a program in the place of fairseq-train."""
    start = module.subprocess.Popen

    def run(program: str):
        replaced = lambda command, **options: start([sys.executable, "-c", program], **options)
        monkeypatch.setattr(module.subprocess, "Popen", replaced)
        return run_training([], "ours")

    return run


def test_tokens_per_second_of_a_log():
    """The first update does not count; then 600 tokens in 2 seconds and 100 in 2."""
    log = "\n".join(LINE.format(*numbers) for numbers in ((10, 10), (300, 600), (50, 100)))
    assert tokens_per_second(log, warm_up=1) == 175 and tokens_per_second(log, warm_up=2) == 50


def test_options():
    words = training_options(Case("ours", 32, 8, 4), 2, 6, SETUP, classes=2)
    options = dict(itertools.pairwise(words))
    assert options["--projected-dim"] == "8" and options["--local-window"] == "4" and "--cpu" in words
    assert options["--encoder-attention-heads"] == "1"
    gpu = training_options(Case("authors", 32, 8), 2, 6, Setup("cuda", "fp16"), classes=3)
    options = dict(itertools.pairwise(gpu))
    assert "--fp16" in gpu and "--cpu" not in gpu and options["--distributed-world-size"] == "1"  # not all GPUs
    assert options["--compressed"] == "4" and options["--num-classes"] == "3"
    with pytest.raises(ValueError, match="projected_dim must divide n"):
        training_options(Case("authors", 32, 5), 2, 6, SETUP, classes=2)


@pytest.mark.nightly
def test_processes_of_both_plugins(pieces):
    """Each model trains in its own process, because two have the same name."""
    cases = make_cases(("ours", "authors"), 32, (8,))
    rows = Rows(processes(cases, 2, SETUP, str(pieces), updates=2))
    for name in ("ours", "authors"):
        assert rows.find("tokens_per_second", model=name, n=32, k=8).value > 0
        assert 100 < rows.find("host_memory", model=name).value < 4000
    assert rows.find("speed_ratio", model="ours", baseline="authors").value > 0 and not rows.select("failed")


def test_peak_memory_of_a_process(python):
    """It holds 200 MB for a moment."""
    hold = """
import time
held = bytearray(200_000_000)
held[::4096] = b"1" * len(held[::4096])
time.sleep(0.5)
"""
    assert python(hold)[1] == pytest.approx(2.1e8, rel=0.1)


def test_error_has_the_last_line_of_output(python):
    with pytest.raises(ValueError, match="training ours failed with status 1: .*ZeroDivisionError"):
        python("1 / 0")


def test_process_out_of_gpu_memory_does_not_stop_the_others(monkeypatch, python, pieces):
    def train(arguments, name):
        if name == "ours":
            return "\n".join([LINE.format(50, 100)] * 4), 2**20
        return python("print('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate'); exit(1)")

    monkeypatch.setattr(module, "run_training", train)
    rows = Rows(processes(make_cases(("ours", "roberta"), 32, (8,)), 2, SETUP, str(pieces), updates=4))
    assert [row.model for row in rows.select("failed")] == ["roberta"]
    assert rows.find("tokens_per_second").value == 50 and rows.find("host_memory").value == 1


def test_process_is_killed_if_this_process_ends(monkeypatch, python):
    """A signal must not leave a training process behind."""
    started = []

    def end(field, pid):
        started.append(pid)
        raise SystemExit(143)

    monkeypatch.setattr(module, "process_bytes", end)
    with pytest.raises(SystemExit):
        python("import time; time.sleep(600)")
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
