"""Exported folders are evaluated without fairseq."""

import subprocess
import sys
from pathlib import Path

import pytest

BLOCKED = """
import sys
sys.modules["fairseq"] = sys.modules["omegaconf"] = None  # an import of either raises ModuleNotFoundError
from fairseq_linformer.cli import main
main(sys.argv[1:])
"""


def run(*words):
    words = [sys.executable, "-c", BLOCKED, *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2])


@pytest.mark.slow
def test_exported_folders(classifier_folder, finetuned, table, tmp_path):
    found = run("evaluate", classifier_folder, table, "--predictions", tmp_path / "rows.jsonl")
    assert found.returncode == 0, found.stderr
    assert "labeled rows" in found.stdout and (tmp_path / "rows.jsonl").is_file()
    # The same process cannot read a fairseq checkpoint.
    assert "needs fairseq, which is not installed" in run("evaluate", finetuned, table).stderr
