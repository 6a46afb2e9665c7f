"""Titles and files of figures, and downscaled maps."""

import re

import numpy as np
import pytest

from fairseq_linformer.analysis.commands import draw_attention
from fairseq_linformer.analysis.figures import _block_maxima, _title, draw_spectra
from fairseq_linformer.analysis.loading import load_model
from fairseq_linformer.analysis.spectrum_result import read_spectrum


def test_lines_one_position_wide_stay_visible():
    """Attention to the previous position, 512 positions in 200 pixels. A map that fits is not scaled."""
    pixels = _block_maxima(np.eye(512, k=-1), 200)
    assert pixels.shape == (171, 171) and pixels.diagonal().tolist() == [1.0] * 171
    assert _block_maxima(np.eye(512)[:, :150], 200).shape == (171, 150)
    np.testing.assert_array_equal(_block_maxima(np.eye(7), 200), np.eye(7))


def test_title_names_model_text_and_counts(spectrum_folder, tmp_path):
    spectrum = read_spectrum(spectrum_folder)
    assert re.fullmatch(r"roberta\d*/model.pt on text.txt\nn = 16, 7 sentences", _title(spectrum))
    del spectrum.facts["text"]  # as in older files
    assert re.fullmatch(r"roberta\d*/model.pt on text.txt\nn = 16, 7 sentences", _title(spectrum))
    spectrum.facts.update(short_sentences="padded", texts={**spectrum.facts["texts"], "short": 1})
    assert _title(spectrum).endswith("\nup to 16 tokens, 7 sentences")
    for spectra, titles, name, message in (
        ([spectrum], ["one"], "figure.pdf", r"\.pdf"),
        ([spectrum], ["one", "two"], "figure.png", "title .*2"),
        ([], None, "figure.png", "at least one spectrum"),
    ):
        with pytest.raises(ValueError, match=message):
            draw_spectra(tmp_path / name, spectra, titles)


@pytest.mark.slow
def test_attention_maps_are_drawn(model, linformer, sentences, tmp_path):
    paths = draw_attention(model, sentences(model, short="pad"), [2, 1], tmp_path / "pictures")
    assert [path.name for path in paths] == ["sentence-1.png", "sentence-2.png"] and all(
        path.stat().st_size > 5000 for path in paths
    )
    with pytest.raises(ValueError, match="sentence-1.png already exists"):
        draw_attention(model, sentences(model), [1], tmp_path / "pictures")
    with pytest.raises(ValueError, match="at most 6[0-9].* 1000"):
        draw_attention(model, sentences(model), [1000], tmp_path / "pictures")
    small = load_model(linformer(projected_dim=4, sharing="headwise", projection_init="average"))
    assert draw_attention(small, sentences(small), [1], tmp_path / "small")[0].exists()
    for numbers, message in (([1, 99999], "99999"), ([0], "at least 1"), ([], "at least 1")):
        with pytest.raises(ValueError, match=message):
            draw_attention(model, sentences(model), numbers, tmp_path / "none")
    assert not (tmp_path / "none").exists()
