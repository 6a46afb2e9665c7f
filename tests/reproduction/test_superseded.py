"""Records measured again: the earlier ones stay, with their seals."""

import json

import pytest

from fairseq_linformer.reproduction import ledger, superseded
from fairseq_linformer.reproduction.inputs import Inputs
from fairseq_linformer.reproduction.records import Superseded
from fairseq_linformer.reproduction.superseded import (
    FOLDER,
    begin,
    check_new,
    end,
    put_cells,
    read_superseded,
    supersede,
)

from .experiments import toy
from .sample_records import measurement, record


def measured(value, **changed):
    return record(measurements=[measurement(value=value, interval=(value, value + 1))], **changed)


@pytest.fixture
def results(tmp_path):
    """A ledger with one record."""
    ledger.write(measured(1.0, commit="first"), tmp_path)
    return tmp_path


def test_the_earlier_record_moves_to_the_archive_unchanged(results):
    before = (results / "thing.json").read_bytes()
    new = ledger.read(supersede(measured(2.0, commit="second"), "its commit is gone", results))
    assert (results / FOLDER / "thing.1.json").read_bytes() == before
    assert new.measurements[0].value == 2.0
    assert new.supersedes is not None
    assert (new.supersedes.name, new.supersedes.reason) == ("thing.1", "its commit is gone")
    ((earlier,),) = read_superseded(results).values()
    assert new.supersedes.seal == earlier.seal and earlier.commit == "first"


def test_a_record_measured_three_times(results):
    supersede(measured(2.0), "undecided", results)
    new = ledger.read(supersede(measured(3.0), "still undecided", results))
    assert [each.measurements[0].value for each in read_superseded(results)["thing"]] == [1.0, 2.0]
    assert new.supersedes is not None and new.supersedes.name == "thing.2"


