"""Cells are measured once, in pieces of minutes, and only together with cells that fit."""

import json
from dataclasses import dataclass
from typing import ClassVar
from unittest import mock

import pytest
import torch

from fairseq_linformer.benchmark import cells
from fairseq_linformer.benchmark.entries import entry_of, slug
from fairseq_linformer.benchmark.training import Training
from fairseq_linformer.reproduction.cells import kinds, records_in

WHO = cells.Provenance("abc", "command")


@dataclass(frozen=True)
class Counts:
    """A cell that records when it is measured."""

    n: int
    work: float = 0
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

    def measure(self):
        self.measured.append(self.n)
        return {"n": self.n}


@pytest.fixture
def measured():
    """The n of every cell that is measured in this test."""
    Counts.measured.clear()
    return Counts.measured


@pytest.fixture
def one(tmp_path, measured):
    """A folder with one cell, which does not count as measured."""
    cells.measure([Counts(1)], tmp_path, WHO)
    measured.clear()
    return tmp_path


def test_a_cell_is_measured_once_and_one_that_would_take_too_long_is_left(tmp_path, measured):
    row = [Counts(1), Counts(2, work=1e30, layers=2), Counts(3)]
    assert cells.measure(row, tmp_path, WHO, minutes=1) == ["counts-n2"] and measured == [1, 3]
    assert cells.measure(row, tmp_path, WHO, minutes=1) == [] and measured == [1, 3, 2]  # the first is always begun
    cell = cells.read(tmp_path / "counts-n3.json")
    assert (
        cell["configuration"] == {"n": 3, "work": 0, "layers": 1, "device": "cpu", "dtype": "fp32"}
        and cell["commit"] == "abc"
        and cell["clock"] == "sun"
    )
    assert cell["measured"] == {"n": 3} and set(cells.KEYS) <= set(cell)


def test_the_overhead_of_a_cell_is_foreseen_for_the_next(tmp_path, monkeypatch):
    """Making and counting models is most of the time on a GPU, and no operations say so."""
    now = [0.0]
    monkeypatch.setattr(cells.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Counts, "measure", lambda self: now.__setitem__(0, now[0] + 25) or {"n": self.n})
    assert cells.measure([Counts(1), Counts(2), Counts(3)], tmp_path, WHO, minutes=1) == ["counts-n3"] and now == [50]


def test_a_cell_without_room_is_reported_and_the_next_is_measured(tmp_path, monkeypatch, capsys):
    def measure(self):
        if self.n == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return {"n": self.n}

    monkeypatch.setattr(Counts, "measure", measure)
    assert cells.measure([Counts(1), Counts(2)], tmp_path, WHO) == [] and [
        path.name for path in tmp_path.iterdir()
    ] == ["counts-n2.json"]
    assert "counts-n1: not measured" in capsys.readouterr().out


@pytest.mark.parametrize(
    "row, named",
    [
        ([Counts(9, layers=2), Counts(3, work=7)], "counts-n3 and counts-n1 differ in work"),
        ([Counts(9, layers=2), Counts(1, work=7)], "counts-n1.json was measured with work 0, and not 7"),
    ],
)
def test_a_cell_that_no_report_would_accept_is_refused_before_anything_is_measured(row, named, one, measured):
    with pytest.raises(ValueError, match=named):
        cells.measure(row, one, WHO)
    assert measured == [] and len(list(one.iterdir())) == 1


def test_other_threads_and_a_path_that_is_no_folder_are_refused_before_anything_is_measured(one, measured):
    with mock.patch.object(torch, "get_num_threads", lambda: 96):
        with pytest.raises(ValueError, match="threads [0-9]+, and not 96"):
            cells.measure([Counts(1)], one, WHO)
        with pytest.raises(ValueError, match="counts-n2 and counts-n1 differ in .*threads"):
            cells.measure([Counts(2)], one, WHO)
    with pytest.raises(ValueError, match="counts-n1.json is not a folder"):
        cells.measure([Counts(2)], one / "counts-n1.json", WHO)
    with pytest.raises(ValueError, match="minutes"):
        cells.measure([Counts(2)], one, WHO, minutes=float("nan"))
    assert measured == []


