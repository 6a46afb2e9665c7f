"""Figures say of what they are, and keep what is small."""

import re

import numpy as np
import pytest

from fairseq_linformer.analysis.figures import _largest_of_blocks, _title, draw_spectra
from fairseq_linformer.analysis.loading import load_model
from fairseq_linformer.analysis.result import read
from fairseq_linformer.analysis.run import attention


def test_a_picture_keeps_lines_that_are_a_position_wide():
    """Attention to the position before, of 512 positions in 200 pixels; and a map that fits is left as it is."""
    drawn = _largest_of_blocks(np.eye(512, k=-1), 200)
    assert drawn.shape == (171, 171) and drawn.diagonal().tolist() == [1.0] * 171
    assert _largest_of_blocks(np.eye(512)[:, :150], 200).shape == (171, 150)
    np.testing.assert_array_equal(_largest_of_blocks(np.eye(7), 200), np.eye(7))


def test_a_figure_says_of_what_it_is(measured, tmp_path):
    found = read(measured)
    assert re.fullmatch(r"roberta\d*/model.pt on text.txt\nn = 16, 7 sentences", _title(found))
    del found.facts["text"]  # as in older files
    assert re.fullmatch(r"roberta\d*/model.pt on text.txt\nn = 16, 7 sentences", _title(found))
    found.facts.update(short_sentences="padded", texts={**found.facts["texts"], "short": 1})
    assert _title(found).endswith("\nup to 16 tokens, 7 sentences")
    for titles, path in ((["one"], "figure.pdf"), (["one", "two"], "figure.png")):
        with pytest.raises(ValueError, match=".pdf" if len(titles) == 1 else "2 titles"):
            draw_spectra(tmp_path / path, [found], titles)


def test_pictures_of_attention(model, linformer, sentences, tmp_path):
    paths = attention(model, sentences(model, short="pad"), [2, 1], tmp_path / "pictures")
    assert [path.name for path in paths] == ["sentence-1.png", "sentence-2.png"] and all(
        path.stat().st_size > 5000 for path in paths
    )
    with pytest.raises(ValueError, match="sentence-1.png exists"):
        attention(model, sentences(model), [1], tmp_path / "pictures")
    with pytest.raises(ValueError, match="sentence 1000 .* 6[0-9]"):
        attention(model, sentences(model), [1000], tmp_path / "pictures")
    small = load_model(linformer(projected_dim=4, sharing="headwise", projection_init="average"))
    assert attention(small, sentences(small), [1], tmp_path / "small")[0].exists()
    for chosen in ([1, 99999], [0], []):
        with pytest.raises(ValueError, match="99999|are chosen"):
            attention(model, sentences(model), chosen, tmp_path / "none")
    assert not (tmp_path / "none").exists()
