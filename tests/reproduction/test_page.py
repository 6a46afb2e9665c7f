"""The pages of the results, and that an experiment is one file."""

import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import matplotlib
import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import beyond, load_all, page
from fairseq_linformer.reproduction.verdict import Verdict, decide

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
TOY = '''"""Toys are fun.

Holds if the number is at least 1.
"""
from fairseq_linformer.reproduction.page import Panel, Table
from fairseq_linformer.reproduction.result import Row, join
from fairseq_linformer.reproduction.verdict import Verdict, decide

TITLE, SAYS, PARTS = "Toy", "toys are fun", {"smoke": {"toy": ()}, "cpu": {"toy": ()}}


def run(inputs):
    return inputs.result([Row(metric="fun", value=2.0, unit="1")], "none")


def verdicts(results):
    return [Verdict("fun", "Toys are fun.", [decide(r.value >= 1, f"{r.value}") for r in join(results).select("fun")])]


def tables(results):
    return [Table("Toys", ["fun"], [[str(r.value)] for r in join(results)])]


def chart(results):
    return [Panel("Toys", "x", "fun", {"toy": [[(1, r.value), (2, 3.0)] for r in join(results)]})]
'''


def test_a_new_experiment_is_one_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "toy.py").write_text(TOY)
    monkeypatch.setattr(beyond, "__path__", [*beyond.__path__, str(tmp_path)])
    (tmp_path / "results").mkdir()
    results = ["--results", str(tmp_path / "results")]
    try:
        for scale in ("smoke", "cpu"):
            main(["reproduce", "toy", "--scale", scale, *results])
            assert "holds: Toys are fun." in capsys.readouterr().out
        main(["reproduce", "list"])
        assert re.search(r"^toy +smoke, cpu +toys are fun$", capsys.readouterr().out, re.MULTILINE)
        main(["reproduce", "report", *results])
    finally:
        sys.modules.pop(f"{beyond.__name__}.toy", None)
    row = "| [Toy](toy/README.md) | toys are fun | ✓ fun |"
    assert row in (tmp_path / "results/README.md").read_text()
    own = (tmp_path / "results/toy/README.md").read_text()
    assert "Holds if the number is at least 1." in own and "| fun | Toys are fun. | cpu | ✓ holds | 2.0 |" in own
    assert "reproduce toy --scale cpu" in own and "![Toys](chart.svg)" in own
    assert (tmp_path / "results/toy/chart.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("outcomes, numbers", [("yyyy", "0<br>1<br>2"), ("ynn", "1<br>2"), ("ynnnn", "1<br>2<br>3")])
def test_a_page_has_the_first_numbers_that_decide(outcomes, numbers, tmp_path):
    toy = ModuleType("toy", "Toys are fun.")
    checks = [decide(outcome == "y", str(i), fails=False) for i, outcome in enumerate(outcomes)]
    toy.TITLE, toy.SAYS, toy.PARTS, toy.tables = "Toy", "toys are fun", {"cpu": {}}, lambda results: []
    toy.verdicts = lambda results: [Verdict("fun", "Toys are fun.", checks)]
    (tmp_path / "toy").mkdir()
    shutil.copy(RESULTS / "theorem_2/cpu.json", tmp_path / "toy/cpu.json")
    assert f" | {numbers} |\n" in page.build(tmp_path, {"toy": toy})[tmp_path / "toy/README.md"]


def test_committed_pages_are_of_these_results():
    """Charts are compared where they were drawn by the same version of matplotlib."""
    texts = page.build(RESULTS, load_all())
    for path, text in texts.items():
        committed = path.read_text(encoding="utf-8")
        if path.suffix == ".md" or f"Matplotlib v{matplotlib.__version__}" in committed:
            assert committed == text, f"{path} is stale; run `fairseq-linformer reproduce report`"
    assert {p for p in RESULTS.rglob("*") if p.suffix in (".md", ".svg")} == set(texts)


def test_no_cell_is_a_paragraph():
    lines = (RESULTS / "README.md").read_text().splitlines()
    assert max(len(cell) for line in lines for cell in line.split("|")) < 120


def test_every_result_has_its_circumstances():
    for path in RESULTS.glob("*/*.json"):
        for result in page.read(path):
            assert result.scale == path.stem and result.rows and all(result.environment.values()), (path, result.part)
            assert re.fullmatch(r"[0-9a-f]{40}(; [0-9a-f]{40})*", result.environment["commit"]), (path, result.part)


@pytest.mark.parametrize("name", load_all())
def test_without_results_every_claim_is_unmeasured(name):
    module = load_all()[name]
    verdicts = module.verdicts([])
    assert verdicts and all(verdict.outcome == "not measured" for verdict in verdicts)
    assert module.__doc__ and module.TITLE and len(module.SAYS) < 100