def test_rounds_mean_nothing_to_bytes(tmp_path):
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
    cells.measure([Training(rounds=2, **shape)], tmp_path, WHO)
    assert cells.measure([Training(rounds=3, **shape)], tmp_path, WHO) == []
    with pytest.raises(ValueError, match="batch 1, and not 2"):
        cells.measure([Training(**{**shape, "batch": 2})], tmp_path, WHO)


def test_a_damaged_cell_is_named(one):
    whole = cells.read(one / "counts-n1.json")
    for content, problem in (
        ("{", ""),
        (json.dumps(whole), "counts-n1"),
        (json.dumps({**whole, "name": "counts-n2", "threads": 1}).replace("threads", "thread"), "threads"),
    ):
        (one / "counts-n2.json").write_text(content)
        with pytest.raises(ValueError, match=f"counts-n2.json is no cell.*{problem}"):
            cells.read_all(one, "counts")
    (one / "whole-n1.json").write_text(
        json.dumps({**whole, "name": "whole-n1", "measured": {"seconds": {"ours": [1.0, 2.0], "roberta": [1.0]}}})
    )
    with pytest.raises(ValueError, match="whole-n1.json is a damaged cell: .*1 rounds against 2"):
        records_in(one)


def test_cells_of_two_machines_are_not_one_entry(tmp_path):
    for n in (16, 32):
        cells.measure(
            [
                Training(
                    n, 1, ("ours-modules",), positions=n, k=4, layers=1, embed_dim=64, heads=1, vocabulary=20, rounds=1
                )
            ],
            tmp_path,
            WHO,
        )
    path = tmp_path / "training-cpu-fp32-l1-n32-bare.json"
    path.write_text(json.dumps({**cells.read(path), "threads": 96}))
    with pytest.raises(ValueError, match="differ in .*threads"):
        records_in(tmp_path)


def test_an_entry_is_named_by_sizes_that_are_not_base_size_and_by_options():
    assert (
        slug(()) == ""
        and slug(("--compile",)) == "-compile"
        and slug(("--adam-betas", "(0.9, 0.98)")) == "-adam-betas-0-9-0-98"
    )
    base = {"device": "cpu", "dtype": "fp32", "layers": 12, "embed_dim": 768, "k": 256}
    for name, more, entry in (
        ("training-cpu-fp32-l12-n512-bare", {}, "training-cpu-fp32-l12-bare"),
        (
            "process-cpu-fp32-l12-n512",
            {"k": 64, "embed_dim": 128, "options": ["--compile"]},
            "process-cpu-fp32-l12-d128-k64-compile",
        ),
    ):
        assert entry_of({"name": name, "configuration": {**base, **more}}) == f"benchmark-{entry}"


@pytest.mark.parametrize(
    "name, peak", [("NVIDIA H200", (989e12, "data sheet")), ("another", (7e12, "a matrix product"))]
)
def test_a_cell_of_a_gpu_records_the_peak_of_its_data_sheet(name, peak, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: name)
    monkeypatch.setattr(cells, "measured_peak", lambda *_: 7e12)
    monkeypatch.setattr(cells, "hardware", dict)
    cells.measure([Counts(1, device="cuda", dtype="bf16")], tmp_path, WHO)
    found = cells.read(tmp_path / "counts-n1.json")
    assert (found["peak_operations_per_second"], found["peak_from"]) == peak
    step = {
        "configuration": {"n": 8, "classify": False, "models": ["ours"]},
        "peak_operations_per_second": peak[0],
        "measured": {"tokens": 8, "operations": {"ours": peak[0]}, "seconds": {"ours": [2.0, 4.0, 5.0]}},
    }
    kind, _ = kinds()["training"]
    (used,) = [m for m in kind.measurements(step) if m.metric == "utilization"]
    assert (used.value, used.interval, used.repetitions, used.n, used.phase) == (0.25, (0.2, 0.5), 3, 8, "pretraining")
