"""``scripts/gpu_check.sh`` at tiny sizes on a CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fairseq_linformer.benchmark import gpu_check

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "gpu_check.sh"


def run(*words) -> subprocess.CompletedProcess:
    environment = {**os.environ, "NO_WHEELS": "1", "WORDS": "1200", "PYTHON": sys.executable}
    return subprocess.run([SCRIPT, *words], capture_output=True, text=True, env=environment)


@pytest.mark.nightly
def test_all_steps_run_and_only_missing_ones_again(tmp_path):
    prepared = run(tmp_path, "--prepare")
    assert prepared.returncode == 0, prepared.stderr
    done = run(tmp_path, "--smoke")
    assert done.returncode == 0, done.stdout + done.stderr
    results = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert len(results) == 11 and all(result["ok"] and result["versions"]["torch"] for result in results.values())
    assert len(results["variants"]["rows"]) == 40
    assert all(ratio > 0 for ratio in results["n64"]["ratios"].values()) and len(results["n64"]["ratios"]) == 4
    assert results["fp16"]["loss"] != results["resume"]["loss"]
    table = (tmp_path / "table.md").read_text()
    assert table.count("| ok |") == 11 and "FAILED" not in table and table in done.stdout

    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    (tmp_path / "n32.json").unlink()
    assert run(tmp_path, "--smoke").returncode == 0
    changed = {path.name for path, time in before.items() if path.stat().st_mtime_ns != time}
    assert changed == {"n32.json"}


@pytest.mark.slow
def test_a_wrong_variant_and_a_failing_program_are_reported(monkeypatch, tmp_path, capsys):
    """The next steps run, and the exit status is 1."""
    monkeypatch.setattr(gpu_check, "SHARING", ("headwise",))
    monkeypatch.setattr(gpu_check, "PROJECTIONS", ("linear",))
    monkeypatch.setattr(gpu_check, "BOUNDS", dict.fromkeys(gpu_check.BOUNDS, 1e-12))
    failing = {"program": lambda: gpu_check.run_program(["sh", "-c", "echo reason; exit 3"])}
    monkeypatch.setattr(gpu_check, "program_steps", lambda sizes, out: failing)
    assert gpu_check.main([str(tmp_path), "--smoke"]) == 1
    results = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert not results["variants"]["ok"] and results["n32"]["ok"]
    assert (results["program"]["status"], results["program"]["log"]) == (3, "reason\n")
    assert capsys.readouterr().out.count("| FAILED |") == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_without_a_gpu(tmp_path, capsys):
    with pytest.raises(SystemExit):
        gpu_check.main([str(tmp_path)])
    assert "PyTorch finds no GPU; --smoke" in capsys.readouterr().err


def test_nan_in_one_variant_is_an_error(monkeypatch):
    check_variant = gpu_check.check_variant

    def fail_with_window(sizes, config):
        row = check_variant(sizes, config)
        return {**row, "bf16": float("nan")} if config.local_window else row

    monkeypatch.setattr(gpu_check, "check_variant", fail_with_window)
    monkeypatch.setattr(gpu_check, "SHARING", ("headwise",))
    monkeypatch.setattr(gpu_check, "PROJECTIONS", ("linear",))
    assert not gpu_check.check_variants(gpu_check.SMOKE)["ok"]


def test_results_of_a_cpu_are_not_those_of_a_gpu(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu_check, "run_step", lambda run: {"ok": True, "seconds": 0.0, "summary": "measured"})
    for device, options in (("cpu", ["--smoke"]), ("cuda", [])):
        assert gpu_check.main([str(tmp_path), *options]) == 0
        assert json.loads((tmp_path / "variants.json").read_text())["device"] == device