def test_a_call_that_was_stopped_in_between_is_repeated(results, monkeypatch):
    with monkeypatch.context() as stopped:
        stopped.setattr(ledger, "write", lambda *inputs: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            supersede(measured(2.0), "why", results)
    supersede(measured(2.0), "why", results)
    assert [path.name for path in (results / FOLDER).iterdir()] == ["thing.1.json"]
    assert ledger.read(results / "thing.json").measurements[0].value == 2.0


def test_a_record_that_another_process_replaced_stays(results):
    new = measured(2.0, commit="second")
    supersede(new, "why", results)
    before = (results / "thing.json").read_bytes()
    supersede(new, "why", results)
    assert (results / "thing.json").read_bytes() == before and len([*(results / FOLDER).iterdir()]) == 1
    with pytest.raises(ValueError, match="nothing to replace"):
        supersede(new, "another reason", results)


@pytest.mark.parametrize(
    "new, named",
    [
        (measured(1.0, commit="first"), "same measurements.*first"),
        (measured(2.0, commit="abc-dirty"), "clean commit.*abc-dirty"),
        (measured(2.0, identifier="other"), "earlier record.*other.json"),
    ],
)
def test_what_does_not_replace_a_record(results, new, named):
    before = (results / "thing.json").read_bytes()
    with pytest.raises(ValueError, match=named):
        supersede(new, "why", results)
    assert (results / "thing.json").read_bytes() == before and not (results / FOLDER).exists()


def test_the_same_numbers_of_another_commit_replace_a_record(results):
    supersede(measured(1.0, commit="second"), "its commit is gone", results)
    assert ledger.read(results / "thing.json").commit == "second"


def test_damaged_archives_are_rejected(results):
    supersede(measured(2.0), "why", results)
    path = results / FOLDER / "thing.1.json"
    edited = {**json.loads(path.read_text()), "commit": "third"}
    path.write_text(json.dumps(edited))
    with pytest.raises(ValueError, match="thing.1.json.*seal"):
        read_superseded(results)
    path.rename(path.with_name("thing.json"))
    with pytest.raises(ValueError, match="thing.json.*IDENTIFIER.N"):
        read_superseded(results)


def test_a_gap_in_the_numbers_is_rejected(results):
    supersede(measured(2.0), "why", results)
    (results / FOLDER / "thing.1.json").rename(results / FOLDER / "thing.2.json")
    with pytest.raises(ValueError, match="thing.1.json.*got thing.2.json"):
        read_superseded(results)
    assert read_superseded(results / "nowhere") == {}


# Records that grow with their cells


def grown(*lengths, **changed):
    several = [measurement(n=n) for n in lengths]
    return record(measurements=several, made_by="benchmark", **changed)


def test_a_record_of_cells_grows(tmp_path):
    put_cells(grown(1), tmp_path)
    path = put_cells(grown(1, 2), tmp_path)
    assert [m.n for m in ledger.read(path).measurements] == [1, 2]
    assert not (tmp_path / "archive").exists()


@pytest.mark.parametrize(
    "other, named",
    [
        (grown(2), "1 measurements"),
        (record(), "by benchmark"),
        (grown(1, 2).copy_with(measurements=[measurement(n=1, value=1.25), measurement(n=2)]), "1 measurements"),
    ],
)
def test_a_record_never_loses_or_changes_measurements(other, named, tmp_path):
    path = put_cells(grown(1, 2), tmp_path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"thing.json.*{named}"):
        put_cells(other, tmp_path)
    assert path.read_bytes() == before
    path.write_text("my own notes")
    with pytest.raises(ValueError, match="thing.json"):
        put_cells(grown(1, 2), tmp_path)
    assert path.read_text() == "my own notes"


@pytest.mark.parametrize("metric", superseded.DERIVED)
def test_what_depends_on_all_cells_may_change_as_they_are_added(metric, tmp_path):
    few = [measurement(n=1), measurement(metric=metric, value=1.5)]
    more = [measurement(n=1), measurement(n=2), measurement(metric=metric, value=1.25)]
    put_cells(record(measurements=few, made_by="benchmark"), tmp_path)
    path = put_cells(record(measurements=more, made_by="benchmark"), tmp_path)
    assert len(ledger.read(path).measurements) == 3 and not (tmp_path / "archive").exists()


def test_cells_measured_again_replace_a_record_which_then_grows(tmp_path):
    put_cells(grown(1), tmp_path)
    again = measurement(n=1, value=1.25)
    put_cells(record(measurements=[again], made_by="benchmark"), tmp_path, "why")
    path = put_cells(record(measurements=[again, measurement(n=2)], made_by="benchmark"), tmp_path, "why")
    new = ledger.read(path)
    assert new.supersedes is not None and new.supersedes.name == "thing.1"
    assert [m.value for m in new.measurements] == [1.25, 1.5]
    assert [len(found) for found in read_superseded(tmp_path).values()] == [1]


def test_cells_of_the_record_itself_do_not_replace_it(tmp_path):
    put_cells(grown(1), tmp_path)
    with pytest.raises(ValueError, match="a new OUT.*thing.json"):
        check_new(grown(1), "why", tmp_path, "a new OUT")
    check_new(grown(1, identifier="other"), "why", tmp_path, "a new OUT")
    again = record(measurements=[measurement(n=1, value=1.25)], made_by="benchmark")
    check_new(again, "why", tmp_path, "a new OUT")
    put_cells(again, tmp_path, "why")
    check_new(again, "why", tmp_path, "a new OUT")  # resumed
    with pytest.raises(ValueError, match="a new OUT"):
        check_new(again, "another reason", tmp_path, "a new OUT")


# Before hours of work


def test_finished_runs_are_not_measured_again_by_reusing_them(tmp_path):
    old = record(seal="1")
    with pytest.raises(ValueError, match="earlier records of figure-9"):
        begin([], [], tmp_path, "figure-9", "why")
    with pytest.raises(ValueError, match=f"{tmp_path}.*roberta"):
        begin([old], ["roberta", "k=4"], tmp_path, "figure-9", "why")
    begin([old], [], tmp_path, "figure-9", "why")
    begin([old], ["roberta"], tmp_path, "figure-9", "why")  # resumed
    replaced = record(seal="2", supersedes=Superseded(name="thing.1", seal="1", reason="why"))
    begin([replaced], ["roberta"], tmp_path, "figure-9", "why")  # stopped after it was replaced
    with pytest.raises(ValueError, match="--replace must be 'why', .*figure-9.json, got 'another'"):
        begin([old], ["roberta"], tmp_path, "figure-9", "another")
    by_another = record(seal="2", supersedes=Superseded(name="thing.1", seal="1", reason="another"))
    with pytest.raises(ValueError, match="figure-9.json is of other records"):
        begin([by_another], ["roberta"], tmp_path, "figure-9", "why")
    with pytest.raises(ValueError, match="figure-9.json.*thing"):
        begin([record(seal="2")], ["roberta"], tmp_path, "figure-9", "why")
    end(tmp_path, "figure-9")
    with pytest.raises(ValueError, match="roberta"):
        begin([old], ["roberta"], tmp_path, "figure-9", "why")


def test_an_experiment_without_run_folders_leaves_no_mark(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begin([record()], [], None, "figure-9", "why")
    end(None, "figure-9")
    assert not [*tmp_path.iterdir()]


def test_an_experiment_measured_again(tmp_path, monkeypatch):
    results, inputs = tmp_path / "results", Inputs(tmp_path / "runs")
    results.mkdir()
    with pytest.raises(ValueError, match="--replace.*toy"):
        toy.Toy().reproduce("cpu", inputs, results, "true", "why")
    toy.Toy().reproduce("cpu", inputs, results, "true")
    monkeypatch.setattr(toy, "DOUBLE", [6.0])
    with pytest.raises(ValueError, match="different measurement.*--replace"):
        toy.Toy().reproduce("cpu", inputs, results, "true")
    assert "toy-large: holds" in toy.Toy().reproduce("cpu", inputs, results, "true", "the first was wrong")
    ((earlier,),) = read_superseded(results).values()
    assert earlier.measurements[0].value == 2.0
    new = ledger.read(results / "toy-cpu.json")
    assert new.measurements[0].value == 6.0 and new.supersedes is not None
    assert not [*(tmp_path / "runs").glob("cpu/replacing/*")]
