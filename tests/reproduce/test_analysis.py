"""The report on spectra and theorems: entries that the ledger takes, and a report that is made of them alone."""

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairseq_linformer.analysis.result import Spectrum
from fairseq_linformer.analysis.samples import summary
from fairseq_linformer.analysis.theorems import random_groups, run
from fairseq_linformer.reproduce import analysis, ledger, theorems_text
from fairseq_linformer.reproduce.analysis_entries import SHARE, theorem_entries
from fairseq_linformer.reproduce.cells import between, groups, name, number, of_summary, spread
from fairseq_linformer.reproduce.ledger import Measurement

RESULTS = Path(__file__).parents[2] / "results"


def folders(out):
    """As scripts/analysis.sh leaves them, of made-up spectra and tiny theorems."""
    for i, title in enumerate({**analysis.ROBERTA, **analysis.LINFORMER}):
        curve = np.cumsum(np.full((2, 4, 8), 1 / 8), -1) ** (1 / (i + 1 + np.arange(4)[:, None]))
        matrices = {"layers.0.E": np.array([2.0, 1.0, 0.5])} if "linformer" in title else {}
        facts = {"model": "model.pt", "kind": "roberta", "n": 4 if "64" in title else 8, "index": 2, "sentences": 3, "device": "cpu", "torch_threads": 1,
                 "texts": {"texts": 9, "cut": 3, "short": 6}, "short_sentences": "skipped", "matrix_columns": 8, "float64_checked_sentences": 1,
                 "float64_difference": 1e-7 * (i + 1), "seconds": 2.0,
                 "key": {"model": {"files": {"model.pt": f"sha of {title}"}}, "texts": [{"location": "/a/place/text", "sha256": ["sha"]}],
                         "cut": "lines" if "imdb" in title else "packed"}}  # fmt: skip
        ranks = np.stack([np.full((2, 4), value) for value in (6.5, 6.0, 8.0)])
        spectrum = Spectrum(curve, 0 * curve + 0.01, curve**0.5, ranks, matrices, facts)
        (out / f"spectrum-{title}").mkdir()
        spectrum.write(out / f"spectrum-{title}")
        (out / f"spectrum-{title}.commit").write_text("ghi\n" if matrices else "abc\n")
    for model, perplexity in (("roberta", 26.5), ("headwise", 31.25)):
        (out / f"perplexity-{model}.log").write_text(f'2026-01-01 00:00:00 | INFO | test | {{"test_loss": "5", "test_ppl": "{perplexity}"}}\n')
        (out / f"perplexity-{model}.commit").write_text("ghi\n")
    run(random_groups([16, 128], 4, 1), out / "theorems-random", 2, 0.5, 1, {"heads": "random"})
    for title in analysis.THEOREMS:
        if title != "random":
            shutil.copytree(out / "theorems-random", out / f"theorems-{title}")
        (out / f"theorems-{title}.commit").write_text("def\n")


@pytest.mark.slow
def test_report(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    folders(tmp_path / "out")
    results = tmp_path / "results"
    results.mkdir()
    shutil.copy(RESULTS / analysis.PRETRAINING, results)
    monkeypatch.setattr(sys, "argv", ["analysis", str(tmp_path / "out"), "--data", "made up", "--results", str(results), "--note", "Made of nothing."])
    analysis.main()

    entry = ledger.read(results / "spectrum-roberta.json")
    third = dict(run="RoBERTa, n = 64, Wikipedia", layer=1, head=3)
    value = entry.measured[name("cumulative value at the index", **third)]
    assert value.value == pytest.approx(0.25 ** (1 / 3), abs=1e-6) and (value.spread, value.repetitions) == (None, 1)
    assert entry.measured[name("rank", **third)] == Measurement(6.5, "numerical rank, mean over sentences", [6.0, 8.0], 3)
    # 0.9 ** 3 of 8 indices, and 0.9 ** 6 of the squares.
    assert [entry.measured[name(what, **third)].value for what in ("k for 0.9 of the values", "k for 0.9 of the squares")] == [6, 5]
    assert (entry.commit, entry.seconds) == ("abc", 8)
    of_run = entry.configuration["runs"]["RoBERTa, n = 512, IMDB"]
    assert (of_run["model_sha256"], of_run["texts_sha256"], of_run["torch_threads"]) == ({"model.pt": "sha of roberta-512-imdb"}, ["sha"], 1)
    linformer = ledger.read(results / "spectrum-linformer.json")
    where = dict(run="Linformer, n = 512, k = 256, Wikipedia", matrix="layers.0.E", head="all")
    assert [linformer.measured[name(what, **where)].value for what in ("largest", "smallest", "rank")] == [2, 0.5, 3]
    assert (linformer.commit, linformer.configuration["note"]) == ("ghi", "Made of nothing.")

    numbers = json.loads((tmp_path / "out" / "theorems-random" / "theorems.json").read_text())
    entries = [ledger.read(results / f"{which}.json") for which in ("theorem-1", "theorem-2", "optimal-rank-k")]
    # Of three folders of heads, and of all six for the k that step 2 needs: each part by itself.
    expected = [times * numbers["seconds"][part] for times, part in ((3, "theorem1"), (6, "theorem2"), (3, "rank_k"))]
    assert [entry.seconds for entry in entries] == pytest.approx(expected)
    assert {w["eps"] for w, _ in groups(entries[0], "heads", "n", "k", "eps")} == {"0.3", "0.5", "0.7"}
    lengths = entries[0].measured[name("lengths", heads="random", n=16, k=8, eps=0.3)]
    assert lengths.repetitions == 2 and lengths.value == pytest.approx(sum(lengths.spread) / 2, rel=1e-4)  # two draws
    wide = [w["heads"] for w, _ in groups(entries[1], "heads", "n", "d") if w["heads"].startswith("random, ")]
    assert sorted(set(wide)) == ["random, d = 16", "random, d = 32", "random, d = 8"]

    text = (results / "spectrum.md").read_text()
    for part in ("| RoBERTa, n = 512 | 26.50 |", "| Linformer, headwise, n = 512, k = 256 | 31.25 |", "| without context | 255.3 |", "Made of nothing.",
                 "| RoBERTa, n = 64, Wikipedia | 3 | 1 | 2 of 8 | 0.522 | 0.250 to 0.707 |", "3 longer than n were cut, 6 shorter ones skipped"):  # fmt: skip
        assert part in text
    text = (results / "theorems.md").read_text()
    for part in ("| random | 128 | 4 | 200 | 97.0 | 98 | proof, delta = 2^-n |", "| random | 16 | 16 | 2^-n |", "| random | 128 | 64 |", "8 of 8* | 100 %"):
        assert part in text
    for figure in ("spectrum", "spectrum_linformer", "theorem1", "theorem1_roberta", "theorem2", "rank_k"):
        assert f"({figure}.png)" in (results / "spectrum.md").read_text() + text and (results / f"{figure}.png").stat().st_size > 5000
    everything = "".join(path.read_text() for path in results.glob("*.*") if path.suffix in (".json", ".md"))
    assert "/a/place" not in everything and str(tmp_path) not in everything

    # The report is of the entries alone: another number there is another number here.
    error = name("squared error", heads="random", n=16, k=16)
    first = replace(entries[0], measured={**entries[0].measured, error: replace(entries[0].measured[error], value=77.7, spread=[1, 99])})
    changed = theorems_text.theorems(first, *entries[1:], 128)
    assert "| 77.7 |" in changed and "| 77.7 |" not in text


def test_report_of_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["analysis", str(tmp_path), "--data", "made up", "--results", str(tmp_path)])
    with pytest.raises(SystemExit, match=analysis.PRETRAINING):
        analysis.main()
    shutil.copy(RESULTS / analysis.PRETRAINING, tmp_path)
    with pytest.raises(SystemExit, match="has no spectrum.npz"):
        analysis.main()


