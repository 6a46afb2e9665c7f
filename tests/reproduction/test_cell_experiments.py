"""Experiments made of benchmark cells: measuring in pieces, their record, verification."""

import json
from dataclasses import dataclass

import pytest

from fairseq_linformer.benchmark.cells import BenchmarkCell, read_cell
from fairseq_linformer.machine import current_commit, provenance
from fairseq_linformer.reproduction.cells import TOLERANCE, CellExperiment, CellKind
from fairseq_linformer.reproduction.experiment import Unfinished
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.records import Measurement

MEASURED: list[int] = []
RATIOS: dict[int, float] = {}


@dataclass(frozen=True, kw_only=True)
class ToyCell(BenchmarkCell):
    """A ratio of times that is 2 n."""

    n: int
    layers: int = 1

    @property
    def name(self) -> str:
        return f"toy-cpu-fp32-l1-n{self.n}"

    def operations(self) -> float:
        return 1e3

    def measure(self):
        MEASURED.append(self.n)
        return {"ratio": RATIOS.get(self.n, 2.0 * self.n)}


def measurements(cell):
    n = cell["configuration"]["n"]
    yield Measurement(metric="time_ratio", n=n, value=cell["measured"]["ratio"], unit="ratio of times")
    yield Measurement(metric="time", n=n, value=1.0, unit="seconds")


@pytest.fixture
def experiment(monkeypatch):
    monkeypatch.setattr("fairseq_linformer.benchmark.cells.measure_peak", lambda *arguments: 1e12)
    MEASURED.clear()
    RATIOS.clear()
    kind = CellKind("toy", "Times of a toy", "Table 9", measurements)
    cells = {"smoke": lambda: [ToyCell(n=n) for n in (1, 2)], "cpu": lambda: [ToyCell(n=n) for n in (1, 2, 4)]}
    experiment = CellExperiment("toys", "Toys", (), [kind], cells)
    experiment.tables = lambda records: []
    return experiment


@pytest.fixture(autouse=True)
def concrete(monkeypatch):
    monkeypatch.setattr(CellExperiment, "__abstractmethods__", frozenset())


IDENTIFIER = "benchmark-toy-cpu-fp32-l1"


def test_record(experiment, tmp_path):
    (record,) = experiment.measure("cpu", Inputs(tmp_path / "runs"), "the command")
    here = provenance()
    assert (record.identifier, record.experiment, record.made_by, record.scale) == (
        f"{IDENTIFIER}-cpu",
        "toys",
        "reproduce",
        "cpu",
    )
    assert [m.value for m in record.select("time_ratio")] == [2.0, 4.0, 8.0] and len(record.measurements) == 6
    assert (
        record.tolerance
        == TOLERANCE
        == {
            "ratio of times": 0.25,
            "ratio of times per token": 0.25,
            "ratio of batches": 0.0,
            "ratio of bytes": 0.0,
            "exponent of n": 0.2,
        }
    )
    assert record.command == "the command" and record.commit == current_commit() and record.seconds > 0
    assert (record.hardware, record.versions, record.date) == (here["hardware"], here["versions"], here["date"])
    assert record.claim == "Times of a toy" and record.paper.where == "Table 9" and record.data == "random tokens"
    assert [*record.configuration["cells"]] == [f"toy-cpu-fp32-l1-n{n}" for n in (1, 2, 4)]
    assert len([*(tmp_path / "runs/cpu/toys/cells").glob("*.json")]) == 3
    assert experiment.scales == ("smoke", "cpu") and experiment.cost("cpu")


def test_scales_are_kept_apart(experiment, tmp_path):
    (smoke,) = experiment.measure("smoke", Inputs(tmp_path), "c")
    (cpu,) = experiment.measure("cpu", Inputs(tmp_path), "c")
    assert smoke.identifier == f"{IDENTIFIER}-smoke" and smoke.scale == "smoke" and len(smoke.measurements) == 4
    assert len(cpu.measurements) == 6 and MEASURED == [1, 2, 1, 2, 4]


def test_cells_are_measured_in_pieces(experiment, tmp_path, capsys):
    """The first always; the command and commit are those of the whole, the cells' dates their own."""
    with pytest.raises(Unfinished, match="2 of 3"):
        experiment.measure("cpu", Inputs(tmp_path, minutes=0.0), "first")
    assert MEASURED == [1]
    path = tmp_path / "cpu/toys/cells/toy-cpu-fp32-l1-n1.json"
    cell = read_cell(path)
    assert cell["command"] == "first"
    path.write_text(json.dumps({**cell, "commit": "earlier", "date": "2020-01-01"}))
    (record,) = experiment.measure("cpu", Inputs(tmp_path, minutes=60.0), "second")
    assert (
        MEASURED == [1, 2, 4]
        and record.command == "second"
        and set(record.commit.split("; ")) == {"earlier", current_commit()}
    )
    assert record.date == provenance()["date"]
    experiment.measure("cpu", Inputs(tmp_path), "third")
    assert len(MEASURED) == 3


def test_damaged_cells_are_rejected(experiment, tmp_path):
    experiment.measure("smoke", Inputs(tmp_path), "c")
    path = tmp_path / "smoke/toys/cells/toy-cpu-fp32-l1-n1.json"
    cell = json.loads(path.read_text())
    for broken in ("{", json.dumps({**cell, "measured": {}}), json.dumps({**cell, "name": "other"})):
        path.write_text(broken)
        with pytest.raises(ValueError, match="toy-cpu-fp32-l1-n1"):
            experiment.measure("smoke", Inputs(tmp_path), "c")
