"""The table of parameters in the README."""

from pathlib import Path

import pytest

from fairseq_linformer.reproduce.parameters import BEGIN, END, count, table, written

README = Path(__file__).parents[2] / "README.md"


def test_counts_by_hand():
    """At base size a matrix has 256 x 512 entries, a kernel 64 channels x 2 places."""
    roberta = count()[2]
    assert count("linear", "headwise") == (24, 24 * 256 * 512, roberta + 24 * 256 * 512)
    assert count("conv", "layerwise") == (1, 128, roberta + 128)
    assert count("random", "none") == (288, 0, roberta)


@pytest.mark.slow
def test_the_readme_has_the_table_as_it_is_now():
    text = README.read_text(encoding="utf-8")
    assert written(text, list(table())) == text


def test_marks():
    assert written(f"a\n{BEGIN}\nold\n{END}\nb", ["new"]) == f"a\n{BEGIN}\nnew\n{END}\nb"
    with pytest.raises(ValueError, match="there are no marks"):
        written("a", ["new"])
