"""scripts/gpu_figure_3.sh: the text is prepared once, and a call that is stopped is resumed by the next."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_linformer.reproduction.result import read

SCRIPT = Path(__file__).parents[2] / "scripts/gpu_figure_3.sh"


@pytest.mark.nightly
def test_stopped_and_resumed(tmp_path):
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(4, 9))) for _ in range(9000)]
    (tmp_path / "text.txt").write_text("\n\n".join(" ".join(draw.choices(words, k=40)) for _ in range(1500)))

    def run(*words, status=0, **options):
        environment = {**os.environ, "PYTHON": sys.executable, **options}
        done = subprocess.run([SCRIPT, "out", *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr

    out = tmp_path / "out"
    run("--prepare", TEXT="text.txt")
    assert not (out / "runs").exists()
    run(status=124, SCALE="smoke", MINUTES="0.2")
    run(SCALE="smoke", MINUTES="100")
    results = read(out / "results/figure_3/smoke.json")
    assert results and all(result.rows.select("bits") for result in results)
    attempts = [len(path.read_text().splitlines()) for path in out.rglob("attempts.jsonl")]
    assert attempts and sum(attempts) <= len(attempts) + 1  # none was trained twice, and one was resumed
