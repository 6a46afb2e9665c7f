"""``fairseq-linformer reproduce``: options, rejections before anything is written, the command in a record."""
# ruff: noqa: F811 (fixtures are imported)

import re

import pytest

from fairseq_linformer import machine
from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import registry, verify
from fairseq_linformer.reproduction.records import read
from fairseq_linformer.reproduction.registry import Inputs, find

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


REFUSED = [
    (["figure-9"], "'figure-9'.*figure-3a.*table-2"),
    ([], "list"),
    (["figure-3a", "--scale", "huge"], "--scale.*huge.*smoke, cpu, encoder, gpu, paper"),
    (["figure-3a", "--minutes", "0"], "--minutes.*0"),
    (["figure-3a", "--minutes", "-1"], "--minutes.*-1"),
    (["figure-3a", "--minutes", "nan"], "--minutes.*nan"),
    (["figure-3a", "--minutes", "inf"], "--minutes.*inf"),
    (["figure-3a"], "--data"),
    (["figure-3a", "--data", "nowhere"], "--data.* nowhere.*dict.txt"),
    (["figure-3a", "--data", "two\nlines"], "--data.* two lines"),
    (["figure-3a", "--data", "two:folders"], "--data .*':'.*two:folders"),
    (["figure-3a", "--data", "${x}"], r"--data .*'\$\{'.*\$\{x\}"),
    (["parameters", "--data", "nowhere"], "--data.* nowhere"),
    (["figure-3a", "--tasks", "nowhere"], "--data"),
    (["parameters", "--tasks", "nowhere"], "--tasks.* nowhere"),
    (["parameters", "--runs", "nowhere"], "--runs.* nowhere"),
    (["table-2", "--data", "nowhere"], "--tasks"),
    (["theorem-1", "--minutes", "3"], "--minutes.*3"),
    (["theorem-1", "--scale", "gpu"], "gpu.*smoke, cpu"),
    (["theorem-1", "--scale", "paper"], "theorem-1.*figure-3a.*table-2"),
    (["figure-3a", "--scale", "paper", "--minutes", "1"], "--minutes.*paper"),
    (["figure-3a", "--scale", "paper", "--replace", "why"], "--replace.*paper"),
    (["figure-3a", "--scale", "paper"], "--data"),
    (["list", "--replace", "why"], "--replace.*list"),
    (["--verify", "figure-3a-cpu", "--replace", "why"], "--replace.*--verify"),
    (["parameters", "--scale", "smoke", "--replace", "why"], "--replace.*parameters"),
    (["table-2", "--scale", "paper"], "--tasks"),
    (["table-2", "--scale", "paper", "--data", "nowhere"], "--data.* nowhere"),
    (["table-2", "--scale", "paper", "--data", "nowhere", "--tasks", "t"], "--data.* nowhere"),
    (["figure-3a", "--dry-run"], "--dry-run.*paper"),
    (["figure-3a", "--data", "t", "--results", "nowhere"], "--results.* nowhere"),
    (["figure-3a", "--scale", "paper", "--data", "t", "--results", "nowhere"], "--results.* nowhere"),
    (["--verify", "lost"], "lost.json"),
    (["--verify", ""], "--verify"),
    (["--verify", "../results/theorem-1-smoke"], "--verify.* ../results/theorem-1-smoke"),
    (["--verify", "lost", "--scale", "cpu"], "--scale.*--verify lost"),
    (["--verify", "lost", "--dry-run"], "--dry-run.*--verify lost"),
    (["figure-3a", "--verify", "lost"], "--verify lost.*figure-3a"),
    (["list", "--minutes", "3"], "--minutes.*list"),
    (["list", "--scale", "cpu"], "--scale.*list"),
    (["list", "--data", ""], "--data must"),
    (["list", "--tasks", "t"], "--tasks.*list"),
    (["list", "--runs", "nowhere"], "--runs.*list"),
    (["list", "--dry-run"], "--dry-run.*list"),
    (["list", "--results", "nowhere"], "--results.* nowhere"),
]


