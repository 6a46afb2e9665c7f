"""Units of work: order, time budget, and locks that other processes hold."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from fairseq_linformer.reproduction import shared_work
from fairseq_linformer.reproduction.shared_work import LOCKS, Unit, lock, work_through


def build_units(folder: Path, needs: dict[str, str], ran: list[str]) -> list[Unit]:
    """A unit per name; each creates a file, and is ready if the file of the unit that it needs exists."""

    def run(name):
        ran.append(name)
        (folder / name).touch()

    return [
        Unit(
            name,
            (folder / name).exists,
            lambda until, name=name: run(name),
            lambda need=need: not need or (folder / need).exists(),
        )
        for name, need in needs.items()
    ]


def play_the_other(folder: Path, unit: str, other: ExitStack) -> Callable[[float], None]:
    """Lock a unit, as another process that is running it does; what is returned ends that process with its result."""
    other.enter_context(lock(folder / LOCKS / unit))

    def end(seconds: float) -> None:
        (folder / unit).touch()
        other.close()

    return end


def test_what_becomes_ready_runs_and_what_is_done_does_not(tmp_path):
    ran: list[str] = []
    units = build_units(tmp_path, {"b": "a", "a": "", "c": "missing"}, ran)
    assert work_through(units, tmp_path, None) == ["c"] and ran == ["a", "b"]
    assert work_through(units, tmp_path, None) == ["c"] and ran == ["a", "b"]


def test_a_spent_budget_starts_one_unit(tmp_path):
    ran: list[str] = []
    units = build_units(tmp_path, {"a": "", "b": ""}, ran)
    assert work_through(units, tmp_path, time.monotonic()) == ["b"] and ran == ["a"]


def test_units_of_another_process_are_left_to_it(tmp_path):
    """flock belongs to the open file, so that this process can play the other one."""
    ran: list[str] = []
    units = build_units(tmp_path, {"a": "", "b": ""}, ran)
    with lock(tmp_path / LOCKS / "a") as is_mine:
        assert is_mine and work_through(units, tmp_path, None) == ["a"]
    assert work_through(units, tmp_path, None) == [] and ran == ["b", "a"]


def test_the_result_of_another_process_is_awaited(tmp_path, monkeypatch):
    ran: list[str] = []
    units = build_units(tmp_path, {"b": "a", "a": ""}, ran)
    with ExitStack() as other:
        end_other = play_the_other(tmp_path, "a", other)
        assert work_through(units, tmp_path, time.monotonic()) == ["b", "a"]  # the budget is spent
        monkeypatch.setattr(shared_work.time, "sleep", end_other)
        assert work_through(units, tmp_path, None) == [] and ran == ["b"]


def test_the_first_result_of_other_processes_is_awaited(tmp_path, monkeypatch):
    ran: list[str] = []
    units = build_units(tmp_path, {"a": "", "b": "", "c": "b"}, ran)
    with lock(tmp_path / LOCKS / "a"), ExitStack() as other:
        monkeypatch.setattr(shared_work.time, "sleep", play_the_other(tmp_path, "b", other))
        assert work_through(units, tmp_path, None) == ["a"] and ran == ["c"]


def test_the_last_unit_of_another_process_is_awaited_on_request(tmp_path, monkeypatch):
    ran: list[str] = []
    units = build_units(tmp_path, {"a": ""}, ran)
    with ExitStack() as other:
        end_other = play_the_other(tmp_path, "a", other)
        assert work_through(units, tmp_path, None) == ["a"]
        assert work_through(units, tmp_path, time.monotonic(), wait=True) == ["a"]  # the budget is spent
        monkeypatch.setattr(shared_work.time, "sleep", end_other)
        assert work_through(units, tmp_path, None, wait=True) == [] and ran == []


def test_the_unit_of_a_killed_process_is_run(tmp_path, monkeypatch):
    ran: list[str] = []
    units = build_units(tmp_path, {"b": "a", "a": ""}, ran)
    with ExitStack() as other:
        other.enter_context(lock(tmp_path / LOCKS / "a"))
        monkeypatch.setattr(shared_work.time, "sleep", lambda seconds: other.close())
        assert work_through(units, tmp_path, None) == [] and ran == ["a", "b"]
