"""Tables and their cells."""

import pytest

from fairseq_linformer.reproduction.report.build import _cell, _code, _inline, _line
from fairseq_linformer.reproduction.report.tables import MISSING, Table, css_class, spread_cells

from ..sample_records import measurement


@pytest.mark.parametrize("row", [["only"], ["one", "two", "three"], []])
def test_a_row_is_as_long_as_the_head(row):
    with pytest.raises(ValueError, match=f"{len(row)} cells under 2"):
        Table(["a", "b"], [["1", "2"], row])


def test_a_spread_has_value_interval_and_repetitions():
    assert spread_cells(measurement(), 2) == ["1.50", "1.00 to 2.00", "3"]
    assert spread_cells(measurement(interval=None, repetitions=1), 1) == ["1.5", "", "1"]
    assert spread_cells(None, 2) == [MISSING, "", ""] == ["**not measured**", "", ""]


@pytest.mark.parametrize(
    "cell, css",
    [
        ("1", "number"),
        ("-1,234.5", "number"),
        ("+2", "number"),
        ("20x", "number"),
        ("3 %", "number"),
        ("44.94 to 45.57", "number"),
        ("n^1.02", ""),
        ("O(n)", ""),
        ("", ""),
        ("1 to", ""),
        ("a" * 12, ""),
        ("a" * 13, "some"),
        ("a" * 60, "some"),
        ("a" * 61, "long"),
    ],
)
def test_the_class_of_a_cell(cell, css):
    assert css_class(cell) == css


def test_text_is_no_markup_but_bold_and_code():
    assert _inline("<script> & **loud** `x < y`") == "&lt;script&gt; &amp; <strong>loud</strong> <code>x &lt; y</code>"
    assert _inline("2 ** 3 ** and a ` tick") == "2 <strong> 3 </strong> and a ` tick"


def test_markdown_cells_stay_on_their_line():
    assert _cell("x | y\n1 < z\r\nw") == "x \\| y 1 < z w"
    assert _line("one\ntwo\u2028three") == "one two three"
    assert _line("<b> `<s>` [a](b) [1, 2]") == "&lt;b> `<s>` [a]\\(b) [1, 2]"


@pytest.mark.parametrize(
    "text, markdown",
    [
        ("true", "`true`"),
        ("run `this`", "`` run `this` ``"),
        ("a `` b ` c", "```a `` b ` c```"),
        ("`", "`` ` ``"),
        ("a\nb", "`a b`"),
        ("`a", "`` `a ``"),
        ("", "``"),
    ],
)
def test_code_in_markdown_keeps_its_ticks(text, markdown):
    assert _code(text) == markdown
