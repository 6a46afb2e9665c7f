"""Experiments that only count, and their record."""

from pathlib import Path

import pytest

from fairseq_linformer.machine import current_commit, provenance
from fairseq_linformer.reproduction.claim import Claim
from fairseq_linformer.reproduction.counting_experiment import CountingExperiment, label
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.records import Measurement, Paper
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import UNDECIDED, Check, Verdict

RESULTS = Path(__file__).parents[2] / "results"


def evaluate(records, scale):
    return Verdict(UNDECIDED, [Check(UNDECIDED, "two")], [record.identifier for record in records])


@pytest.fixture
def fingers():
    """Counts the items of a list."""
    found = [
        Measurement(metric="fingers", model="left", value=5, unit="fingers"),
        Measurement(metric="arms", n=2, value=2, unit="arms"),
    ]

    experiment = CountingExperiment(
        "fingers",
        "Fingers",
        [Claim("fingers", "here", "Five.", "Holds.", evaluate)],
        ("smoke", "cpu"),
        lambda scale: iter(found),
        "Fingers of a hand",
        Paper(where="Table 9"),
        lambda scale: {"hands": 1, "pair": (1, 2)},
    )
    return experiment, found


def test_record(fingers, monkeypatch):
    experiment, found = fingers
    monkeypatch.setattr("time.monotonic", iter([1.0, 3.3456, 0.0, 0.0]).__next__)
    (record,) = experiment.measure("cpu", Inputs(), "the command")
    here = provenance()
    assert (record.identifier, record.experiment, record.made_by, record.scale) == (
        "fingers-cpu",
        "fingers",
        "reproduce",
        "cpu",
    )
    assert (
        record.measurements == found
        and record.configuration == {"hands": 1, "pair": [1, 2]}
        and record.command == "the command"
    )
    assert (record.commit, record.hardware, record.versions, record.date) == (
        current_commit(),
        here["hardware"],
        here["versions"],
        here["date"],
    )
    assert record.seconds == 2.346 and record.tolerance == {"fingers": 0.0, "arms": 0.0}
    assert record.data.startswith("none") and record.paper.where == "Table 9" and record.claim == "Fingers of a hand"
    assert experiment.measure("cpu", Inputs(), "c")[0].seconds == 0.001


def test_reproduced(fingers, tmp_path):
    experiment, found = fingers
    said = experiment.reproduce("cpu", Inputs(), tmp_path, "c")
    before = (tmp_path / "fingers-cpu.json").read_bytes()
    assert experiment.reproduce("cpu", Inputs(), tmp_path, "c") == said
    found[0] = found[0].model_copy(update={"value": 6.0})
    experiment.reproduce("cpu", Inputs(), tmp_path, "c")
    assert (tmp_path / "fingers-cpu.json").read_bytes() != before  # git keeps the earlier one


def test_tables_and_labels(fingers):
    experiment, _ = fingers
    (table,) = experiment.tables(experiment.measure("cpu", Inputs(), "c"))
    assert table.rows == [["left: fingers", "5", "fingers"], ["n=2: arms", "2", "arms"]]
    assert label(Measurement(metric="a_b", value=1, unit="u", n=3, sharing="none")) == "n=3, none: a b"


@pytest.mark.slow
def test_parameters():
    (record,) = find("parameters").measure("smoke", Inputs(), "c")
    assert {m.sharing: m.value for m in record.select("matrices")} == {
        "none": 288,
        "headwise": 24,
        "key-value": 12,
        "layerwise": 1,
    }
    k_by_n = 256 * 512
    assert [m.value for m in record.select("parameters_in_them")] == [288 * k_by_n, 24 * k_by_n, 12 * k_by_n, k_by_n]
    sizes = {m.sharing or m.model: m.value for m in record.select("parameters")}
    assert sizes["headwise"] - sizes["roberta"] == 24 * k_by_n and sizes["none"] - sizes["layerwise"] == 287 * k_by_n
    assert record.configuration == {"n": 512, "k": 256, "layers": 12, "heads": 12}
    assert find("parameters").evaluate([record], "smoke")[0][1].outcome == "holds"
