"""Whole processes of fairseq-train: their words a second, memory and options."""

import json
import os
import sys

import pytest

from fairseq_linformer.benchmark import cells, train_process
from fairseq_linformer.benchmark.train_process import Finetuning, Process
from fairseq_linformer.reproduction.cells import records_in

TINY = dict(layers=1, embed_dim=64, heads=4, vocabulary=100)


@pytest.fixture
def logs(monkeypatch):
    """What every process has written."""
    found, run = [], train_process.run

    def run_and_keep(command):
        log, memory = run(command)
        found.append(log)
        return log, memory

    monkeypatch.setattr(train_process, "run", run_and_keep)
    return found


def test_words_a_second_of_a_log():
    """The first does not count; 600 words in 2 seconds, then 100 in 2."""
    lines = [
        '2026 | INFO | train_inner | {"epoch": 1, "wps": "%s", "wpb": "%s"}' % w
        for w in ((10, 10), (300, 600), (50, 100))
    ]
    assert train_process.words_per_second("\n".join(lines)) == 175
    assert train_process.words_per_second("\n".join(lines), warm_up=2) == 50
    with pytest.raises(ValueError, match="1 updates"):
        train_process.words_per_second(lines[0])


def test_options_of_a_process_are_our_models_and_win():
    """The last of two options is the one that fairseq takes; and they are in the name."""
    cell = Process(32, 2, k=8, layers=1, options=("--optimizer", "fused_adam"))
    assert cell.arguments("ours", "data")[-2:] == ["--optimizer", "fused_adam"] and "fused_adam" not in cell.arguments(
        "roberta", "data"
    )
    assert cell.name == "process-cpu-fp32-l1-n32-optimizer-fused-adam" and cell.clock == "wall"


@pytest.mark.slow
def test_processes_of_theirs_and_ours():
    found = Process(32, 2, ("authors", "ours"), 8, 2, **TINY).measure()
    assert (
        all(len(found["words"][name]) == 1 and 1e8 < found["bytes"][name][0] < 4e9 for name in ("authors", "ours"))
        and not found["failed"]
    )


def test_the_memory_of_a_process(tmp_path, monkeypatch):
    """It holds 200 MB until they were seen."""
    seen = tmp_path / "seen"

    def reading(pid, peak_bytes=train_process._peak_bytes):
        found = peak_bytes(pid)
        if found > 2e8:
            seen.touch()
        return found

    monkeypatch.setattr(train_process, "_peak_bytes", reading)
    hold = f"""
import pathlib, time
held = bytearray(200_000_000)
held[::4096] = b"1" * len(held[::4096])
deadline = time.monotonic() + 60
while not pathlib.Path({str(seen)!r}).exists() and time.monotonic() < deadline:
    time.sleep(0.01)
"""
    assert train_process.run([sys.executable, "-c", hold])[1] == pytest.approx(2.1e8, rel=0.1)


def test_a_failure_is_reported_with_its_last_line():
    with pytest.raises(ValueError, match="ended with 1: .*ZeroDivisionError"):
        train_process.run([sys.executable, "-c", "1 / 0"])


@pytest.mark.parametrize("word", ["--memory-efficient-fp16", "--max-tokens=4"])
def test_an_option_that_the_cell_determines_is_refused(word):
    with pytest.raises(ValueError, match=word.split("=")[0]):
        Process(32, 2, k=8, options=(word,))


def test_fairseq_trains_in_fp16_on_a_gpu_only_and_on_one():
    with pytest.raises(ValueError, match="fp16"):
        Process(32, 2, k=8, dtype="fp16")
    words = Process(32, 2, k=8, dtype="fp16", device="cuda").arguments("ours", "data")
    assert words[words.index("--distributed-world-size") + 1] == "1" and "--fp16" in words and "--cpu" not in words


def test_a_process_without_room_on_the_gpu_fails_and_the_others_are_measured(monkeypatch):
    log = 3 * '2026 | INFO | train_inner | {"epoch": 1, "wps": "50", "wpb": "100"}\n'

    def trained(command, run=train_process.run):
        if "linformer_roberta_base" in command:
            return log, 10**8
        return run(
            [sys.executable, "-c", "print('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate'); exit(1)"]
        )

    monkeypatch.setattr(train_process, "run", trained)
    found = Process(32, 2, ("ours", "roberta"), 8, rounds=2, vocabulary=100).measure()
    assert (
        found["failed"] == {"roberta": "out of memory"}
        and found["words"] == {"ours": [50.0, 50.0]}
        and list(found["bytes"]) == ["ours"]
    )


@pytest.mark.slow
def test_processes_on_a_task_in_half_precision(pieces, tmp_path, logs):
    """Real sentences: the ledger has a description of them, and not where they lie. fairseq's own command takes --bf16
    for a TPU."""
    cell = Finetuning(16, 2, ("ours",), 4, 2, rounds=1, **TINY, dtype="bf16", data="cats and dogs", folder=str(pieces))
    cells.measure([cell], tmp_path / "out", cells.Provenance("abc", "command"))
    (entry,) = records_in(tmp_path / "out")
    assert (
        entry.data == "cats and dogs"
        and entry.find("tokens_per_second", n=16, model="ours").value > 0
        and str(pieces) not in json.dumps(entry.configuration)
    )
    assert len(logs) == 1 and "'bf16': True" in logs[0] and "'tpu': False" in logs[0]


def test_a_process_ends_with_who_started_it(tmp_path, monkeypatch):
    """A signal in the middle must leave none behind that trains on."""
    started = []

    def ended(pid):
        started.append(pid)
        raise SystemExit(143)

    monkeypatch.setattr(train_process, "_peak_bytes", ended)
    with pytest.raises(SystemExit):
        train_process.run([sys.executable, "-c", "import time; time.sleep(600)"])
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
