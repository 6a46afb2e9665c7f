"""Theorems: one run for both, its record, verification."""

import json
import shutil

import pytest

from fairseq_linformer.machine import current_commit, provenance
from fairseq_linformer.reproduction import theorem_experiment
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.theorem_experiment import SIZES, summary_measurements


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Both theorems at a size smaller than smoke."""
    folder = tmp_path_factory.mktemp("theorems")
    with pytest.MonkeyPatch.context() as patches:
        patches.setitem(SIZES, "smoke", ([8, 16], 4, 2))
        (record,) = find("theorem-1").measure("smoke", Inputs(folder), "the command")
    return folder, record


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(SIZES, "smoke", ([8, 16], 4, 2))


def seconds_of(folder):
    return json.loads((folder / "smoke/theorems/theorems/theorems.json").read_text())["seconds"]


def test_record(run):
    folder, record = run
    here, facts = provenance(), record.configuration["runs"]["random"]
    assert (record.identifier, record.experiment, record.made_by, record.scale) == (
        "theorem-1-smoke",
        "theorem-1",
        "reproduce",
        "smoke",
    )
    assert (record.commit, record.hardware, record.versions, record.date) == (
        current_commit(),
        here["hardware"],
        here["versions"],
        here["date"],
    )
    assert record.command == "the command" and record.data.startswith("none")
    neighbor = record.configuration["runs"]["neighbor"]
    assert record.seconds == max(round(facts["seconds"] + neighbor["seconds"], 3), 0.001)
    assert facts["seconds"] == seconds_of(folder)["theorem1"]
    assert set(record.tolerance) == {m.unit for m in record.measurements} and set(record.tolerance.values()) == {1e-4}
    assert {m.n for m in record.measurements} == {8, 16} and {m.source for m in record.measurements} == {
        "random",
        "neighbor",
    }
    assert all(0 <= m.value <= 1 for m in record.select("theorem")) and record.select("squared_error")
    assert "theorem1" not in facts and "theorem2" not in facts


def test_one_run_for_both_theorems(run, small, monkeypatch):
    """Numbers that are used later are of the commit and machine that measured them."""
    folder, _ = run
    monkeypatch.setattr(
        theorem_experiment.theorems, "measure_theorems", lambda *arguments: pytest.fail("measured twice")
    )
    where = folder / "smoke/theorems/theorems.json"
    earlier = {**json.loads(where.read_text()), "commit": "earlier", "date": "2020-01-01"}
    where.write_text(json.dumps(earlier))
    (second,) = find("theorem-2").measure("smoke", Inputs(folder), "another command")
    assert (second.commit, second.date, second.command) == ("earlier", "2020-01-01", "another command")
    assert (
        second.identifier == "theorem-2-smoke" and second.select("spectral_within_eps") and not second.select("theorem")
    )
    assert second.seconds == max(seconds_of(folder)["theorem2"], 0.001)


@pytest.mark.slow
def test_numbers_that_are_measured_again_are_of_this_commit(run, small, tmp_path):
    folder = shutil.copytree(run[0], tmp_path / "runs")
    where = folder / "smoke/theorems/theorems.json"
    where.write_text(json.dumps({**json.loads(where.read_text()), "commit": "earlier"}))
    shutil.rmtree(folder / "smoke/theorems/theorems")
    (record,) = find("theorem-1").measure("smoke", Inputs(folder), "c")
    assert record.commit == current_commit() and record.measurements == run[1].measurements


@pytest.mark.slow
def test_a_run_without_neighbor_heads_is_measured_again(run, small, tmp_path):
    """One of an earlier version: both kinds of heads are of one commit."""
    folder = shutil.copytree(run[0], tmp_path / "runs")
    where = folder / "smoke/theorems/theorems.json"
    where.write_text(json.dumps({**json.loads(where.read_text()), "commit": "earlier"}))
    (folder / "smoke/theorems/neighbor.json").unlink()
    (record,) = find("theorem-1").measure("smoke", Inputs(folder), "c")
    assert record.commit == current_commit() and record.measurements == run[1].measurements


def test_an_interrupted_measurement_leaves_nothing(small, tmp_path, monkeypatch):
    """Otherwise a rerun at another commit would complete it."""
    monkeypatch.setattr(theorem_experiment.theorems, "measure_theorem1", lambda *arguments: {})
    monkeypatch.setattr(theorem_experiment.theorems, "measure_theorems", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        find("theorem-1").measure("smoke", Inputs(tmp_path), "c")
    assert not (tmp_path / "smoke/theorems").exists()


def test_heads_of_other_sizes_are_rejected(run, small, tmp_path):
    folder = shutil.copytree(run[0], tmp_path / "runs")
    path = folder / "smoke/theorems/neighbor.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "width": 99}))
    with pytest.raises(ValueError, match="has heads of other sizes; use another --runs"):
        find("theorem-1").measure("smoke", Inputs(folder), "c")


def test_summary_measurements():
    """A value of those that have one; a share where some have none."""
    summary = {"value": 2.0, "least": 1.0, "most": 3.0, "count": 3, "of": 4}
    value, share = summary_measurements("k", summary, "k", n=8)
    assert (value.metric, value.value, value.interval, value.repetitions, value.unit, value.n) == (
        "k",
        2.0,
        (1.0, 3.0),
        3,
        "k",
        8,
    )
    assert (share.metric, share.value, share.n, share.repetitions) == ("k_share", 0.75, 8, 1)
    (one,) = summary_measurements("k", {**summary, "least": 2.0, "most": 2.0, "count": 1, "of": 1}, "k")
    assert one.interval is None and one.repetitions == 1
    (none,) = summary_measurements("k", {**summary, "value": None, "count": 0}, "k")
    assert none.metric == "k_share" and none.value == 0.0


def test_scales():
    assert find("theorem-1").scales == ("smoke", "cpu") and find("theorem-2").cost("cpu")
    assert SIZES["cpu"] == ([128, 512, 2048], 64, 60)
