"""``fairseq-linformer analyze``: files, output and error messages."""

import json

import numpy as np
import pytest
import torch

from fairseq_linformer.analysis import commands
from fairseq_linformer.analysis.figures import _block_maxima
from fairseq_linformer.analysis.sentences import Sentences
from fairseq_linformer.analysis.spectrum import measure_spectrum
from fairseq_linformer.cli import main

from .conftest import HEADS, LAYERS, N


def test_spectrum(roberta, model, text, tmp_path, capsys):
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


@pytest.mark.slow
def test_attention(roberta, model, text, tmp_path, monkeypatch, capsys):
    drawn, draw = {}, commands.draw_maps

    def record(path, maps, words, *others):
        drawn[path] = maps, words
        draw(path, maps, words, *others)

    monkeypatch.setattr(commands, "draw_maps", record)
    options = ["--source", str(text), *"--sentence 3 --sentence 1 --sample-break-mode eos".split()]
    main(["analyze", "attention", str(roberta), *options, "--out", str(tmp_path / "out")])
    expected = [tmp_path / "out" / f"sentence-{number}.png" for number in (1, 3)]
    assert capsys.readouterr().out.splitlines() == [str(path) for path in expected] and [*drawn] == expected
    assert all(path.stat().st_size > 5000 for path in expected)
    text = Sentences(str(text), model, N, "eos", short=True)
    lines = list(text)
    for (maps, words), sentence in zip(drawn.values(), (lines[0], lines[2])):
        assert words == model.tokenizer.convert_ids_to_tokens(sentence)
        assert [each.shape for each in maps] == [(HEADS, len(words), len(words))] * LAYERS
        np.testing.assert_array_equal(maps[0], model.read_maps(torch.tensor([sentence]))[0][0])
    for numbers, message in (([2, 3], "sentence-3.png already exists"), ([2, 99999], "99999")):
        with pytest.raises(ValueError, match=message):
            commands.draw_attention(model, text, numbers, tmp_path / "out")
    assert not (tmp_path / "out" / "sentence-2.png").exists()


def test_lines_one_position_wide_stay_visible():
    """Attention to the previous position, 512 positions in 200 pixels. A map that fits is not scaled."""
    pixels = _block_maxima(np.eye(512, k=-1), 200)
    assert pixels.shape == (171, 171) and pixels.diagonal().tolist() == [1.0] * 171
    assert _block_maxima(np.eye(512)[:, :150], 200).shape == (171, 150)
    np.testing.assert_array_equal(_block_maxima(np.eye(7), 200), np.eye(7))
