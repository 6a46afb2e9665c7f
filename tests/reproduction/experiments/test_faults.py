"""The count of faults: of tests that pass, fail, are skipped or cannot start; and the rule from both sides."""

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.reproduction import records as ledger
from fairseq_linformer.reproduction.experiments import faults
from fairseq_linformer.reproduction.experiments.faults import LOST, NAME, TRIED
from fairseq_linformer.reproduction.records import Measurement
from fairseq_linformer.reproduction.registry import Inputs, find
from fairseq_linformer.reproduction.statistics import FAILS, HOLDS, UNDECIDED, UNMEASURED

from ..sample_records import record

CONFTEST = """
from tests.conftest import pytest_runtest_makereport
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
    monkeypatch.setattr(faults, "current_commit", lambda: "0" * 40)
    monkeypatch.delenv("FAULT_LOG", raising=False)  # of these tests
    return tmp_path


@pytest.mark.slow
def test_counts(repository, tmp_path, capfd):
    main(["reproduce", NAME, "--scale", "cpu", "--results", str(tmp_path)])
    measured = ledger.read(tmp_path / f"{NAME}-cpu.json")
    counts = {m.part: (m.value, measured.find(LOST, part=m.part).value) for m in measured.select(TRIED)}
    assert counts == {"kill": (20, 1), "full disk": (2, 1)}
    assert find(NAME).claims[0].evaluate([measured], "cpu").outcome == FAILS
    (table,) = find(NAME).tables([measured])
    assert table.rows == [["full disk", "2", "1"], ["kill", "20", "1"], ["all", "22", "2"]]
    assert "FAILED" not in capfd.readouterr().out  # pytest writes to standard error


@pytest.mark.slow
def test_tests_that_cannot_run(repository):
    (repository / "tests/test_faults.py").write_text("import nothing_of_this_name")
    with pytest.raises(ValueError, match="status 2"):
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


@pytest.mark.parametrize(
    "counts, outcome",
    [
        ({"SIGKILL of one rank": (20, 0), "full disk": (1, 0)}, HOLDS),
        ({"SIGKILL of one rank": (19, 0), "full disk": (1, 0)}, UNDECIDED),
        ({"SIGKILL of one rank": (20, 0), "full disk": (9, 1)}, FAILS),
    ],
)
def test_rule(counts, outcome):
    (claim,) = find(NAME).claims
    assert claim.evaluate([synthetic(counts)], "cpu").outcome == outcome
    assert claim.evaluate([], "cpu").outcome == UNMEASURED


def test_bad_input(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="--minutes"):
        find(NAME).check("cpu", Inputs(minutes=1))
    monkeypatch.setattr(faults, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pytest"):
        find(NAME).check("cpu", Inputs())
    monkeypatch.setattr(faults, "REPOSITORY", tmp_path)
    with pytest.raises(ValueError, match=str(tmp_path)):
        find(NAME).check("cpu", Inputs())
