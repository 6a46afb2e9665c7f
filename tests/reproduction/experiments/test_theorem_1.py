"""Theorem 1: measured probabilities against the bound of the proof."""

import json

import pytest

from fairseq_linformer.analysis.samples import summary
from fairseq_linformer.reproduction.experiments import theorem_1
from fairseq_linformer.reproduction.registry import Inputs, find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..evidence import number, outcome, record, verdict


def rows(*measured, draws=60, epsilon=0.5, **changed):
    """(k, probability) at n = 128, eps = 0.5: promised are 1 - 256 exp(-k / 32), 0.914 at k = 256, 0.99997 at 512."""
    found = [number("theorem", p, (0.0, 1.0), draws, source="random", n=128, k=k, epsilon=epsilon) for k, p in measured]
    found.append(number("lengths", 0.0, (0.0, 1.0), draws, source="random", n=128, k=256, epsilon=epsilon))
    return record(found, **{"identifier": "theorem-1-cpu", "experiment": "theorem-1", **changed})


@pytest.mark.parametrize("measured, expected", [
    ([(256, 0.95), (512, 1.0)], HOLDS),
    ([(256, 0.92)], HOLDS),
    ([(256, 0.90), (512, 1.0)], UNDECIDED),  # within the sampling error of 60 draws
    ([(256, 0.50), (512, 1.0)], FAILS),
    ([(256, 1.0), (512, 0.7)], FAILS),
    ([(128, 0.0)], UNDECIDED),  # the proof promises nothing there
    ([(128, 0.0), (256, 0.95)], HOLDS),
])  # fmt: skip
def test_probabilities_against_the_bound(measured, expected):
    assert outcome("theorem-1", rows(*measured)) == expected


@pytest.mark.parametrize("draws, expected", [(60, UNDECIDED), (6000, FAILS)])
def test_more_draws_decide(draws, expected):
    assert outcome("theorem-1", rows((256, 0.90), draws=draws)) == expected


def test_the_largest_gap_is_reported():
    (check,) = verdict("theorem-1", rows((256, 0.5), (512, 0.7))).checks
    for said in (
        "2 of 2 rows",
        "in 2 by",
        "0.50 (0.38 to 0.62",
        "60",
        "0.91",
        "k = 256",
        "n = 128",
        "eps = 0.5",
        "random",
    ):
        assert said in check.text
    (check,) = verdict("theorem-1", rows((256, 0.90), (512, 1.0))).checks
    assert "1 of 2 rows" in check.text and "in 0 by" in check.text


def test_the_record_of_the_experiment_decides():
    other = rows((256, 0.5), identifier="theorem-1", made_by="analyze")
    assert verdict("theorem-1", other, rows((256, 0.99))).records == ["theorem-1-cpu"]
    assert outcome("theorem-1", other, rows((256, 0.99))) == HOLDS and outcome("theorem-1", other) == FAILS
    assert outcome("theorem-1", rows((256, 0.5), made_by="script")) == UNMEASURED


# Measurements


def test_measurements():
    def of(*values):
        return summary(values, "mean")

    numbers = {
        "theorem1": [
            {
                "n": 16,
                "k": [8, 16],
                "epsilon": [0.3, 0.5],
                "stretch": of(2.0),
                "squared_error": [of(1.0, 2.0), of(3.0, 5.0)],
                "expected_error": [of(1.5), of(4.0)],
                **{
                    name: [[of(0.1, 0.3), of(0.5, 0.7)], [of(0.2, 0.4), of(0.8, 1.0)]]
                    for name in ("theorem", "lengths", "pair", "pair_lengths", "norms")
                },
            }
        ]
    }
    one = record(list(theorem_1.measurements(numbers, "random")))
    assert len(one.measurements) == 1 + 2 * (1 + 1 + 2 * 5) and {m.n for m in one.measurements} == {16}
    m = one.find("theorem", k=16, epsilon=0.5)
    assert (m.value, m.interval, m.repetitions, m.source) == (pytest.approx(0.9), (0.8, 1.0), 2, "random")
    assert one.find("theorem", k=16, epsilon=0.3).value == pytest.approx(0.3)
    assert one.find("theorem", k=8, epsilon=0.5).value == pytest.approx(0.6)
    assert one.find("squared_error", k=16).value == 4 and one.find("expected_error", k=16).value == 4
    assert (one.find("stretch").value, one.find("stretch").interval) == (2, None)


@pytest.mark.parametrize("values, found", [
    ((1.0, 2.0, 6.0), {"x": (2.0, (1.0, 6.0), 3)}),
    ((1.0, 2.0, 6.0, float("inf")), {"x": (2.0, (1.0, 6.0), 3), "x_share": (0.75, None, 1)}),
    ((1.0,), {"x": (1.0, None, 1)}),
    ((float("inf"),), {"x_share": (0.0, None, 1)}),
])  # fmt: skip
def test_what_does_not_exist_has_a_share(values, found):
    measurements = theorem_1.of_summary("x", summary(values), "s", n=16)
    assert {m.metric: (m.value, m.interval, m.repetitions) for m in measurements} == found


def test_a_run_is_measured_once_for_both_theorems(tmp_path, monkeypatch):
    inputs = Inputs(runs=tmp_path)
    (first,) = find("theorem-1").measure("smoke", inputs, "it")
    monkeypatch.setattr(theorem_1, "current_commit", lambda: "later")
    (second,) = find("theorem-2").measure("smoke", inputs, "it")
    (again,) = find("theorem-1").measure("smoke", inputs, "it")
    assert first.commit == second.commit == again.commit != "later" and first.measurements == again.measurements
    facts = json.loads((tmp_path / "smoke" / "theorems" / "theorems" / "theorems.json").read_text())
    for one, part in ((first, "theorem1"), (second, "theorem2")):
        run = one.configuration["runs"]["random"]
        assert run["seconds"] == facts["seconds"][part] and "theorem1" not in run
        assert one.seconds == max(round(run["seconds"], 3), 0.001)
        assert (run["width"], run["draws"], run["lengths"], run["epsilon"]) == (8, 4, [16, 32], 0.5)
        assert set(one.tolerance) == {m.unit for m in one.measurements} and set(one.tolerance.values()) == {1e-4}
    assert (first.identifier, second.identifier) == ("theorem-1-smoke", "theorem-2-smoke")
    assert first.find("stretch", n=16).value == pytest.approx(4.45668, rel=1e-4)  # of seed 1, on any machine
    assert first.find("theorem", n=32, k=32, epsilon=0.7).repetitions == 4
    assert theorem_1.SIZES["cpu"] == ([128, 512, 2048], 64, 60)


def test_a_time_budget_is_rejected():
    with pytest.raises(ValueError, match="--minutes is 5"):
        find("theorem-1").check("cpu", Inputs(minutes=5))


def test_chart():
    (chart,) = find("theorem-1").charts([rows((512, 0.99), (256, 0.95), (128, 0.5))])
    measured, bound = chart.series
    assert chart.log_x and not chart.log_y
    assert measured.runs == [[(128, 0.5), (256, 0.95), (512, 0.99)]]
    assert [k for k, _ in bound.runs[0]] == [256, 512] and bound.runs[0][0][1] == pytest.approx(0.914, abs=1e-3)
    assert bound.thin and not measured.thin and bound.color == 0 and "theorem-1-cpu" in chart.identifier
    assert find("theorem-1").charts([rows((256, 0.9), epsilon=0.3)]) == []
