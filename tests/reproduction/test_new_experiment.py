"""An experiment is added as one file, and one word in ``MODULES``: every command and the report have it."""

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import registry
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.ledger import put, read
from fairseq_linformer.reproduction.registry import claims, experiments, find, listing
from fairseq_linformer.reproduction.report import build

from .experiments import toy


@pytest.fixture
def ledger(tmp_path):
    folder = tmp_path / "ledger"
    folder.mkdir()
    return folder


@pytest.fixture
def with_toy(monkeypatch):
    """One line more in MODULES."""
    real, name = registry.import_module, "toy"
    monkeypatch.setattr(registry, "MODULES", (*registry.MODULES, name))
    monkeypatch.setattr(
        registry, "import_module", lambda path, package: toy if path == f".experiments.{name}" else real(path, package)
    )
    monkeypatch.setattr(toy, "DOUBLE", [2.0])
    experiments.cache_clear()
    yield
    experiments.cache_clear()


@pytest.fixture
def command(capsys, ledger):
    """``fairseq-linformer reproduce``; its error or its output."""

    def command(*words):
        try:
            main(["reproduce", *map(str, words), "--results", str(ledger)])
        except SystemExit as end:
            return str(end.code)
        return capsys.readouterr().out

    return command


def test_a_new_experiment_is_reproduced(with_toy, command, ledger):
    said = command("toy", "--scale", "cpu")
    record = read(ledger / "toy-cpu.json")
    assert record.command == "fairseq-linformer reproduce toy --scale cpu" and record.find("double").value == 2.0
    lines = said.splitlines()
    assert [line.split(":")[0] for line in lines if line[0] != " "] == ["ledger", "toy-small", "toy-large"]
    outcomes = {line.split(":")[0]: line for line in lines}
    assert "holds at scale cpu" in outcomes["toy-small"] and "does not hold at scale cpu" in outcomes["toy-large"]
    assert sum("2" in line and line.startswith("  ") for line in lines) == 2  # the number of each


def test_a_new_experiment_is_listed(with_toy, command):
    rows = {tuple(line.split()[:2]): line for line in command("list").splitlines()}
    assert "next to nothing" in rows["toy", "smoke"] and rows["toy", "cpu"].endswith("not measured")
    command("toy", "--scale", "smoke")
    rows = {tuple(line.split()[:2]): line for line in command("list").splitlines()}
    assert rows["toy", "smoke"].endswith(" toy-smoke") and rows["toy", "cpu"].endswith("not measured")
    assert find("toy") is toy.EXPERIMENTS[0] and [*claims()][-2:] == ["toy-small", "toy-large"]


def test_a_new_experiment_is_in_the_report(with_toy, command, ledger, tmp_path):
    command("toy", "--scale", "cpu")
    build.write(ledger, tmp_path / "page.html")
    page, text, cells = ((tmp_path / f"page.{end}").read_text() for end in ("html", "md", "csv"))
    for where in (page, text):
        assert "A toy" in where and "Twice one is more than 5." in where and "Holds if more than 1." in where
        assert "toys" in where
    assert 'id="claim-toy-small"' in page and "toy-large" in cells


def test_listing_by_maker(ledger, with_toy):
    (record,) = find("toy").measure("cpu", Inputs(), "c")
    put(record.copy_with(made_by="benchmark", identifier="toy-benchmark"), ledger)
    lines = [line for line in listing(ledger) if line.startswith("toy ")]
    assert len(lines) == 3 and lines[1].endswith("not measured") and lines[2].endswith(" toy-benchmark")
    put(record.copy_with(identifier="toy-two"), ledger)
    put(record, ledger)
    lines = [line for line in listing(ledger) if line.startswith("toy ")]
    assert lines[1].endswith(" toy-cpu, toy-two") and lines[2].endswith(" toy-benchmark")


def test_what_is_unknown(command):
    for words, name in ((["figure-9"], "figure-9"), ([], "list")):
        assert (said := command(*words)).startswith("fairseq-linformer: ") and name in said
    with pytest.raises(ValueError, match="toy.*figure-3a"):
        find("toy")
