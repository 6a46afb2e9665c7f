"""The report on spectra and theorems: entries that the ledger takes, and every table filled."""

import shutil
import sys

import numpy as np
import pytest

from fairseq_linformer.analysis.result import Spectrum
from fairseq_linformer.analysis.theorems import random_groups, run
from fairseq_linformer.reproduce import analysis, ledger


def folders(out):
    """As scripts/analysis.sh leaves them, of made-up spectra and tiny theorems."""
    for i, name in enumerate({**analysis.ROBERTA, **analysis.LINFORMER}):
        curve = np.cumsum(np.full((2, 4, 8), 1 / 8), -1) ** (1 / (i + 1))
        matrices = {"layers.0.E": np.array([2.0, 1.0, 0.5])} if "linformer" in name else {}
        facts = {"model": "model.pt", "n": 8, "index": 2, "sentences": 3, "texts": {"texts": 3}, "short_sentences": "skipped", "matrix_columns": 8,
                 "float64_checked_sentences": 1, "float64_difference": 1e-7, "seconds": 2.0}  # fmt: skip
        spectrum = Spectrum(curve, 0 * curve, curve, np.full((3, 2, 4), 8.0), matrices, facts)
        (out / f"spectrum-{name}").mkdir()
        spectrum.write(out / f"spectrum-{name}")
        (out / f"spectrum-{name}.commit").write_text("abc\n")
    for k, perplexity in ((256, 30.5), (64, 99.25)):
        (out / f"linformer-{k}").mkdir()
        (out / f"linformer-{k}" / "commit").write_text("ghi\n")
        (out / f"linformer-{k}" / "train.log").write_text(f'{{"valid_ppl": "200.1"}}\n{{"valid_ppl": "{perplexity}"}}\n')
    run(random_groups([16, 128], 4, 1), out / "theorems-random", 2, 0.5, 1, {"heads": "random"})
    for name in analysis.THEOREMS:
        if name != "random":
            shutil.copytree(out / "theorems-random", out / f"theorems-{name}")
        (out / f"theorems-{name}.commit").write_text("def\n")


@pytest.mark.slow
def test_report(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    folders(tmp_path / "out")
    results = tmp_path / "results"
    results.mkdir()
    monkeypatch.setattr(sys, "argv", ["analysis", str(tmp_path / "out"), "--data", "made up", "--results", str(results)])
    analysis.main()
    entry = ledger.read(results / "spectrum-roberta.json")
    first = entry.measured["RoBERTa, n = 64, Wikipedia, layer 1: cumulative at 2 of 8"]
    assert (first.value, first.spread, first.repetitions) == (0.25, [0.25, 0.25], 4) and entry.commit == "abc" and entry.seconds == 8
    assert ledger.read(results / "spectrum-linformer.json").measured["Linformer, n = 512, k = 64, Wikipedia, layers.0.E: rank"].value == 3
    assert {"random, n = 128, k = 128, eps = 0.5: bound"} <= ledger.read(results / "theorem-1.json").measured.keys()
    for name in ("theorem-2", "optimal-rank-k"):
        assert ledger.read(results / f"{name}.json").commit == "def; ghi"
    text = (results / "spectrum.md").read_text()
    assert "Linformer, n = 512, k = 64, Wikipedia: validation perplexity: 99.2." in text
    assert "| RoBERTa, n = 64, Wikipedia | 3 | 1 | 2 of 8 | 0.250 | 0.250 | 8/8/8/8 |" in text
    text = (results / "theorems.md").read_text()
    for row in ("| random | 128 | 4 |", "| random | 16 | 16 | 2^-n |", "| random | 128 | 64 |"):
        assert row in text
    for name in ("spectrum", "spectrum_linformer", "theorem1", "theorem1_roberta", "theorem2", "rank_k"):
        assert f"({name}.png)" in (results / "spectrum.md").read_text() + text and (results / f"{name}.png").stat().st_size > 5000


def test_report_of_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["analysis", str(tmp_path), "--data", "made up"])
    with pytest.raises(SystemExit, match="has no spectrum.npz"):
        analysis.main()
