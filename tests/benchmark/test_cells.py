"""Cells are measured once, within a time budget, and only if they can be reported with the others in the folder."""

import json
from dataclasses import dataclass
from typing import ClassVar
from unittest import mock

import pytest
import torch

from fairseq_linformer.benchmark import cells
from fairseq_linformer.benchmark.grouping import group_id, options_slug
from fairseq_linformer.benchmark.scaling import PerTokenCell
from fairseq_linformer.benchmark.training import TrainingCell
from fairseq_linformer.reproduction.cells import ROWS, failures, read_all, rows_of

PROVENANCE = cells.Provenance("abc", "command")


@dataclass(frozen=True)
class Counts:
    """A cell that records when it is measured."""

    n: int
    work: float = 0
    traffic: float = 0
    layers: int = 1
    device: str = "cpu"
    dtype: str = "fp32"
    clock: ClassVar[str] = "sun"
    measured: ClassVar[list] = []

    @property
    def name(self):
        return f"counts-n{self.n}"

    def operations(self):
        return self.work

    def score_bytes(self):
        return self.traffic

    def measure(self):
        self.measured.append(self.n)
        return {"n": self.n}


@pytest.fixture
def measured():
    """The n of each cell that is measured in a test."""
    Counts.measured.clear()
    return Counts.measured


@pytest.fixture
def folder(tmp_path, measured):
    """A folder with a cell that is not in ``measured``."""
    cells.measure_cells([Counts(1)], tmp_path, PROVENANCE)
    measured.clear()
    return tmp_path


def test_cells_are_measured_once_within_the_time_budget(tmp_path, measured):
    row = [Counts(1), Counts(2, work=1e30, layers=2), Counts(3)]
    assert cells.measure_cells(row, tmp_path, PROVENANCE, minutes=1) == ["counts-n2"] and measured == [1, 3]
    # The first missing cell is always measured.
    assert cells.measure_cells(row, tmp_path, PROVENANCE, minutes=1) == [] and measured == [1, 3, 2]
    cell = cells.read_cell(tmp_path / "counts-n3.json")
    assert cell["configuration"] == {"n": 3, "work": 0, "traffic": 0, "layers": 1, "device": "cpu", "dtype": "fp32"}
    assert cell["commit"] == "abc" and cell["clock"] == "sun"
    assert cell["measured"] == {"n": 3} and set(cells.REQUIRED_KEYS) <= set(cell)


def test_overhead_of_a_cell_is_predicted_for_the_next(tmp_path, monkeypatch):
    """On a GPU, building models and counting bytes takes most of the time, but has no operations."""
    now = [0.0]
    monkeypatch.setattr(cells.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Counts, "measure", lambda self: now.__setitem__(0, now[0] + 25) or {"n": self.n})
    assert cells.measure_cells([Counts(1), Counts(2), Counts(3)], tmp_path, PROVENANCE, minutes=1) == [
        "counts-n3"
    ] and now == [50]


def test_cell_out_of_memory_is_recorded_as_such(tmp_path, monkeypatch, capsys, measured):
    """It has no numbers, is not measured again, and the other cells still have rows."""
    shape = dict(k=8, layers=1, embed_dim=64, heads=4, vocabulary=100, models=("ours-modules",), rounds=1)
    row = [TrainingCell(n, 1, positions=n, **shape) for n in (16, 32)]
    time_rounds = TrainingCell.time_rounds

    def fail(self, runs, warm_up):
        measured.append(self.n)
        if self.n == 16:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return time_rounds(self, runs, warm_up)

    monkeypatch.setattr(TrainingCell, "time_rounds", fail)
    for _ in range(2):
        assert cells.measure_cells(row, tmp_path, PROVENANCE) == [] and measured == [16, 32]
    assert "n16-bare: 0 s, out of memory" in capsys.readouterr().out
    lost, found = (cells.read_cell(tmp_path / f"{cell.name}.json") for cell in row)
    assert cells.is_out_of_memory(lost) and not cells.is_out_of_memory(found)
    assert lost["measured"] == {"failed": {"all models": "out of memory"}}
    assert {row.n for row in rows_of(read_all(tmp_path))} == {32}
    assert [failures(cell) for cell in read_all(tmp_path)] == [{"all models": "out of memory"}, {}]
    (tmp_path / f"{row[1].name}.json").unlink()
    assert rows_of(read_all(tmp_path)) == []


def test_comparison_that_needs_all_runs_is_out_of_memory_without_one(monkeypatch):
    cell = PerTokenCell((16, 32), k=8, tokens=32, layers=1, embed_dim=64, heads=1)
    monkeypatch.setattr(PerTokenCell, "time_rounds", lambda self, runs, warm_up: {"16": [1.0]})
    with pytest.raises(torch.OutOfMemoryError, match="32"):
        cell.measure()


