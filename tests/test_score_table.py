"""scripts/score_table.py: means over seeds, Markdown and LaTeX."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "scripts" / "score_table.py"


def write(folder: Path, name: str, content: dict) -> str:
    (folder / name).write_text(json.dumps(content))
    return name


def accuracy(value: float) -> dict:
    return {"checkpoint": "x", "scores": {"accuracy": {"value": value, "interval": [0, 1]}, "f1": {"value": 0.5}}}


def run(folder: Path, *arguments: str) -> list[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.splitlines()


def test_seeds_share_a_row(tmp_path):
    files = [
        write(tmp_path, "roberta,seed=1.json", accuracy(0.875)),
        write(tmp_path, "linformer,k=32,seed=1.json", accuracy(0.84)),
        write(tmp_path, "linformer,k=32,seed=2.json", accuracy(0.86)),
    ]
    assert run(tmp_path, *files) == [
        "| model | k | accuracy | f1 |",
        "|---|---|---|---|",
        "| linformer | 32 | 85.0 ± 1.4 | 0.500 ± 0.000 |",
        "| roberta |  | 87.5 | 0.500 |",
    ]


def test_latex(tmp_path):
    files = [
        write(tmp_path, f"k={k},sharing=key_value.json", {"perplexity": 50.0 + k, "parameters": 1000 * k})
        for k in (64, 8)
    ]
    assert run(tmp_path, "--latex", *files) == [
        r"\begin{tabular}{llll}",
        r"\toprule",
        r"k & sharing & parameters & perplexity \\",
        r"\midrule",
        r"8 & key\_value & 8,000 & 58.00 \\",
        r"64 & key\_value & 64,000 & 114.00 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_pattern_without_files_is_an_error(tmp_path):
    command = [sys.executable, str(SCRIPT), "tables/*.json"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 2 and result.stderr.endswith("error: tables/*.json is not a file\n")
