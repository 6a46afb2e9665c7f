"""``fairseq-linformer analyze``: files, output and error messages."""

import json

import numpy as np
import pytest

from fairseq_linformer.analysis import commands
from fairseq_linformer.analysis.sentences import Sentences
from fairseq_linformer.analysis.spectrum import measure_spectrum
from fairseq_linformer.cli import main

from .conftest import HEADS, LAYERS


def test_spectrum(roberta, model, text, tmp_path, capsys, monkeypatch):
    """Two sources with the options that the function has, each with its own curves."""
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out"
    rows.write_text(json.dumps({"text": "the cat sat on the mat and the dog ran to the mat"}) + "\n")
    words = ["analyze", "spectrum", str(roberta), "--source", str(text), "--source", str(rows), "--out", str(out)]
    main([*words, "--num-sentences", "5", "--tokens-per-sample", "12", "--suggest-k", "0.5"])
    printed = capsys.readouterr().out
    assert "text.txt: 5 sentences of 12 tokens; 0 shorter" in printed and "rows.jsonl: 1 sentences" in printed
    first = Sentences(str(text), model, 12)
    expected = measure_spectrum(model, first, 5, 12, "text.txt")
    assert f"  --sharing none --projected-dim {expected.suggest_projected_dim(0.5)['none']}\n" in printed
    assert {path.name for path in out.iterdir()} == {"spectrum.json", "spectrum.npz", "spectrum.png"}
    (numbers, other) = json.loads((out / "spectrum.json").read_text())
    assert (numbers["sentences"], numbers["index"], other["truncated"]) == (5, 3, 1)
    np.testing.assert_allclose(numbers["heat"], expected.heat, atol=1e-5)
    with np.load(out / "spectrum.npz") as curves:
        np.testing.assert_allclose(curves["arr_0"], expected.curve)
        assert curves["arr_1"].shape == (LAYERS, HEADS, 12)
    assert (out / "spectrum.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(SystemExit, match="out must be a new or empty folder"):  # nothing is overwritten
        main([*words, "--num-sentences", "5"])

    def interrupt(*arguments):
        np.savez(arguments[-1], sums=np.zeros(()), done=0)
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "measure_spectrum", interrupt)
    words[-1] = str(tmp_path / "stopped")
    for number, message in (
        (5, "130"),
        (5, "130"),
        (4, "stopped was made from other inputs: --num-sentences must be 5"),
    ):
        with pytest.raises(SystemExit, match=message):
            main([*words, "--num-sentences", str(number)])
    rows.write_text(rows.read_text().replace("cat", "dog"))
    with pytest.raises(SystemExit, match="stopped was made from other inputs: texts must be"):
        main([*words, "--num-sentences", "5"])
