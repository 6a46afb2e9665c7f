"""scripts/gpu_figure_3.sh: the text is prepared once, processes share the runs, and the next call resumes them."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fairseq_linformer.reproduction.ledger import read

SCRIPT = Path(__file__).parents[2] / "scripts/gpu_figure_3.sh"


@pytest.mark.slow
@pytest.mark.long
def test_stopped_and_resumed(tmp_path):
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(4, 9))) for _ in range(9000)]
    (tmp_path / "text.txt").write_text("\n\n".join(" ".join(draw.choices(words, k=40)) for _ in range(1500)))

    def run(**options):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, **options}
        command = [SCRIPT, "out"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    out = tmp_path / "out"
    if not torch.cuda.is_available():
        assert "copy" in run(TEXT="text.txt") and not (out / "runs").exists()
    assert "11 of 11 runs are left" in run(TEXT="text.txt", SCALE="smoke", MINUTES="0.0001")
    assert "roberta: perplexity" in run(TEXT="nowhere.txt", SCALE="smoke")  # the text is there
    (record,) = (out / "results").glob("*.json")
    assert len(read(record).select("perplexity")) == 10
    attempts = [len(path.read_text().splitlines()) for path in sorted(out.rglob("attempts.jsonl"))]
    assert sorted(attempts) == [*[1] * 10, 2]  # the first run was resumed, and none was trained twice
    logs = [path.read_text() for path in sorted(out.glob("process?.txt"))]
    assert len(logs) == 5 and sum("training starts at update 0" in log for log in logs) > 1
