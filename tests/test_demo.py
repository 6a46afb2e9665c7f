"""scripts/demo.sh with an installed wheel: killed once, resumed to the end, then rerun.

Few updates, after which the demo must say that nothing was learned; with DEMO_UPDATES=1200, as every night, the model
leaves the plateau of one without context.
"""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
UPDATES = os.environ.get("DEMO_UPDATES", "80")
LEARNS = int(UPDATES) >= 1200


def start(folder, bin_folder, empty):
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {
        "VIRTUAL_ENV": str(bin_folder.parent),
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "DEMO_UPDATES": UPDATES,
    }
    return subprocess.Popen(
        [ROOT / "scripts" / "demo.sh", folder],
        cwd=empty,
        env=inherited | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.nightly
def test_demo(tmp_path, wheel_environment, tmp_path_factory):
    run = wheel_environment, tmp_path_factory.mktemp("empty")
    first = start(tmp_path, *run)
    while not (tmp_path / "pretrain" / "checkpoint_last.pt").exists():
        assert first.poll() is None, first.stdout.read()
        time.sleep(0.2)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert not (tmp_path / "done" / "pretrain").exists()

    second = start(tmp_path, *run)
    output, _ = second.communicate(timeout=900)
    assert second.returncode == (0 if LEARNS else 1), output
    assert "corpus: already done" in output and "pretrain: already done" not in output
    assert "Loaded checkpoint" in (tmp_path / "logs" / "pretrain.log").read_text()
    scores = dict(re.findall(r"^\S+ ?\w*, ([a-z ]+?) +([\d.]+)", output, re.MULTILINE))
    pretrained, without, finetuned, majority = (
        float(scores[name]) for name in ("pretrained", "best without context", "finetuned", "most frequent class")
    )
    assert float(scores["untrained"]) > without
    if LEARNS:
        assert 2 < pretrained < 0.95 * without and finetuned > majority + 15
    else:
        assert "nothing was learned from context" in output

    third = start(tmp_path, *run)
    again, _ = third.communicate(timeout=900)
    assert third.returncode == second.returncode
    assert all(f"{step.name}: already done" in again for step in (tmp_path / "done").iterdir())
    assert again.splitlines()[-5:] == output.splitlines()[-5:]
