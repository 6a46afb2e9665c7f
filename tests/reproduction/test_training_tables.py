"""The table and the chart of experiments that train."""

from pathlib import Path

import pytest

from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.records import Curve, Measurement
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.report.drawing import draw
from fairseq_linformer.reproduction.training_tables import MAX_LINES, curves_charts, perplexity_table

from .sample_records import record, trained

RESULTS = Path(__file__).parents[2] / "results"
BITS = {"roberta": 5.0, "k=32": 5.5, "k=16": 6.0}


def chart_of(found):
    (chart,) = curves_charts(found, "a title")
    return chart


def run(updates, start=None, k=None, n=64):
    """A run as a configuration describes it."""
    return {"model": {"n": n} | ({"k": k} if k else {}), "made": "x", "updates": updates} | (
        {"from": start} if start else {}
    )


TRUNK = run(400, run(2000))


# Table


def test_perplexities_and_their_ratios():
    (table,) = perplexity_table(trained(BITS))
    assert [row[0] for row in table.rows] == ["roberta", "k=32", "k=16", "without context"]
    assert table.rows[0][1:] == ["32.00", "31.78 to 32.22", "3", "1.000"]
    assert table.rows[1][1:] == ["45.25", "44.94 to 45.57", "3", "1.414"]
    assert table.rows[3][1:] == ["256.00", "", "", "8.000"]
    assert "figure-3a-cpu" in table.caption and perplexity_table(record()) == []


def test_without_a_roberta_there_is_no_ratio():
    (table,) = perplexity_table(trained({"k=32": 5.5}))
    assert [row[-1] for row in table.rows] == ["", ""]


def of_lengths():
    """A Linformer and a RoBERTa of each n."""
    measurements, curves = [Measurement(metric="context_free_bits", value=8.0, unit="bits", n=64)], []
    for n, bits in ((64, 5.0), (128, 4.0)):
        for model, more in ((f"roberta n={n}" if n > 64 else "roberta", 0.0), (f"n={n}", 1.0)):
            value = 2 ** (bits + more)
            measurements.append(Measurement(metric="perplexity", value=value, unit="perplexity", n=n, model=model))
            curves.append(Curve(metric="bits", model=model, seed=1, points=[(1, 7.0), (2, bits + more)]))
    measurements.append(Measurement(metric="context_free_bits", value=9.0, unit="bits", n=128))
    return record(measurements=measurements, curves=curves, configuration={"n": 64})


def test_each_length_is_compared_with_its_own_roberta():
    (table,) = perplexity_table(of_lengths())
    ratios = {row[0]: row[-1] for row in table.rows}
    assert ratios == {
        "roberta": "1.000",
        "n=64": "2.000",
        "roberta n=128": "1.000",
        "n=128": "2.000",
        "without context": "8.000",
        "without context, n=128": "32.000",
    }


def test_levels_are_no_models():
    names = ("context_free", "unigram", "valid_context_free", "roberta", "headwise")
    values = {
        name: Measurement(metric="perplexity", value=10.0 * i, unit="perplexity", model=name)
        for i, name in enumerate(names, 1)
    }
    found = record(
        measurements=[*values.values()], curves=[Curve(metric="perplexity", model="roberta", points=[(100, 32.0)])]
    )
    (table,) = perplexity_table(found)
    assert [row[:2] for row in table.rows[:2]] == [["roberta", "40.00"], ["headwise", "50.00"]]
    assert [row[1] for row in table.rows[2:]] == ["10.00", "20.00", "30.00"] and len(
        {row[0] for row in table.rows}
    ) == 5
    assert table.rows[1][-1] == "1.250"
    ((name, value),) = chart_of(found).levels
    assert value == 30.0 and "30" in name  # of the split that the curves are of


# Chart


def test_a_curve_is_of_perplexities():
    chart = chart_of(trained(BITS))
    assert (chart.identifier, chart.title, chart.log_y, chart.log_x) == ("curves-figure-3a-cpu", "a title", True, False)
    lines = {line.name: line.runs for line in chart.series}
    assert [*lines] == ["roberta", "k=32", "k=16"] and len(lines["roberta"]) == 3
    assert lines["k=16"][1] == [(100, 2**7.5), (200, 2**6.0), (250, 2**6.0)]
    assert chart.levels == [("without context: 256", 256.0)]


def test_too_many_lines_are_not_drawn():
    models = {f"k={2**i}": 5.0 for i in range(MAX_LINES)}
    assert len(chart_of(trained(models)).series) == MAX_LINES == 10
    assert curves_charts(trained(models | {"roberta": 5.0}), "t") == []
    assert curves_charts(record(), "t") == []


def test_words_that_all_labels_share_are_in_the_title():
    chart = chart_of(trained({"n=512 k=64 headwise": 5.0, "n=512 k=64 none": 5.0, "n=512 k=64": 5.0}))
    assert chart.title == "a title (n=512)" and [s.name for s in chart.series] == ["k=64 headwise", "k=64 none", "k=64"]
    chart = chart_of(trained({"n=512 headwise": 5.0}))
    assert chart.title == "a title" and [s.name for s in chart.series] == ["n=512 headwise"]


def test_each_length_has_a_color():
    chart = chart_of(of_lengths())
    lines = {line.name: line for line in chart.series}
    assert [(name, line.thin) for name, line in lines.items()] == [
        ("roberta", True),
        ("n=64", False),
        ("roberta n=128", True),
        ("n=128", False),
    ]
    assert lines["roberta"].color == lines["n=64"].color != lines["n=128"].color == lines["roberta n=128"].color
    assert "<svg" in draw(chart)
    assert {line.color for line in chart_of(trained(BITS)).series} == {None}  # one RoBERTa: a color for each line


@pytest.mark.parametrize(
    "runs, axis, numbers",
    [
        ({"roberta": run(500, TRUNK), "k=32": run(500, TRUNK, 32)}, "common", ["2,400"]),
        ({"roberta": run(500, TRUNK), "n=128": run(500, run(800, run(1600), n=128), 32)}, "a RoBERTa", ["2,400"]),
        ({"roberta": run(500, TRUNK), "from scratch": run(500, run(2400, None, 32), 32)}, "each", ["2,400"]),
        ({"roberta": run(400, run(2000)), "from scratch": run(2800)}, "last stage", []),
        ({"roberta": run(2000), "k=32": run(2000, None, 32)}, "from scratch", []),
    ],
)
def test_the_axis_says_where_updates_are_counted_from(runs, axis, numbers):
    chart = chart_of(trained({"roberta": 5.0}, configuration={"n": 64, "runs": runs}))
    assert chart.x.startswith("updates") and axis in chart.x and all(number in chart.x for number in numbers)
    assert chart.note and ("roberta 2,000, from scratch 0" in chart.note) == (axis == "last stage")


def test_an_axis_without_runs():
    chart = chart_of(trained({"roberta": 5.0}, configuration={"n": 64, "runs": {"roberta": "described elsewhere"}}))
    assert (chart.x, chart.note) == ("updates", "")


# What is in the repository


def test_starts_have_the_window_averages_beside_them():
    starts = find("starts")
    rows = [
        row[0] for table in starts.earlier_tables(starts.select_earlier(ledger.read_all(RESULTS))) for row in table.rows
    ]
    assert "n=512 k=256 headwise, average" in rows and "n=512 k=256 headwise, normal at the full rate" in rows
