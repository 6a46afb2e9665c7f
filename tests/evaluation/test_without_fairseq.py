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
@pytest.mark.parametrize("is_onnx", [False, True])
def test_exported_folders(is_onnx, classifier_folder, finetuned, table, tmp_path):
    folder = classifier_folder
    if is_onnx:
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
        from fairseq_linformer.checkpoints.export_onnx import export_onnx

        export_onnx(folder, folder := tmp_path / "onnx")
    found = run("evaluate", folder, table, "--predictions", tmp_path / "rows.jsonl")
    assert found.returncode == 0, found.stderr
    assert "labeled rows" in found.stdout and (tmp_path / "rows.jsonl").is_file()
    # The same process cannot read a fairseq checkpoint.
    assert "needs fairseq, which is not installed" in run("evaluate", finetuned, table).stderr
