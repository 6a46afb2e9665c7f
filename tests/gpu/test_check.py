"""``scripts/gpu_check.sh``: its steps, and a rehearsal on a bare machine, at tiny sizes on a CPU."""

import contextlib
import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from . import bare_machine, check

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_check.sh"


def read_results(folder):
    assert {path.name for path in folder.iterdir()} <= {"results.json", "table.md", "log.txt"}
    return json.loads((folder / "results.json").read_text())


@pytest.mark.nightly
def test_rehearsal_on_a_bare_machine(tmp_path):
    """All steps run, and a rerun repeats none."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    prepared = subprocess.run(
        [SCRIPT, tmp_path / "folder", "--prepare"],
        capture_output=True,
        text=True,
        env={**os.environ, "WORDS": "1200", "TARGET": version, "PYTHON": sys.executable},
    )
    assert prepared.returncode == 0, prepared.stderr
    python = bare_machine.make_environment(tmp_path / "bare")
    imported = bare_machine.run(python, python, "-c", "import torch, sys; print(sys.prefix); import bitarray")
    assert imported.stdout.split() == [str(tmp_path / "bare")] and "No module named 'bitarray'" in imported.stderr
    words = [SCRIPT, tmp_path / "folder", "--results", tmp_path / "results", "--smoke", "--minutes"]
    late = bare_machine.run(python, *words, 0)
    assert late.returncode == 1 and "not run: rerun the command" in late.stdout, late.stderr
    done = bare_machine.run(python, *words, 60)
    results = read_results(tmp_path / "results")
    assert done.returncode == 0 and (tmp_path / "results" / "table.md").read_text() in done.stdout, done.stderr
    assert len(results) == 4 + 2 + 8 and results["fp16"]["loss"] != results["resume"]["loss"]
    assert bare_machine.run(python, *words, 60).returncode == 0 and read_results(tmp_path / "results") == results


def test_a_step_that_fails_and_one_that_hangs(tmp_path):
    """The process that hangs is stopped with its children."""
    failed = check.run_step(check.Step(["sh", "-c", "echo reason; exit 3"]), 60)
    assert (failed["ok"], failed["summary"], failed["log"]) == (False, "status 3: reason", "reason\n")
    pid = tmp_path / "pid"
    hung = check.run_step(check.Step(["sh", "-c", f"echo begins; sleep 1000 & echo $! > {pid}; wait"]), 1)
    assert (hung["ok"], hung["summary"]) == (False, "stopped after 1 s: begins")
    with contextlib.suppress(ProcessLookupError):  # it has ended, and is gone
        child = os.pidfd_open(int(pid.read_text()))
        assert select.select([child], [], [], 60)[0], "the child has not ended"
        os.close(child)


@pytest.mark.parametrize(
    "log, must_log, reason, summary",
    [
        ('RESULT {"ok": true, "summary": "4 ms"}', "", "", "4 ms"),
        ('RESULT {"ok": false, "summary": "4 ms"}\na warning at the end', "", "", "4 ms"),
        ("a warning", "", "", "no loss: a warning"),
        ('"loss": "2.5"\n"wps": "10"\n"wps": "30"', "", "", "loss 2.5, 30 tokens/s"),
        ('"loss": "nan"\n"loss": "2.5"', "", "", 'loss nan: "loss": "2.5"'),
        ("done", "Loaded checkpoint", "", "the output lacks 'Loaded checkpoint': done"),
        ("Traceback\nValueError: k", "", "status 1", "status 1: ValueError: k"),
    ],
)
def test_what_a_log_says(log, must_log, reason, summary):
    result = check.read_log(log, must_log, reason)
    is_ok = '"ok": true' in log or summary == "loss 2.5, 30 tokens/s"
    assert result["summary"] == summary and result["ok"] == is_ok


def test_results_are_written_after_each_step(tmp_path):
    results = check.Results(tmp_path, ["a", "b"], "cuda")
    results.add("a", {"ok": True, "summary": "x | y", "seconds": 2.0, "log": "text"})
    assert (tmp_path / "table.md").read_text().splitlines()[2:] == [
        "| a | ok | 2 | x \\| y |",
        "| b | FAILED | 0 | not run: rerun the command |",
    ]
    assert (tmp_path / "log.txt").read_text() == "==== a\ntext\n"
    again = check.Results(tmp_path, ["a", "b"], "cuda")
    assert again.is_ok("a") and not again.is_ok("b")
    assert not check.Results(tmp_path, ["a", "b"], "cpu").is_ok("a")  # a GPU's results are not those of --smoke


def variant():
    return next(config for name, config in check.variants(check.SMOKE).items() if name.endswith("W=16"))


@pytest.mark.slow
def test_a_variant_is_compared(monkeypatch):
    result = check.check_variant(check.SMOKE, variant())
    assert result["ok"], result["summary"]
    assert len(result["errors"]) == 2 * 3 * 3

    monkeypatch.setattr(check, "BOUNDS", {"fp32": 1e-12, "bf16": 1e-12})
    assert not check.check_variant(check.SMOKE, variant())["ok"]


def test_gradients_that_drop_other_weights_are_found(monkeypatch):
    torch.manual_seed(0)
    encoder = check.LinformerEncoder(variant()).double()
    tokens, weights = torch.randint(5, 100, (2, 40)), torch.randn(2, 40, encoder.config.embed_dim)
    assert check.dropout_error(encoder, tokens, weights) < 0.005
    native_dropout = torch.native_dropout

    def drop_others(x, p, train):
        dropped, mask = native_dropout(x, p, train)
        return dropped, mask.flip(-2)

    monkeypatch.setattr(torch, "native_dropout", drop_others)
    assert check.dropout_error(encoder, tokens, weights) > 0.2
