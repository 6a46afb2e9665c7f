"""``measure_parts``: which parts of an experiment are measured."""

import fcntl
from types import ModuleType

import pytest

from fairseq_linformer.reproduction.parts import measure_parts
from fairseq_linformer.reproduction.result import Row


@pytest.fixture
def run(tmp_path):
    """A function that measures the parts a, b and c of an experiment, and returns those that were."""
    toy, measured = ModuleType("toy"), []

    def run_part(inputs):
        measured.append(inputs.part)
        return inputs.result([Row(metric="fun", value=1.0)], "none")

    toy.PARTS, toy.run, toy.verdicts = {"smoke": dict.fromkeys("abc", ())}, run_part, lambda results: []

    def run(part=None, **options):
        measured.clear()
        list(measure_parts(toy, "toy", "smoke", part, str(tmp_path / "runs"), str(tmp_path / "results"), **options))
        return measured

    return run


def test_parts_that_are_measured(run):
    assert run("b") == ["b"]
    assert run(missing=True) == ["a", "c"]
    assert run(missing=True) == [] and run() == ["a", "b", "c"]


def test_parts_that_another_process_measures_are_not_missing(run, tmp_path):
    (tmp_path / "runs/smoke").mkdir(parents=True)
    with open(tmp_path / "runs/smoke/.toy b.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert run(missing=True) == ["a", "c"]
    assert run(missing=True) == ["b"]
