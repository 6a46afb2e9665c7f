"""Experiments that only count, and their record."""

import json
from pathlib import Path

import pytest

from fairseq_linformer.machine import current_commit, provenance
from fairseq_linformer.reproduction.claim import Claim
from fairseq_linformer.reproduction.counting_experiment import CountingExperiment, label
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.ledger import check_writable, read, write
from fairseq_linformer.reproduction.records import Measurement, Paper
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import UNDECIDED, Check, Verdict
from fairseq_linformer.reproduction.verify import verify

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
    assert record.seconds == 2.346 and record.tolerance == {"fingers": 0.0, "arms": 0.0} and record.rules is None
    assert record.data.startswith("none") and record.paper.where == "Table 9" and record.claim == "Fingers of a hand"
    assert experiment.measure("cpu", Inputs(), "c")[0].seconds == 0.001


def test_reproduced_and_verified(fingers, tmp_path, monkeypatch):
    experiment, found = fingers
    monkeypatch.setattr("fairseq_linformer.reproduction.verify.find", lambda name: experiment)
    said = experiment.reproduce("cpu", Inputs(), tmp_path, "c")
    before = (tmp_path / "fingers-cpu.json").read_bytes()
    assert (
        experiment.reproduce("cpu", Inputs(), tmp_path, "c") == said
        and (tmp_path / "fingers-cpu.json").read_bytes() == before
    )
    assert "2 of 2" in verify("fingers-cpu", tmp_path, Inputs())
    found[0] = found[0].model_copy(update={"value": 6.0})
    with pytest.raises(ValueError, match="1 of 2 .*left.* 5 .* 6 "):
        verify("fingers-cpu", tmp_path, Inputs())
    with pytest.raises(ValueError, match="fingers-cpu.json"):
        experiment.reproduce("cpu", Inputs(), tmp_path, "c")
    assert (tmp_path / "fingers-cpu.json").read_bytes() == before


@pytest.mark.parametrize(
    "inputs, option",
    [(Inputs(runs="r"), "--runs.* r"), (Inputs(minutes=1), "--minutes.* 1"), (Inputs(data="t"), "--data.* t")],
)
def test_counting_has_no_runs(fingers, inputs, option):
    experiment, _ = fingers
    (record,) = experiment.measure("cpu", Inputs(), "c")
    for check in (lambda: experiment.check("cpu", inputs), lambda: experiment.measure_again(record, inputs)):
        with pytest.raises(ValueError, match=option):
            check()
    how, (again,) = experiment.measure_again(record, Inputs())
    assert again.measurements == record.measurements and again.command == "c" and again.scale == "cpu" and how


def test_an_edited_record_is_found(fingers, tmp_path):
    """By verification, by another run and by the check before it."""
    experiment, _ = fingers
    path = write(experiment.measure("cpu", Inputs(), "c")[0], tmp_path)
    content = json.loads(path.read_text())
    content["measurements"][0]["value"] = 6
    path.write_text(json.dumps(content))
    checks = (
        lambda: read(path),
        lambda: check_writable(tmp_path),
        lambda: experiment.reproduce("cpu", Inputs(), tmp_path, "c"),
        lambda: verify("fingers-cpu", tmp_path, Inputs()),
    )
    for check in checks:
        with pytest.raises(ValueError, match="fingers-cpu.json.*seal"):
            check()


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


@pytest.mark.slow
@pytest.mark.parametrize("identifier", ["parameters-cpu", "operations-cpu"])
def test_committed_records_are_measured_again(identifier):
    assert identifier in verify(identifier, RESULTS, Inputs())
