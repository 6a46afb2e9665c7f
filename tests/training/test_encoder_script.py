"""scripts/encoder.sh: from an encoder to a folder that transformers opens, stopped by its budget and resumed."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import transformers

from ..checkpoints.encoders import save_encoder
from ..data import task_files as files

ROOT = Path(__file__).parents[2]
LICENSE = "---\nlicense: apache-2.0\n---\n"


def run(out, cwd, status=0, **options):
    """The script in an active environment; returns what it printed."""
    bin_folder = Path(sys.executable).parent
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    environment |= {"VIRTUAL_ENV": str(bin_folder.parent), "PATH": path, "OMP_NUM_THREADS": "1"}
    environment |= {name: str(value) for name, value in options.items()}
    command = [ROOT / "scripts" / "encoder.sh", out]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.nightly
def test_from_an_encoder_to_an_export(tmp_path):
    encoder = save_encoder(tmp_path / "tiny-bert", "bert", False)
    (encoder / "README.md").write_text(LICENSE)
    words = "the lowest tide was new newer slowly and told".split()
    lines = (" ".join(random.Random(i).choices(words, k=22)) for i in range(3000))
    (tmp_path / "text.txt").write_text("\n\n".join(lines))
    options = {
        "ENCODER": encoder.name,  # relative to the current folder
        "TEXT": "text.txt",
        "SOURCE": files.write_tsv("sst-2", tmp_path / "SST-2"),
        "MAX_POSITIONS": 32,
        "PROJECTED_DIM": 8,
        "LOCAL_WINDOW": 4,
        "UPDATES": 4,
    }
    out = tmp_path / "out"
    assert "not a folder" in run(out, tmp_path, status=1, **{**options, "ENCODER": "./another"})
    wide = {**options, "MAX_POSITIONS": 16, "PROJECTED_DIM": 32}
    assert "projected_dim must be" in run(out, tmp_path, status=1, **wide)
    assert "nowhere" in run(out, tmp_path, status=1, **{**options, "SOURCE": "nowhere"}) and not (out / "text").exists()
    assert "must be at most the" in run(out, tmp_path, status=1, **{**options, "MAX_POSITIONS": 9999})
    assert "--lr must be above 0" in run(out, tmp_path, status=1, LR=0, **options) and not (out / "text").exists()
    assert "nowhere.txt" in run(out, tmp_path, status=1, **{**options, "TEXT": "nowhere.txt"})
    assert "pipeline" in run(out, tmp_path, **options)
    assert "ENCODER must be" in run(out, tmp_path, status=1, **{**options, "ENCODER": "another"})
    assert "TEXT must be text.txt in" in run(out, tmp_path, status=1, **{**options, "TEXT": "another"})
    assert "sizes must be --max-positions 32" in run(out, tmp_path, status=1, **{**options, "PROJECTED_DIM": 4})
    classify = transformers.pipeline("text-classification", str(out / "export-sst-2"), trust_remote_code=True)
    assert classify("a new tide")[0]["label"] in ("negative", "positive")
    card = (out / "export-sst-2" / "README.md").read_text()
    assert card.startswith("---\n") and "license: apache-2.0" in card
    for row in (
        "The weights come from tiny-bert (SHA-256",
        "explained variance of the Transformer's last layer",
        "sst-2 valid, accuracy | ",
    ):
        assert row in card