@pytest.mark.parametrize("words, problem", REFUSED)
def test_bad_input_is_one_sentence_and_writes_nothing(reproduce, tmp_path, words, problem):
    ended = reproduce(*words)
    assert ended.startswith("fairseq-linformer: ") and "\n" not in ended and re.search(problem, ended)
    assert [path.name for path in tmp_path.rglob("*")] == ["ledger"]


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
    monkeypatch.setattr(registry.Experiment, "reproduce", lambda *arguments: calls.append(arguments) or "done")
    return calls


def test_options_reach_the_experiment(reproduce, called, text):
    assert reproduce("scratch", "--data", text, "--minutes", "2.5", "--runs", "there", "--scale", "smoke") == "done\n"
    experiment, scale, inputs, folder, command, replace = called[0]
    assert replace is None
    assert (experiment, scale, folder) == (find("scratch"), "smoke", "ledger")
    assert inputs == Inputs(runs="there", data=str(text), tasks=None, minutes=2.5)
    assert command == "fairseq-linformer reproduce scratch --scale smoke --data text"


def test_the_default_scale_is_cpu(reproduce, called):
    reproduce("theorem-1")
    assert called[0][1:] == ("cpu", Inputs(), "ledger", "fairseq-linformer reproduce theorem-1 --scale cpu", None)


def test_the_reason_for_replacing_is_one_line_that_the_recorded_command_lacks(reproduce, called):
    reproduce("theorem-1", "--replace", "its commit\n is gone ")
    assert called[0][4:] == ("fairseq-linformer reproduce theorem-1 --scale cpu", "its commit is gone")
    reproduce("theorem-1", "--replace", " ")  # argparse rejects it
    assert len(called) == 1


def test_the_command_has_folders_by_their_names(reproduce, called, tmp_path):
    (tmp_path / "my text").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "my text")
    (tmp_path / "tasks").mkdir()
    reproduce("table-2", "--data", "link", "--tasks", tmp_path / "tasks/../tasks")
    assert called[0][4] == "fairseq-linformer reproduce table-2 --scale cpu --data 'my text' --tasks tasks"


def test_verification_reads_the_same_inputs(reproduce, monkeypatch):
    calls = []
    monkeypatch.setattr(verify, "verify", lambda *arguments: calls.append(arguments) or "verified")
    assert (
        reproduce("--verify", "a-cpu", "--data", "t", "--tasks", "s", "--runs", "r", "--minutes", "1") == "verified\n"
    )
    assert calls == [("a-cpu", "ledger", Inputs("r", "t", "s", 1.0))]


def test_the_ledger_is_checked_before_hours_of_work(reproduce, called, ledger):
    (ledger / "damaged.json").write_text("{")
    assert "damaged.json" in reproduce("theorem-1") and not called


@pytest.mark.parametrize("words", [["parameters"], ["figure-3a", "--data", "text"]])
def test_uncommitted_changes_are_rejected_above_the_smoke_scale(reproduce, monkeypatch, ledger, text, words):
    """Before anything is measured."""
    monkeypatch.setattr(machine, "changed_files", lambda folder=None: ["code.py"])
    monkeypatch.setattr(registry.Experiment, "measure", lambda *inputs: pytest.fail("measured"))
    words = [str(text) if word == "text" else word for word in words]
    assert re.search("clean commit.*-dirty.*code.py", reproduce(*words, "--scale", "cpu"))
    assert not [*ledger.iterdir()]


def test_uncommitted_changes_are_allowed_at_the_smoke_scale(reproduce, monkeypatch, ledger):
    monkeypatch.setattr(machine, "changed_files", lambda folder=None: ["code.py"])
    assert "theorem-1" in reproduce("theorem-1", "--scale", "smoke")
    (path,) = ledger.iterdir()
    assert read(path).commit.endswith("-dirty")
