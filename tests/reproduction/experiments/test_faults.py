"""The count of faults: of tests that pass, fail, are skipped or cannot start; and the rule from both sides."""

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import ledger, untrained_experiment
from fairseq_linformer.reproduction.experiments import faults
from fairseq_linformer.reproduction.experiments.faults import KILLS, LOST, METRICS, NAME, RANDOM_FAULTS, TRIED
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.records import Measurement
from fairseq_linformer.reproduction.registry import find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..sample_records import record

CONFTEST = """
import sys
sys.path.insert(0, {repository!r})
from tests.conftest import pytest_runtest_makereport  # noqa: F401
"""
TESTS = """
import os
import pytest

@pytest.fixture
def broken():
    raise OSError

@pytest.mark.fault("kill")
@pytest.mark.parametrize("seed", range(int(os.environ["FAULTS"])))
def test_kill(seed):
    assert seed != 1

@pytest.mark.fault("full disk")
def test_setup(broken): pass

@pytest.mark.fault("full disk")
def test_passes(): pass

@pytest.fixture
def left():
    yield
    raise OSError

@pytest.mark.fault("full disk")
def test_teardown(left): pass

@pytest.mark.fault("bits")
@pytest.mark.skip
def test_skipped(): pass

def test_other(): assert False
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    (tmp_path / "tests").mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST.format(repository=str(faults.REPOSITORY)))
    (tmp_path / "tests/test_faults.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    fault: x\n")
    monkeypatch.setattr(faults, "REPOSITORY", tmp_path)
    monkeypatch.setattr(untrained_experiment, "current_commit", lambda: "0" * 40)
    monkeypatch.delenv("FAULT_LOG", raising=False)  # of these tests
    return tmp_path


@pytest.mark.slow
@pytest.mark.long
def test_counts(repository, tmp_path, capfd):
    main(["reproduce", NAME, "--scale", "cpu", "--results", str(tmp_path)])
    measured = ledger.read(tmp_path / f"{NAME}-cpu.json")
    parts = {m.part for m in measured.measurements}
    counts = {part: [measured.find(metric, part=part).value for metric in METRICS] for part in parts}
    assert counts == {"kill": [20, 1, 0], "full disk": [3, 2, 0], "bits": [0, 0, 1]}
    assert find(NAME).claims[0].evaluate([measured], "cpu").outcome == FAILS
    (table,) = find(NAME).tables([measured])
    rows = [["bits", "0", "0", "1"], ["full disk", "3", "2", "0"], ["kill", "20", "1", "0"], ["all", "23", "3", "1"]]
    assert table.rows == rows
    assert "FAILED" not in capfd.readouterr().out  # pytest writes to standard error


@pytest.mark.slow
@pytest.mark.long
def test_tests_that_cannot_run(repository):
    (repository / "tests/test_faults.py").write_text("import nothing_of_this_name")
    with pytest.raises(ValueError, match="status 1"):
        faults.count_faults(["tests"], 1)


def synthetic(counts):
    measurements = [
        Measurement(metric=metric, part=kind, value=float(value), unit="faults")
        for kind, values in counts.items()
        for metric, value in zip((TRIED, LOST), values)
    ]
    configuration = faults.SIZES["cpu"]
    return record(
        identifier=f"{NAME}-cpu",
        experiment=NAME,
        measurements=measurements,
        commit="0" * 40,
        configuration=configuration,
    )


@pytest.mark.parametrize("kind", RANDOM_FAULTS)
def test_rule(kind):
    (claim,) = find(NAME).claims
    enough = {**dict.fromkeys(RANDOM_FAULTS, (20, 0)), "hostile file": (1, 0)}

    def outcome(counted=(20, 0), **others):
        counts = {k: v for k, v in {**enough, kind: counted, **others}.items() if v}
        return claim.evaluate([synthetic(counts)], "cpu").outcome

    assert outcome() == HOLDS
    assert outcome((19, 0)) == outcome(None) == UNDECIDED
    assert outcome((20, 1)) == outcome(**{"hostile file": (9, 1)}) == FAILS
    assert claim.evaluate([], "cpu").outcome == UNMEASURED


def test_kinds():
    """Those of the tests."""
    from tests.launching.test_kills import PHASES

    assert {kind.rpartition(", ")[2] for kind in KILLS} == set(PHASES)
    tests = "".join(path.read_text() for path in (faults.REPOSITORY / "tests").rglob("test_*.py"))
    assert all(f'pytest.mark.fault("{kind}")' in tests for kind in set(RANDOM_FAULTS) - set(KILLS))


def test_bad_input(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="--minutes"):
        find(NAME).check("cpu", Inputs(minutes=1))
    monkeypatch.setattr(faults, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pytest"):
        find(NAME).check("cpu", Inputs())
    monkeypatch.setattr(faults, "REPOSITORY", tmp_path)
    with pytest.raises(ValueError, match=str(tmp_path)):
        find(NAME).check("cpu", Inputs())
