"""Charts, their tables, and what is drawn."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from fairseq_linformer.reproduction.report import drawing
from fairseq_linformer.reproduction.report.charts import Chart, Heat, Series
from fairseq_linformer.reproduction.report.drawing import COLORS, draw

LINES = [Series("one", [[(1, 2.0), (2, 4.0)], [(1, 3.0)]]), Series("two", [[(2, 0.12345)]])]
CHART = Chart("c", "A & B", "n", "seconds", LINES, [("level", 5.0)])
HEAT = Heat("h", "H", ["layer 1"], ["head 1", "head 2"], [[0.25, 1.0]], "share")


@pytest.fixture(scope="module")
def svg():
    return draw(CHART)


def paths(svg):
    """Lines drawn, as (color, width, dashed)."""
    styles = re.findall(r'style="fill: none; ([^"]*)"', svg)
    return [dict(re.findall(r"([\w-]+): ([^;]+)", style)) for style in styles]


def test_the_table_behind_a_chart():
    assert CHART.table.head == ["n", "one, run 1", "one, run 2", "two"]
    assert CHART.table.rows == [["1", "2", "3", ""], ["2", "4", "", "0.1235"], ["level", "5", "", ""]]
    assert CHART.table.caption == "A & B: seconds"


@pytest.mark.parametrize(
    "value, text",
    [
        (1234567.0, "1,234,567"),
        (-2.0, "-2"),
        (0, "0"),
        (0.5, "0.5"),
        (12345.678, "1.235e+04"),
        (2e9, "2e+09"),
        (None, ""),
    ],
)
def test_numbers_behind_a_chart(value, text):
    points = [(1.0, 1.0)] + [(2.0, value)] * (value is not None)
    table = Chart("c", "t", "x", "y", [Series("s", [points]), Series("all", [[(1.0, 1.0), (2.0, 1.0)]])]).table
    assert table.rows[1][1] == text


def test_a_chart_in_words():
    assert CHART.description.startswith("A & B") and all(
        word in CHART.description for word in ("seconds", "n", "one, two")
    )
    assert (
        HEAT.description.startswith("H") and "share" in HEAT.description and "1 rows by 2 columns" in HEAT.description
    )


def test_an_svg_stands_alone_in_a_page(svg):
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img" and root.get("aria-labelledby") == "c-title"
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title.get("id") == "c-title" and title.text == CHART.description
    identifiers = re.findall(r'\bid="([^"]+)"', svg)
    assert len(identifiers) == len(set(identifiers)) and all(name.startswith("c-") for name in identifiers)
    references = re.findall(r'(?:url\(|href=")#([^")]+)', svg)
    assert references and set(references) <= set(identifiers)
    assert "<metadata" not in svg and "<!--" not in svg and "xlink" not in svg
    assert svg.endswith("</svg>\n") and not re.search(r"[ \t]\n", svg)


def test_colors_are_those_of_the_page(svg):
    assert "currentColor" in svg and "var(--grid" in svg
    for placeholder in ("#010203", "#040506", "DejaVu"):
        assert placeholder not in svg


def test_text_stays_text(svg):
    for text in ("A &amp; B", ">n<", ">seconds<", ">one<", ">two<", ">level<"):
        assert text in svg


def test_the_same_chart_gives_the_same_bytes(svg):
    assert draw(CHART) == svg and draw(replace(CHART, identifier="d")) == svg.replace("c-", "d-").replace('"#c', '"#d')


def test_runs_are_thin_around_their_median(svg):
    """Three lines of the first series: its two runs, and their median; the second series has one line."""
    widths = [(style["stroke"].lower(), style.get("stroke-width")) for style in paths(svg) if "stroke" in style]
    first, second = COLORS[0].lower(), COLORS[1].lower()
    assert widths.count((first, "0.7")) == 2 and (first, "1.7") in widths and (second, "1.7") in widths
    assert (second, "0.7") not in widths


def lines_of(svg, color=COLORS[0]):
    """The lines of a color in the plot: (points, style)."""
    found = re.findall(r'<path d="([^"]+)" clip-path="[^"]*" style="([^"]*)"', svg)
    pairs = [
        ([float(x) for x in re.findall(r"[\d.]+", d)], style) for d, style in found if color.lower() in style.lower()
    ]
    return [(list(zip(xy[::2], xy[1::2])), style) for xy, style in pairs]


def test_the_thick_line_is_the_median():
    """Of three runs the third, which is in the middle at each x."""
    runs = [[(1, 1.0), (2, 1.0)], [(1, 3.0), (2, 3.0)], [(1, 2.0), (2, 2.5)]]
    *thin, (median, style) = lines_of(draw(Chart("c", "t", "x", "y", [Series("a", runs)])))
    assert len(thin) == 3 and "stroke-width: 1.7" in style and median == thin[2][0] != thin[0][0]


@pytest.mark.parametrize(
    "runs, middle",
    [
        ([[(1, 2.0), (2, 4.0)]], [(1, 2.0), (2, 4.0)]),
        ([[(1, 1.0), (2, 9.0)], [(2, 3.0), (1, 2.0)], [(1, 6.0), (2, 4.0), (3, 1.0)]], [(1, 2.0), (2, 4.0)]),
        ([[(1, 1.0)], [(2, 3.0)]], [(1, 1.0)]),
    ],
)
def test_the_median_of_runs(runs, middle):
    assert drawing._middle(runs) == middle


def test_lines_differ_without_color():
    lines = [Series(f"line {i}", [[(1, i), (2, i + 1)]]) for i in range(8)]
    svg = draw(Chart("c", "t", "x", "y", lines))
    found = [style for style in paths(svg) if style.get("stroke-width") == "1.7"]
    look = {(style["stroke"], style.get("stroke-dasharray", "")) for style in found}
    assert len(look) == 8 and len({style["stroke"] for style in found}) == len(COLORS) == 6


def test_lines_of_one_color_belong_together():
    """The thin one is dotted, with open markers."""
    points = [(1, 1.0), (2, 2.0)]
    lines = [Series("ours", [points], color=0), Series("paper's", [points], thin=True, color=0)]
    svg = draw(Chart("c", "t", "x", "y", lines))
    (_, ours), (_, theirs) = lines_of(svg)
    assert "stroke-width: 1.7" in ours and "dasharray" not in ours
    assert "stroke-width" not in theirs and "dasharray: 1,2" in theirs


def test_logarithmic_axes_have_plain_numbers():
    points = [(512, 1.0), (2048, 10.0), (65536, 100.0)]
    svg = draw(Chart("c", "t", "n", "s", [Series("a", [points])], log_x=True, log_y=True))
    ticks = re.findall(r">([\d,]+)</text>", svg)
    assert [tick for tick in ticks if tick in ("512", "2,048", "65,536")] == ["512", "2,048", "65,536"]
    assert {"1", "10", "100"} <= set(ticks)
    (((x0, y0), (x1, y1), (x2, y2)), _), *_ = lines_of(svg)
    assert (x1 - x0) / (x2 - x0) == pytest.approx(2 / 7, rel=1e-3) and (y1 - y0) / (y2 - y0) == pytest.approx(
        1 / 2, rel=1e-3
    )
    linear = draw(Chart("c", "t", "n", "s", [Series("a", [points])]))
    assert "512" not in re.findall(r">([\d,]+)</text>", linear)


@pytest.mark.parametrize("updates, ticks", [(20_000, 9), (30_000, 4), (250_000, 6)])
def test_a_long_axis_has_few_ticks(updates, ticks):
    """The paper trains for 250,000 updates."""
    svg = draw(Chart("c", "t", "updates", "s", [Series("a", [[(0, 1.0), (updates, 2.0)]])]))
    numbers = [int(text.replace(",", "")) for text in re.findall(r">([\d,]+)</text>", svg)]
    assert len([number for number in numbers if 0 <= number <= updates and number % 500 == 0]) == ticks


@pytest.mark.parametrize("series", [[], [Series("empty", [[]])], [Series("none", [])]])
def test_a_chart_without_points_is_not_drawn(series):
    with pytest.raises(ValueError, match="curves-of-nothing"):
        draw(Chart("curves-of-nothing", "t", "x", "y", series))


def test_only_charts_are_drawn():
    with pytest.raises(TypeError, match="str"):
        draw("a chart")


def test_a_heat_map_has_its_numbers_in_the_cells():
    assert HEAT.table.rows == [["layer 1", "0.25", "1"]] and HEAT.table.head == ["", "head 1", "head 2"]
    assert HEAT.table.caption == "H: share"
    svg = draw(HEAT)
    texts = re.findall(r">([^<>\n]+)</text>", svg)
    assert {"0.25", "1.00", "layer 1", "head 1", "head 2", "share"} <= set(texts)
    fills = re.findall(r"fill: (#\w+); stroke: #ffffff", svg)
    assert len(fills) == 2 and fills[0] != fills[1]  # cividis: dark, then light
    dark, light = (sum(int(fill[i : i + 2], 16) for i in (1, 3, 5)) for fill in fills)
    assert dark < light


def test_numbers_of_a_heat_map_are_readable_on_their_color():
    svg = draw(HEAT)
    colors = {text: style for style, text in re.findall(r'<text style="([^"]*)"[^>]*>(0\.25|1\.00)</text>', svg)}
    assert "#ffffff" in colors["0.25"] and "#ffffff" not in colors["1.00"]
    wide = Heat("w", "W", ["layer 1"], [str(i) for i in range(17)], [[0.25] * 17], "share")
    assert "0.25" not in draw(wide)
    assert "1.00" in draw(replace(HEAT, columns=[str(i) for i in range(16)], values=[[1.0] * 16]))
