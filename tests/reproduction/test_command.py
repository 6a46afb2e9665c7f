"""``fairseq-linformer reproduce``: options, rejections before anything is written, the command in a record."""
# ruff: noqa: F811 (fixtures are imported)

import re

import pytest

from fairseq_linformer import machine
from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import experiment
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.ledger import read
from fairseq_linformer.reproduction.registry import find

from .trainer import text  # noqa: F401


@pytest.fixture
def ledger(tmp_path):
    (tmp_path / "ledger").mkdir()
    return tmp_path / "ledger"


@pytest.fixture
def reproduce(capsys, monkeypatch, tmp_path, ledger):
    """From an empty folder, with a ledger; its error or its output."""
    monkeypatch.chdir(tmp_path)

    def reproduce(*words):
        try:
            main(["reproduce", *map(str, words), *["--results", "ledger"] * ("--results" not in words)])
        except SystemExit as end:
            return str(end.code)
        return capsys.readouterr().out

    return reproduce


def test_a_read_only_ledger_is_rejected(reproduce, ledger, monkeypatch):
    monkeypatch.setattr("os.access", lambda *arguments: False)
    assert re.search("--results .*ledger", reproduce("parameters", "--scale", "smoke"))
    assert not [*ledger.iterdir()]


def test_runs_that_cannot_be_written_are_rejected(reproduce, text, tmp_path):
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in reproduce("scratch", "--scale", "smoke", "--data", text, "--runs", "file/runs")


@pytest.fixture
def called(monkeypatch):
    """The arguments of ``Experiment.reproduce``."""
    calls = []
    monkeypatch.setattr(experiment.Experiment, "reproduce", lambda *arguments: calls.append(arguments) or "done")
    return calls


def test_options_reach_the_experiment(reproduce, called, text):
    assert reproduce("scratch", "--data", text, "--minutes", "2.5", "--runs", "there", "--scale", "smoke") == "done\n"
    experiment, scale, inputs, folder, command = called[0]
    assert (experiment, scale, folder) == (find("scratch"), "smoke", "ledger")
    assert inputs == Inputs(runs="there", data=str(text), tasks=None, minutes=2.5)
    assert command == "fairseq-linformer reproduce scratch --scale smoke --data text"


def test_the_default_scale_is_cpu(reproduce, called):
    reproduce("theorem-1")
    assert called[0][1:] == ("cpu", Inputs(), "ledger", "fairseq-linformer reproduce theorem-1 --scale cpu")


def test_the_command_has_folders_by_their_names(reproduce, called, tmp_path):
    (tmp_path / "my text").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "my text")
    (tmp_path / "tasks").mkdir()
    reproduce("table-2", "--data", "link", "--tasks", tmp_path / "tasks/../tasks")
    assert called[0][4] == "fairseq-linformer reproduce table-2 --scale cpu --data 'my text' --tasks tasks"


def test_the_ledger_is_checked_before_hours_of_work(reproduce, called, ledger):
    (ledger / "damaged.json").write_text("{")
    assert "damaged.json" in reproduce("theorem-1") and not called


@pytest.mark.parametrize("words", [["parameters"], ["figure-3a", "--data", "text"]])
def test_uncommitted_changes_are_rejected_above_the_smoke_scale(reproduce, monkeypatch, ledger, text, words):
    """Before anything is measured."""
    monkeypatch.setattr(machine, "changed_files", lambda folder=None: ["code.py"])
    monkeypatch.setattr(experiment.Experiment, "measure", lambda *inputs: pytest.fail("measured"))
    words = [str(text) if word == "text" else word for word in words]
    assert re.search("clean commit.*-dirty.*code.py", reproduce(*words, "--scale", "cpu"))
    assert not [*ledger.iterdir()]


@pytest.mark.slow
def test_uncommitted_changes_are_allowed_at_the_smoke_scale(reproduce, monkeypatch, ledger):
    monkeypatch.setattr(machine, "changed_files", lambda folder=None: ["code.py"])
    assert "theorem-1" in reproduce("theorem-1", "--scale", "smoke")
    (path,) = ledger.iterdir()
    assert read(path).commit.endswith("-dirty")