@pytest.mark.parametrize(
    "row, message",
    [
        ([Counts(9, layers=2), Counts(3, work=7)], "counts-n3 and counts-n1 differ in work"),
        ([Counts(9, layers=2), Counts(1, work=7)], "work must be 0, .*counts-n1.json, got 7"),
    ],
)
def test_cells_that_do_not_fit_one_record_are_rejected_before_measuring(row, message, folder, measured):
    with pytest.raises(ValueError, match=message):
        cells.measure_cells(row, folder, PROVENANCE)
    assert measured == [] and len(list(folder.iterdir())) == 1


def test_other_threads_and_invalid_folders_are_rejected_before_measuring(folder, measured):
    with mock.patch.object(torch, "get_num_threads", lambda: 96):
        with pytest.raises(ValueError, match="threads must be [0-9]+, .*got 96"):
            cells.measure_cells([Counts(1)], folder, PROVENANCE)
        with pytest.raises(ValueError, match="counts-n2 and counts-n1 differ in .*threads"):
            cells.measure_cells([Counts(2)], folder, PROVENANCE)
    with pytest.raises(ValueError, match="counts-n1.json is not a folder"):
        cells.measure_cells([Counts(2)], folder / "counts-n1.json", PROVENANCE)
    with pytest.raises(ValueError, match="minutes"):
        cells.measure_cells([Counts(2)], folder, PROVENANCE, minutes=float("nan"))
    assert measured == []


def test_bytes_do_not_depend_on_rounds(tmp_path):
    shape = dict(
        n=32,
        batch=1,
        positions=32,
        k=8,
        layers=1,
        embed_dim=64,
        heads=4,
        vocabulary=100,
        models=("ours-modules",),
        memory=True,
    )
    cells.measure_cells([TrainingCell(rounds=2, **shape)], tmp_path, PROVENANCE)
    assert cells.measure_cells([TrainingCell(rounds=3, **shape)], tmp_path, PROVENANCE) == []
    with pytest.raises(ValueError, match="batch must be 1, .*got 2"):
        cells.measure_cells([TrainingCell(**{**shape, "batch": 2})], tmp_path, PROVENANCE)


def test_damaged_cells_are_rejected(folder):
    whole = cells.read_cell(folder / "counts-n1.json")
    for content, problem in (
        ("{", ""),
        (json.dumps(whole), "counts-n1"),
        (json.dumps({**whole, "name": "counts-n2", "threads": 1}).replace("threads", "thread"), "threads"),
    ):
        (folder / "counts-n2.json").write_text(content)
        with pytest.raises(ValueError, match=f"counts-n2.json .*{problem}"):
            cells.read_cells(folder, "counts")


def test_group_id_has_other_sizes_than_base_and_options():
    assert options_slug(()) == "" and options_slug(("--compile",)) == "-compile"
    assert options_slug(("--adam-betas", "(0.9, 0.98)")) == "-adam-betas-0-9-0-98"
    base = {"device": "cpu", "dtype": "fp32", "layers": 12, "embed_dim": 768, "k": 256}
    for name, more, entry in (
        ("training-cpu-fp32-l12-n512-bare", {}, "training-cpu-fp32-l12-bare"),
        (
            "process-cpu-fp32-l12-n512",
            {"k": 64, "embed_dim": 128, "options": ["--compile"]},
            "process-cpu-fp32-l12-d128-k64-compile",
        ),
    ):
        assert group_id({"name": name, "configuration": {**base, **more}}) == f"benchmark-{entry}"


@pytest.mark.parametrize(
    "name, peak", [("NVIDIA H200", (989e12, "data sheet")), ("another", (7e12, "a matrix product"))]
)
def test_peak_of_a_gpu_is_that_of_its_data_sheet(name, peak, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: name)
    monkeypatch.setattr(cells, "measure_peak", lambda *_: 7e12)
    monkeypatch.setattr(cells, "hardware", dict)
    cells.measure_cells([Counts(1, device="cuda", dtype="bf16")], tmp_path, PROVENANCE)
    cell = cells.read_cell(tmp_path / "counts-n1.json")
    assert (cell["peak_operations_per_second"], cell["peak_from"]) == peak
    step = {
        "configuration": {"n": 8, "classify": False, "models": ["ours"]},
        "peak_operations_per_second": peak[0],
        "measured": {"tokens": 8, "operations": {"ours": peak[0]}, "seconds": {"ours": [2.0, 4.0, 5.0]}},
    }
    (used,) = [row for row in ROWS["training"](step) if row.metric == "utilization"]
    assert (used.value, used.low, used.high, used.repetitions, used.phase) == (0.25, 0.2, 0.5, 3, "pretraining")
