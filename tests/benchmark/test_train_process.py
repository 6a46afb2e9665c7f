"""Whole fairseq-train processes: words per second, memory and options."""

import json
import os
import sys

import pytest

from fairseq_linformer.benchmark import cells, train_process
from fairseq_linformer.benchmark.train_process import FinetuningCell, ProcessCell
from fairseq_linformer.reproduction.cells import read_all, rows_of

TINY = dict(layers=1, embed_dim=64, heads=4, vocabulary=100)


def test_words_per_second_of_a_log():
    """The first update does not count; then 600 words in 2 seconds and 100 in 2."""
    lines = [
        '2026 | INFO | train_inner | {{"epoch": 1, "wps": "{}", "wpb": "{}"}}'.format(*w)
        for w in ((10, 10), (300, 600), (50, 100))
    ]
    assert train_process.words_per_second("\n".join(lines)) == 175
    assert train_process.words_per_second("\n".join(lines), warm_up=2) == 50
    with pytest.raises(ValueError, match="updates, got 1"):
        train_process.words_per_second(lines[0])


def test_options_apply_to_our_model_and_override():
    """fairseq uses the last of two equal options. Options are part of the cell's name."""
    cell = ProcessCell(32, 2, k=8, layers=1, options=("--optimizer", "fused_adam"))
    assert cell.arguments("ours", "data")[-2:] == ["--optimizer", "fused_adam"] and "fused_adam" not in cell.arguments(
        "roberta", "data"
    )
    assert cell.name == "process-cpu-fp32-l1-n32-optimizer-fused-adam" and cell.clock == "wall"


@pytest.mark.slow
def test_processes_of_both_plugins():
    found = ProcessCell(32, 2, ("authors", "ours"), 8, 2, **TINY).measure()
    assert (
        all(len(found["words"][name]) == 1 and 1e8 < found["bytes"][name][0] < 4e9 for name in ("authors", "ours"))
        and not found["failed"]
    )


def test_peak_memory_of_a_process(tmp_path, monkeypatch):
    """The process holds 200 MB until they are measured."""
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
    assert train_process.run_command([sys.executable, "-c", hold], "ours")[1] == pytest.approx(2.1e8, rel=0.1)


def test_error_has_the_last_line_of_output():
    with pytest.raises(ValueError, match="training ours failed with status 1: .*ZeroDivisionError"):
        train_process.run_command([sys.executable, "-c", "1 / 0"], "ours")


@pytest.mark.parametrize("word", ["--memory-efficient-fp16", "--max-tokens=4"])
def test_reserved_options_are_rejected(word):
    with pytest.raises(ValueError, match=word.split("=")[0]):
        ProcessCell(32, 2, k=8, options=(word,))


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_half_precision_needs_a_gpu_and_one_gpu_is_used(dtype):
    with pytest.raises(ValueError, match=f"dtype must be fp32 on a CPU.*{dtype}"):
        ProcessCell(32, 2, k=8, dtype=dtype)
    words = ProcessCell(32, 2, k=8, dtype=dtype, device="cuda").arguments("ours", "data")
    assert words[words.index("--distributed-world-size") + 1] == "1" and f"--{dtype}" in words and "--cpu" not in words


def test_process_out_of_gpu_memory_does_not_stop_the_others(monkeypatch):
    log = 3 * '2026 | INFO | train_inner | {"epoch": 1, "wps": "50", "wpb": "100"}\n'

    def trained(command, name, run=train_process.run_command):
        if "linformer_roberta_base" in command:
            return log, 10**8
        failing = "print('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate'); exit(1)"
        return run([sys.executable, "-c", failing], name)

    monkeypatch.setattr(train_process, "run_command", trained)
    found = ProcessCell(32, 2, ("ours", "roberta"), 8, rounds=2, vocabulary=100).measure()
    assert (
        found["failed"] == {"roberta": "out of memory"}
        and found["words"] == {"ours": [50.0, 50.0]}
        and list(found["bytes"]) == ["ours"]
    )


@pytest.mark.slow
def test_finetuning_processes(pieces, tmp_path):
    """A cell describes the data without their path."""
    cell = FinetuningCell(16, 2, ("ours",), 4, 2, rounds=1, **TINY, data="cats and dogs", folder=str(pieces))
    cells.measure_cells([cell], tmp_path / "out", cells.Provenance("abc", "command"))
    (measured,) = read_all(tmp_path / "out")
    assert measured["configuration"]["data"] == "cats and dogs" and str(pieces) not in json.dumps(measured)
    assert rows_of([measured]).find("tokens_per_second", n=16, model="ours").value > 0


def test_process_is_killed_if_this_process_ends(tmp_path, monkeypatch):
    """A signal must not leave a training process behind."""
    started = []

    def ended(pid):
        started.append(pid)
        raise SystemExit(143)

    monkeypatch.setattr(train_process, "_peak_bytes", ended)
    with pytest.raises(SystemExit):
        train_process.run_command([sys.executable, "-c", "import time; time.sleep(600)"], "ours")
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
