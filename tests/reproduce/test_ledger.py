"""The ledger refuses what cannot be believed."""

import dataclasses
import json

import pytest

from fairseq_linformer.reproduce.ledger import Entry, Measurement, hardware, read, read_all, seal_of, versions, write


def entry(**changes):
    fields = dict(
        identifier="thing", claim="a thing", paper={"value": None, "where": "not in the paper"},
        measured={"x": Measurement(1.5, "s", [1.0, 2.0], 3)}, scale="smoke", hardware=hardware(), versions=versions(),
        commit="abc", configuration={"n": 4}, data="none of it", command="true", seconds=1.0, date="2026-01-01",
    )  # fmt: skip
    return Entry(**{**fields, **changes})


def test_round_trip(tmp_path):
    path = write(entry(), tmp_path)
    assert path.name == "thing.json" and read(path) == entry()
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("name", ["claim", "measured", "hardware", "versions", "commit", "configuration", "data", "command", "seconds", "date"])
def test_an_entry_that_lacks_something_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match=f"has no {name}"):
        dataclasses.replace(entry(), **{name: type(getattr(entry(), name))()})
    path = write(entry(), tmp_path)
    content = json.loads(path.read_text())
    del content[name]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="is no ledger entry"):
        read(path)


def test_other_refusals(tmp_path):
    with pytest.raises(ValueError, match="scale is 'huge'; it must be one of smoke, cpu, gpu, paper"):
        entry(scale="huge")
    with pytest.raises(ValueError, match="value and where"):
        entry(paper={"value": 3})
    with pytest.raises(ValueError, match="3 repetitions with spread None"):
        Measurement(1.0, "s", None, 3)
    for changes, sentence in (
        (dict(identifier="../evil"), "identifier is '../evil'"),
        (dict(measured={"x": 5}), "no Measurement"),
        (dict(seconds=-5), "seconds is -5; it must be more than 0"),
        (dict(date="yesterday"), "yesterday"),
        (dict(date="20260101"), "date is 20260101; it must be year-month-day"), (dict(hardware={"accelerators": 3}), "accelerators is 3; it must be a list"),
        (dict(seconds=True), "has a seconds that is a bool"),
        (dict(hardware=["AMD"]), "'thing' has a hardware that is a list"), (dict(command=["true"]), "has a command that is a list"),
        (dict(seconds="5"), "has a seconds that is a str"), (dict(curves=[[1, 2]]), "has a curves that is a list"),
        (dict(curves={"k=4": []}), "the curve k=4 must be pairs of numbers, and at least one"), (dict(curves={"k=4": [[1, 2, 3]]}), "the curve k=4"),
        (dict(curves={"k=4": [[1, "2"]]}), "the curve k=4"), (dict(curves={"k=4": [[1, float("nan")]]}), "the curve k=4"), (dict(configuration={"n": float("nan")}), "not JSON compliant"),
        (dict(claim="\ud800"), "surrogates not allowed"), (dict(configuration={"n": ["\udfff"]}), "surrogates not allowed"),
        (dict(paper={"value": None, "where": ""}), "value and where"),
    ):
        with pytest.raises(ValueError, match=sentence):
            entry(**changes)
    for arguments, sentence in (
        ((float("nan"), "s", None, 1), "finite"), (("abc", "s", None, 1), "finite"), ((1.0, "", None, 1), "no unit"),
        ((10**400, "s", None, 1), "finite"), ((True, "s", None, 1), "finite"), ((1.0, 3, None, 1), "no unit"), ((1.0, "s", None, True), "True repetitions"),
        ((1.0, "s", [1, 1], 2.5), "2.5 repetitions"), ((1.0, "s", None, "1"), "1 repetitions"),
        ((5.0, "s", [9, 7], 2), "lowest and the highest"), ((5.0, "s", [1, 5, 9], 3), "lowest and the highest"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            Measurement(*arguments)
    (tmp_path / "y.json").write_text(write(entry(), tmp_path).read_text())
    with pytest.raises(ValueError, match="y.json is no ledger entry: it calls itself thing"):
        read(tmp_path / "y.json")
    for broken in ("{cut off", "[" * 100_000):
        (tmp_path / "x.json").write_text(broken)
        with pytest.raises(ValueError, match="x.json is no ledger entry"):
            read(tmp_path / "x.json")
    (tmp_path / "folder/x.json").mkdir(parents=True)
    with pytest.raises(ValueError, match="x.json is no ledger entry"):
        read_all(tmp_path / "folder")
    with pytest.raises(ValueError, match="nowhere has no ledger entries, for there is no such folder"):
        read_all(tmp_path / "nowhere")


def test_what_this_machine_is():
    assert hardware()["cores"] >= 1 and {"python", "torch"} <= versions().keys()


def test_an_entry_edited_by_hand_is_refused(tmp_path):
    path = write(entry(configuration={"n": 4, "cells": {10: "a", 9: "b"}}), tmp_path)
    assert read(path).seal == seal_of(read(path))
    path.write_text(path.read_text().replace('"value": 1.5', '"value": 1.6'))
    with pytest.raises(ValueError, match="thing.json was changed after it was written: its seal is of other content"):
        read(path)
    content = json.loads(path.read_text())
    for without in ({**content, "seal": ""}, {name: value for name, value in content.items() if name != "seal"}):
        path.write_text(json.dumps(without))
        with pytest.raises(ValueError, match="thing.json was changed after it was written"):
            read(path)
    path.unlink()
    with pytest.raises(ValueError, match="has no ledger entries"):
        read_all(tmp_path)
