"""Figure 2: the Linformer's time per token does not depend on n, the Transformer's does."""

import pytest

from fairseq_linformer.reproduction.experiments import figure_2
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..evidence import cell, number, outcome, put_cells, record, verdict


def flat(value, low, high, **changed):
    one = number("time_per_token_ratio", value, (low, high), model="linformer", n=16384, baseline_n=512)
    changed = {"identifier": "benchmark-pertoken-cpu-fp32-l2", "made_by": "benchmark", **changed}
    return record([one], experiment="figure-2", **changed)


def transformer(*times, **changed):
    """(n, median, lowest, highest) of the Transformer; the Linformer's grow more, and stand for nothing here."""
    of = [
        number("microseconds_per_token", value, (low, high), model="transformer-eager", n=n)
        for n, value, low, high in times
    ]
    of += [number("microseconds_per_token", n / 1.0, model="linformer", n=n) for n in (512, 4096)]
    changed = {"identifier": "benchmark-scaling-cpu-fp32-l2", "made_by": "benchmark", **changed}
    return record(of, experiment="table-1", **changed)


@pytest.mark.parametrize("low, high, expected", [(1.0, 1.25, HOLDS), (1.0, 1.26, UNDECIDED), (1.25, 1.3, UNDECIDED)])
def test_no_round_is_much_slower_per_token(low, high, expected):
    assert figure_2.FLAT_RATIO == 1.25
    found = verdict("figure-2", flat(1.25, low, high))
    assert found.outcome == expected and f"1.25 [{low:g}, {high:g}]" in found.deciding[0]


def test_every_round_slower_fails():
    assert outcome("figure-2", flat(1.28, 1.26, 1.3)) == FAILS


@pytest.mark.parametrize(
    "last, expected",
    [
        ((30.0, 29.0, 33.0), HOLDS),
        ((14.0, 13.76, 14.0), HOLDS),  # 13.76 / 11 is just above 1.25
        ((14.0, 13.75, 14.0), UNDECIDED),
        ((11.0, 10.5, 11.25), FAILS),  # 11.25 / 9 is 1.25
        ((11.0, 10.5, 11.26), UNDECIDED),
    ],
)
def test_the_transformer_takes_longer_at_the_longest_n(last, expected):
    times = transformer((1024, 99.0, 99.0, 99.0), (4096, *last), (512, 10.0, 9.0, 11.0))
    found = verdict("figure-2", flat(1.1, 1.0, 1.2), times)
    assert found.outcome == expected and found.records == [
        "benchmark-pertoken-cpu-fp32-l2",
        "benchmark-scaling-cpu-fp32-l2",
    ]
    assert len(found.checks) == 2 and "n=4096 / n=512" in " ".join(found.deciding)


def test_without_the_linformer_nothing_is_measured():
    one = transformer((512, 10.0, 9.0, 11.0), (4096, 30.0, 29.0, 33.0))
    assert outcome("figure-2", one) == UNMEASURED
    alone = flat(1.1, 1.0, 1.2)
    assert len(verdict("figure-2", alone, one).checks) == 2
    assert outcome("figure-2", alone, scale="gpu") == UNMEASURED
    single = transformer((512, 10.0, 9.0, 11.0))  # one length says nothing
    assert (
        verdict("figure-2", alone, single).records == [alone.identifier] and outcome("figure-2", alone, single) == HOLDS
    )


def test_records_of_the_experiment_come_first():
    ours, other = flat(1.1, 1.0, 1.2, made_by="reproduce", identifier="a"), flat(2.0, 2.0, 2.0, identifier="b")
    assert verdict("figure-2", other, ours).records == ["a"] and outcome("figure-2", other, ours) == HOLDS


def test_ratios_of_a_cell(tmp_path):
    """By rounds, of each longer n over the shortest, though "1024" comes before "512" in a dictionary."""
    measured = {"seconds": {"1024": [2.0, 3.0, 9.0], "512": [1.0, 2.0, 3.0], "2048": [1.0, 1.0, 1.0]}}
    (found,) = figure_2.KIND.records(put_cells(tmp_path, cell("pertoken", measured)), "figure-2")
    ratios = {
        (m.n, m.baseline_n): (m.value, m.low, m.high, m.repetitions)
        for m in found.select("time_per_token_ratio", model="linformer")
    }
    assert ratios == {(1024, 512): (2.0, 1.5, 3.0, 3), (2048, 512): (0.5, 0.33333, 1.0, 3)}


def test_table_and_charts():
    figure, one = find("figure-2"), flat(1.1, 1.0, 1.2)
    (table,) = figure.tables([one, transformer((512, 10.0, 9.0, 11.0))])
    assert table.rows == [[one.identifier, "n=16384 / n=512", "1.100", "1.000 to 1.200", "3"]]
    assert figure.tables([]) == [] and figure.shows == ("table-1",)
    times = transformer(
        (512, 10.0, 9.0, 11.0), configuration={"layers": 2, "models": ["linformer", "transformer-eager"]}
    )
    (chart,) = figure.charts([one, times])
    assert {s.name: s.runs for s in chart.series}["transformer-eager"] == [
        [(512, 10.0)]
    ] and times.identifier in chart.identifier


def test_cells():
    lengths = {scale: [each.lengths for each in make()] for scale, make in find("figure-2").cells_at.items()}
    assert lengths == {"smoke": [(64, 128)], "cpu": [(512, 16384)], "gpu": [(512, 16384)]}
    made = {scale: make()[0] for scale, make in find("figure-2").cells_at.items()}
    assert {scale: (each.device, each.k, each.layers, each.tokens) for scale, each in made.items()} == {
        "smoke": ("cpu", 16, 1, 128),
        "cpu": ("cpu", 256, 2, 16384),
        "gpu": ("cuda", 256, 12, 16384),
    }
