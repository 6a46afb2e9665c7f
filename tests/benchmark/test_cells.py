"""Cells are measured once."""

import re
from dataclasses import dataclass
from typing import ClassVar
from unittest import mock

import pytest
import torch

from fairseq_linformer.benchmark import cells
from fairseq_linformer.benchmark.scaling import PerTokenCell
from fairseq_linformer.benchmark.training import TrainingCell
from fairseq_linformer.reproduction.cells import ROWS, failures, read_all, rows_of

PROVENANCE = cells.Provenance("abc", "command")


@dataclass(frozen=True)
class Counts:
    """A cell that records when it is measured."""

    n: int
    layers: int = 1
    device: str = "cpu"
    dtype: str = "fp32"
    clock: ClassVar[str] = "sun"
    measured: ClassVar[list] = []

    @property
    def name(self):
        return f"counts-n{self.n}"

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


def test_cells_are_measured_once(tmp_path, measured):
    cells.measure_cells([Counts(1)], tmp_path, PROVENANCE)
    cells.measure_cells([Counts(1), Counts(3)], tmp_path, PROVENANCE)
    assert measured == [1, 3]
    cell = cells.read_cell(tmp_path / "counts-n3.json")
    assert cell["configuration"] == {"n": 3, "layers": 1, "device": "cpu", "dtype": "fp32"}
    assert cell["commit"] == "abc" and cell["clock"] == "sun"
    assert cell["measured"] == {"n": 3} and set(cells.REQUIRED_KEYS) <= set(cell)


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
        cells.measure_cells(row, tmp_path, PROVENANCE)
        assert measured == [16, 32]
    assert re.search(r"n16-bare: \d+ s, out of memory", capsys.readouterr().out)
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


def test_other_options_and_invalid_folders_are_rejected_before_measuring(folder, measured):
    with pytest.raises(ValueError, match="layers must be 1, .*counts-n1.json, got 7"):
        cells.measure_cells([Counts(9), Counts(1, layers=7)], folder, PROVENANCE)
    other_threads = mock.patch.object(torch, "get_num_threads", lambda: 96)
    with other_threads, pytest.raises(ValueError, match="threads must be [0-9]+, .*got 96"):
        cells.measure_cells([Counts(1)], folder, PROVENANCE)
    with pytest.raises(ValueError, match="counts-n1.json is not a folder"):
        cells.measure_cells([Counts(2)], folder / "counts-n1.json", PROVENANCE)
    assert measured == [] and len(list(folder.iterdir())) == 1


def test_damaged_cells_are_rejected(folder):
    for content in ("{", "[]", '{"name": "counts-n2"}'):
        (folder / "counts-n2.json").write_text(content)
        with pytest.raises(ValueError, match="counts-n2.json"):
            cells.read_cell(folder / "counts-n2.json")


def test_options_as_part_of_a_name():
    assert cells.options_slug(()) == "" and cells.options_slug(("--compile",)) == "-compile"
    assert cells.options_slug(("--adam-betas", "(0.9, 0.98)")) == "-adam-betas-0-9-0-98"


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
