"""scripts/demo.sh from beginning to end, killed once on the way, then started a third time."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def start(folder):
    # Fewer updates than the demo's 2,000, and enough to leave the plateau.
    return subprocess.Popen(
        [ROOT / "scripts" / "demo.sh", folder], env={**os.environ, "DEMO_UPDATES": "1500"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".venv").exists(), reason="the demo installs into .venv; scripts/test.sh makes one")
def test_demo(tmp_path):
    first = start(tmp_path)
    deadline = time.time() + 400
    while not (tmp_path / "pretrain" / "checkpoint_last.pt").exists() and time.time() < deadline:
        assert first.poll() is None, first.stdout.read()
        time.sleep(0.5)
    time.sleep(3)  # fairseq copies it into place; a cut copy would be dropped, not loaded
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert not (tmp_path / "done" / "pretrain").exists()

    second = start(tmp_path)
    output, _ = second.communicate(timeout=900)
    assert second.returncode == 0, output
    assert "corpus: done before" in output and "pretrain: done before" not in output
    assert "Loaded checkpoint" in (tmp_path / "logs" / "pretrain.log").read_text()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert 2 < summary["perplexity_after"] < 0.8 * summary["context_free_perplexity"]
    assert summary["perplexity_before"] > summary["unigram_perplexity"]
    assert summary["accuracy_percent"] > summary["majority_percent"] + 15
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"

    third = start(tmp_path)
    began = time.time()
    again, _ = third.communicate(timeout=120)
    assert third.returncode == 0 and "finetune: done before" in again
    assert time.time() - began < 60
    assert again.splitlines()[-5:] == output.splitlines()[-5:]
