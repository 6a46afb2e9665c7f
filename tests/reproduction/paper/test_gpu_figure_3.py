"""scripts/gpu_figure_3.sh: the text is prepared once, and a call that is stopped is resumed by the next."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fairseq_linformer.reproduction.result import read

SCRIPT = Path(__file__).parents[3] / "scripts/gpu_figure_3.sh"


@pytest.mark.nightly
def test_stopped_and_resumed(tmp_path):
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(4, 9))) for _ in range(9000)]
    (tmp_path / "text.txt").write_text("\n\n".join(" ".join(draw.choices(words, k=40)) for _ in range(1500)))

    def run(status=0, **options):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, **options}
        done = subprocess.run(
            [SCRIPT, "out"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    out = tmp_path / "out"
    if not torch.cuda.is_available():
        assert "copy" in run(TEXT="text.txt") and not (out / "runs").exists()
    run(124, TEXT="text.txt", SCALE="smoke", MINUTES="0.2")
    assert "A larger k lowers the validation perplexity." in run(TEXT="nowhere.txt", SCALE="smoke")  # the text is there
    (result,) = read(out / "results/figure_3/smoke.json")
    assert len(result.rows.select("perplexity")) == 4
    attempts = [len(path.read_text().splitlines()) for path in sorted(out.rglob("attempts.jsonl"))]
    assert len(attempts) == 5 and sum(attempts) <= 6  # none was trained twice, and one was resumed
