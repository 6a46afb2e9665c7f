"""Tables and charts of trained models."""

import pytest

from fairseq_linformer.reproduction.records import Curve
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.runs import AUTHORS
from fairseq_linformer.reproduction.training_tables import curves_charts, perplexity_table

from ..evidence import number, record, three, trained


def with_curves(one, *points):
    """A curve of two seeds for each model."""
    models = list(dict.fromkeys(m.model for m in one.select("perplexity")))
    return one.copy_with(
        curves=[
            Curve(metric="bits", model=model, seed=seed, points=list(points) or [(100, 5.0), (200, float(seed))])
            for model in models
            for seed in (1, 2)
        ]
    )


def test_perplexities_over_those_of_roberta():
    (table,) = find("figure-3a").tables([trained("figure-3a", {"roberta": (4.0, 5.0, 7.0), "k=16": three(5.9)})])
    rows = {row[0]: row for row in table.rows}
    assert rows["roberta"] == ["roberta", "32.00", "16.00 to 128.00", "3", "1.000"]
    assert rows["k=16"] == ["k=16", "64.00", "59.71 to 68.59", "3", "2.000"]
    assert (
        rows["without context"] == ["without context", "256.00", "", "", "8.000"] and "figure-3a-cpu" in table.caption
    )
    assert perplexity_table(record([number("x", 1.0)])) == []


def test_each_n_over_its_own_roberta():
    bits = {
        "roberta": three(4.8),
        "roberta n=128": three(3.8),
        "n=64": three(5.0),
        "n=128": three(5.0),
        "n=256": three(5.0),
    }
    (table,) = perplexity_table(trained("figure-3d", bits, levels=[(128, 9.0)]))
    rows = {row[0]: row for row in table.rows}
    assert (
        rows["n=64"][-1] == f"{2**0.2:.3f}"
        and rows["n=128"][-1] == f"{2**1.2:.3f}"
        and rows["n=256"][-1] == f"{2**0.2:.3f}"
    )
    assert rows["without context"][1] == "256.00" and rows["without context, n=128"][1] == "512.00"


def test_levels_of_earlier_records_are_no_models():
    levels = ("context_free", "unigram", "valid_context_free", "roberta", "headwise")
    one = record(
        [number("perplexity", 10.0 * i, model=model) for i, model in enumerate(levels, 1)],
        curves=[Curve(metric="perplexity", model="roberta", points=[(100, 5.0)])],
    )
    (table,) = perplexity_table(one)
    assert [row[1] for row in table.rows] == ["40.00", "50.00", "10.00", "20.00", "30.00"] and table.rows[1][
        -1
    ] == "1.250"
    (chart,) = find("figure-3a").earlier_charts([one])
    assert [value for _, value in chart.levels] == [30.0]  # of the split of the curves
    assert chart.series[0].runs == [[(100, 5.0)]] and chart.note == ""


def test_curves():
    (chart,) = find("figure-3a").charts(
        [with_curves(trained("figure-3a", {"roberta": three(5.0), "k=16": three(6.0)}))]
    )
    assert (
        [series.name for series in chart.series] == ["roberta", "k=16"]
        and chart.log_y
        and "figure-3a-cpu" in chart.identifier
    )
    assert chart.series[0].runs == [[(100, 32.0), (200, 2.0)], [(100, 32.0), (200, 4.0)]]
    assert [value for _, value in chart.levels] == [256.0] and {series.color for series in chart.series} == {None}
    assert find("figure-3a").charts([trained("figure-3a", {"roberta": three(5.0)}, curves=[])]) == []


@pytest.mark.parametrize("models, charts", [(10, 1), (11, 0)])
def test_no_chart_of_more_than_ten_lines(models, charts):
    one = with_curves(trained("figure-3a", {f"k={k}": three(5.0) for k in range(1, models + 1)}))
    assert len(curves_charts(one, "t")) == charts


def test_the_authors_start_has_its_own_chart():
    models = {"roberta": 5.0, "k=16": 6.0, f"k=16{AUTHORS}": 6.5}
    one = with_curves(trained("figure-3a", {model: three(bits) for model, bits in models.items()}))
    ours, theirs = find("figure-3a").charts([one])
    assert [[series.name for series in chart.series] for chart in (ours, theirs)] == 2 * [["roberta", "k=16"]]
    assert ours.identifier != theirs.identifier and theirs.title == ours.title + AUTHORS
    assert theirs.levels == ours.levels and len(theirs.series[1].runs) == 2


def test_words_that_all_labels_begin_with():
    one = with_curves(trained("x", {"n=64 k=16 headwise": three(5.0), "n=64 k=16 layerwise": three(5.0)}))
    (chart,) = curves_charts(one, "t")
    assert [series.name for series in chart.series] == ["headwise", "layerwise"] and "n=64 k=16" in chart.title
    (single,) = curves_charts(with_curves(trained("x", {"n=64 k=16": three(5.0)})), "t")
    assert [series.name for series in single.series] == ["n=64 k=16"]


def test_each_n_has_the_color_of_its_roberta():
    lengths = (64, 128, 256)
    bits = {"roberta" + f" n={n}" * (n > 64): three(4.8) for n in lengths} | {f"n={n}": three(5.0) for n in lengths}
    (chart,) = curves_charts(with_curves(trained("figure-3d", bits)), "t")
    lines = {series.name: series for series in chart.series}
    assert lines["roberta"].color == lines["n=64"].color and lines["roberta n=256"].color == lines["n=256"].color
    assert len({series.color for series in chart.series}) == 3
    assert lines["roberta n=128"].thin and not lines["n=128"].thin


def run(updates, start=None, k=None, n=64):
    return {
        "model": {"n": n, **({"k": k} if k else {})},
        "made": "x",
        "updates": updates,
        **({"from": start} if start else {}),
    }


TRUNK = run(400, run(2000))


@pytest.mark.parametrize(
    "runs, axis, notes",
    [
        ({"roberta": run(500, TRUNK), "k=32": run(500, TRUNK, 32)}, ("common RoBERTa", "2,400"), ()),
        (
            {"roberta": run(500, TRUNK), "n=128": run(500, run(800, run(1600), n=128), 32)},
            ("after a RoBERTa", "2,400"),
            ("Each n",),
        ),
        (
            {"roberta": run(500, TRUNK), "from scratch": run(500, run(2400, None, 32), 32)},
            ("each model's first", "2,400"),
            (),
        ),
        (
            {"roberta": run(400, run(2000)), "from scratch": run(2800)},
            ("last stage",),
            ("roberta 2,000", "from scratch 0"),
        ),
        ({"roberta": run(2000), "k=32": run(2000, None, 32)}, ("from scratch",), ()),
    ],
)
def test_after_what_the_updates_of_a_curve_are_counted(runs, axis, notes):
    one = with_curves(trained("x", {"roberta": three(5.0)}, configuration={"n": 64, "runs": runs}))
    (chart,) = curves_charts(one, "t")
    assert all(words in chart.x for words in axis) and all(words in chart.note for words in notes) and chart.note
    assert ("Each n" in chart.note, "roberta 2,000" in chart.note) == ("Each n" in notes, "roberta 2,000" in notes)