def test_the_reports_are_those_of_the_ledger():
    """What stands in results/ is what its entries give."""
    of = {path.stem: ledger.read(path) for path in RESULTS.glob("*.json") if re.match("spectrum|theorem|optimal|real-text", path.stem)}
    assert (RESULTS / "spectrum.md").read_text() == analysis.spectrum_text(of["spectrum-roberta"], of["spectrum-linformer"], of["real-text-pretraining-n512"])
    assert (RESULTS / "theorems.md").read_text() == analysis.theorems_text(of["theorem-1"], of["theorem-2"], of["optimal-rank-k"], analysis.SHOWN_K)


def test_cells():
    where = {"heads": "random, d = 8", "X": "proof, delta = 2^-n", "k": 16}
    assert name("true", **where) == "heads = random, d = 8; X = proof, delta = 2^-n; k = 16; true"
    for what, place in (("a; b", {}), ("a = b", {}), ("a", {"heads": "x; y"})):
        with pytest.raises(ValueError, match="cannot be a name"):
            name(what, **place)
    one = of_summary(summary([1.0, 2.0, 6.0, float("inf")], "mean"), "s")
    assert one == Measurement(3.0, "s", [1.0, 6.0], 3) and of_summary(summary([float("inf")]), "s") is None
    assert of_summary(summary([2.0]), "s") == Measurement(2.0, "s", None, 1)
    assert (number(None), number(one), spread(one, ".1f"), spread(Measurement(1.0, "s", [1.0, 1.0], 2))) == ("", "3.00", "3.0 (1.0 to 6.0)", "1.00")
    assert (between([3, 1, 2], ".0f"), between([1, 1], ".0f")) == ("1 to 3", "1")


def test_what_does_not_exist_has_a_share_and_no_number(tmp_path):
    """Gamma of a head whose V has one direction, and a k that is above n."""
    found = run(random_groups([16], 4, 1), tmp_path / "out", 1, 0.5, 1, {"heads": "random"})
    for row in found["theorem2"]["step3"]:
        row["longest"] = summary([float("inf"), 2.0, float("inf")])
    found["theorem2"]["needed_k"][0]["spectral"] = summary([float("inf")])
    common = ledger.circumstances("made up", "true")
    second = theorem_entries({"random": found}, "abc", "", {**common, "versions": {"python": "3"}})[1]
    gamma = dict(heads="random", n=16, d=4, k=16, delta="1/n")
    assert second.measured[name("longest", **gamma)].value == 2.0
    assert second.measured[name("longest" + SHARE, **gamma)].value == pytest.approx(1 / 3, abs=1e-5)
    needed = dict(heads="random", n=16, d=4)
    assert name("k needed, spectral", **needed) not in second.measured and second.measured[name("k needed, spectral" + SHARE, **needed)].value == 0
    assert "over n" in theorems_text._needed(second)[2] and "| 33 % | 2.0 |" in "\n".join(theorems_text._steps(second))
