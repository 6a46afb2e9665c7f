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
        "| roberta |  | 87.5 | 0.500 |",
        "| linformer | 32 | 85.0 ± 1.4 | 0.500 ± 0.000 |",
    ]


def test_latex(tmp_path):
    files = [write(tmp_path, f"k={k},sharing=key_value.json", {"perplexity": 50.0 + k}) for k in (32, 64)]
    assert run(tmp_path, "--latex", *files) == [
        r"\begin{tabular}{lll}",
        r"\toprule",
        r"k & sharing & perplexity \\",
        r"\midrule",
        r"32 & key\_value & 82.00 \\",
        r"64 & key\_value & 114.00 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
