"""Records: what is rejected, the seal, and writing without overwriting."""

import json
import os
import re
from subprocess import CalledProcessError

import pytest
from pydantic import ValidationError as ValidationError

from fairseq_linformer import machine
from fairseq_linformer.files import fingerprint
from fairseq_linformer.reproduction import ledger, records
from fairseq_linformer.reproduction.records import (
    KEY_FIELDS,
    Curve,
    Measurement,
    Paper,
    Record,
    circumstances,
    significant,
    summarize_repetitions,
)

from .sample_records import measurement, record

REQUIRED = (
    "identifier",
    "made_by",
    "claim",
    "paper",
    "measurements",
    "scale",
    "hardware",
    "versions",
    "commit",
    "configuration",
    "data",
    "command",
    "seconds",
    "date",
)
OPTIONAL = {"experiment", "curves", "tolerance", "schema_version"}


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# Fields


def test_every_field_is_required_or_known_to_be_optional():
    assert set(Record.model_fields) == {*REQUIRED, *OPTIONAL}


@pytest.mark.parametrize("name", REQUIRED)
def test_a_record_without_a_field_is_rejected(name, tmp_path):
    fields = {field: getattr(record(), field) for field in Record.model_fields if field != name}
    with pytest.raises(ValueError, match=name):
        Record(**fields)
    path = ledger.put(record(), tmp_path)
    content = json.loads(path.read_text())
    del content[name]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"thing.json.*{name}"):
        ledger.read(path)


@pytest.mark.parametrize("name", sorted({*REQUIRED} - {"identifier", "made_by", "paper", "scale", "seconds", "date"}))
def test_an_empty_field_is_rejected(name):
    with pytest.raises(ValueError, match=name):
        record(**{name: type(getattr(record(), name))()})


@pytest.mark.parametrize(
    "changes, field",
    [
        ({"identifier": "../evil"}, "identifier"),
        ({"identifier": "-a"}, "identifier"),
        ({"identifier": "a-"}, "identifier"),
        ({"identifier": "a--b"}, "identifier"),
        ({"identifier": "A"}, "identifier"),
        ({"identifier": "a\n"}, "identifier"),
        ({"identifier": ""}, "identifier"),
        ({"made_by": "hand"}, "made_by"),
        ({"scale": "huge"}, "scale"),
        ({"schema_version": 1}, "schema_version"),
        ({"colour": "red"}, "colour"),
        ({"paper": {"value": 3}}, "where"),
        ({"paper": {"where": ""}}, "where"),
        ({"paper": {"where": "x", "page": 1}}, "page"),
        ({"measurements": {"x": measurement()}}, "measurements"),
        ({"measurements": [5]}, "measurements"),
        ({"hardware": ["AMD"]}, "hardware"),
        ({"hardware": {"accelerators": 3}}, "accelerators"),
        ({"versions": {"python": 3}}, "versions"),
        ({"command": ["true"]}, "command"),
        ({"configuration": [1]}, "configuration"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": -5}, "seconds"),
        ({"seconds": True}, "seconds"),
        ({"seconds": "5"}, "seconds"),
        ({"seconds": float("inf")}, "seconds"),
        ({"date": "yesterday"}, "yesterday"),
        ({"date": "20260102"}, "date"),
        ({"date": "2026-1-2"}, "2026-1-2"),
        ({"date": "2026-02-30"}, "day"),
        ({"tolerance": {"s": float("nan")}}, "tolerance"),
        ({"tolerance": {"s": "1"}}, "tolerance"),
        ({"rules": {"a": 1}}, "rules"),
        ({"configuration": {"n": float("nan")}}, "nan|JSON"),
        ({"configuration": {"n": [float("inf")]}}, "inf|JSON"),
        ({"claim": "\ud800"}, "surrogate|unicode"),
        ({"configuration": {"n": ["\udfff"]}}, "surrogate|unicode"),
        ({"measurements": [measurement(), measurement(value=1.6)]}, "seconds"),
    ],
)
def test_a_wrong_field_is_rejected(changes, field):
    with pytest.raises(ValueError, match=f"(?i){field}"):
        record(**changes)


@pytest.mark.parametrize("points", [[], [[1, 2, 3]], [[1]], [[1, "2"]], [[1, float("nan")]], [[1, True]], [1, 2], "12"])
def test_a_curve_has_pairs_of_numbers(points):
    with pytest.raises(ValueError, match="points"):
        Curve(metric="bits", points=points)


def test_scales_and_authors():
    assert [record(scale=scale).scale for scale in ("smoke", "cpu", "gpu", "paper")] == ["smoke", "cpu", "gpu", "paper"]
    for command in ("reproduce", "benchmark", "finetune", "analyze", "script"):
        assert record(made_by=command).made_by == command


def test_records_are_frozen():
    for each, name in ((record(), "commit"), (measurement(), "value"), (Paper(where="x"), "where")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(each, name, "other")


# Measurements


@pytest.mark.parametrize(
    "changes, field",
    [
        ({"metric": ""}, "metric"),
        ({"unit": ""}, "unit"),
        ({"unit": 3}, "unit"),
        ({"sort": "x"}, "sort"),
        ({"value": float("nan")}, "value"),
        ({"value": float("-inf")}, "value"),
        ({"value": "abc"}, "value"),
        ({"value": True}, "value"),
        ({"value": "1.5"}, "value"),
        ({"value": 10**400}, "value"),
        ({"n": "4"}, "n"),
        ({"n": 4.0}, "n"),
        ({"epsilon": "0.5"}, "epsilon"),
        ({"repetitions": 0, "interval": None}, "repetitions"),
        ({"repetitions": 2.5}, "repetitions"),
        ({"repetitions": "3"}, "repetitions"),
        ({"repetitions": True, "interval": None}, "repetitions"),
        ({"interval_kind": "guess"}, "interval_kind"),
        ({"interval": None}, "3 repetitions"),
        ({"repetitions": 1}, "1 repetitions"),
        ({"repetitions": 2, "interval": None}, "2 repetitions"),
        ({"interval": (2.0, 1.0)}, "interval"),
        ({"interval": (1.0, 1.5, 2.0)}, "interval"),
        ({"interval": (1.0,)}, "interval"),
        ({"interval": (1.0, "2")}, "interval"),
        ({"interval": (1.0, float("inf"))}, "interval"),
        ({"interval": (1.6, 2.0)}, "interval"),
        ({"interval": (1.0, 1.4)}, "interval"),
    ],
)
def test_a_wrong_measurement_is_rejected(changes, field):
    with pytest.raises(ValueError, match=field):
        measurement(**changes)


def test_low_and_high_are_the_interval_or_the_value():
    m = measurement()
    assert (m.low, m.value, m.high) == (1.0, 1.5, 2.0)
    once = measurement(interval=None, repetitions=1)
    assert (once.low, once.value, once.high) == (1.5, 1.5, 1.5)
    at_the_end = measurement(interval=(1.5, 1.5), repetitions=2)
    assert (at_the_end.low, at_the_end.high) == (1.5, 1.5)


def test_a_confidence_interval_needs_no_repetitions():
    assert measurement(repetitions=1, interval_kind="confidence").interval == (1.0, 2.0)
    assert measurement(interval=None, interval_kind="confidence").repetitions == 3
    with pytest.raises(ValueError, match="interval"):
        measurement(interval=(1.6, 2.0), interval_kind="confidence")


def test_a_place_is_measured_once():
    """Each field that says where makes a place of its own; value, unit and interval do not."""
    number_fields = {"value", "unit", "interval", "interval_kind", "repetitions"}
    assert {*KEY_FIELDS, "metric"} == set(Measurement.model_fields) - number_fields
    values = {"n": 1, "baseline_n": 1, "k": 1, "seed": 1, "layer": 1, "head": 1, "head_dim": 1, "epsilon": 0.5}
    fields = {name: values.get(name, "a") for name in KEY_FIELDS}
    several = [
        measurement(),
        measurement(metric="bytes"),
        *(measurement(**{name: value}) for name, value in fields.items()),
    ]
    assert len(record(measurements=several).measurements) == 2 + len(KEY_FIELDS) == len({m.key for m in several})
    for name, value in fields.items():
        twice = [measurement(**{name: value}), measurement(**{name: value}, value=1.2, unit="min")]
        with pytest.raises(ValueError, match=f"{name} {value}"):
            record(measurements=twice)


def test_a_measurement_in_words_has_its_place():
    assert str(measurement()) == "seconds"
    words = str(measurement(model="linformer", n=64, k=0))
    assert all(part in words for part in ("seconds", "model linformer", "n 64", "k 0")) and "head" not in words


def test_select_and_find():
    some = [
        measurement(n=n, model=model, value=value) for n, model, value in ((1, "a", 1.0), (2, "a", 1.25), (2, "b", 2.0))
    ]
    found = record(measurements=[*some, measurement(metric="bytes", n=2)])
    assert [m.value for m in found.select("seconds", n=2)] == [1.25, 2.0]
    assert [m.value for m in found.select("seconds", n=2, model="b")] == [2.0]
    assert found.select("seconds", k=3) == [] and found.find("seconds", k=3) is None
    assert found.find("seconds") == some[0] and found.find("bytes", n=2).metric == "bytes"


def test_over_repetitions_is_the_median_with_lowest_and_highest():
    assert summarize_repetitions([5.0, 1.0, 2.0]) == {"value": 2.0, "interval": (1.0, 5.0), "repetitions": 3}
    assert summarize_repetitions([4.0, 1.0]) == {"value": 2.5, "interval": (1.0, 4.0), "repetitions": 2}
    assert summarize_repetitions([1.0]) == {"value": 1.0, "interval": None, "repetitions": 1}
    rounded = summarize_repetitions([1.23456789, 7.654321, 3.3333333])
    assert rounded == {"value": 3.33333, "interval": (1.23457, 7.65432), "repetitions": 3}
    assert summarize_repetitions([1.23456789])["value"] == 1.23457 == significant(1.23456789)


# Files


@pytest.fixture
def full():
    """A record with every field, and a configuration whose keys JSON turns into strings."""
    return record(
        curves=[Curve(metric="bits", model="a", n=1, seed=1, source="s", layer=1, points=[(1, 2.5), (2, 2.0)])],
        configuration={"n": 4, "cells": {10: "a", 9: ("b", None)}},
        tolerance={"s": 0.1},
        paper={"where": "Table 9", "value": {"n = 4": 1.5}},
        measurements=[measurement(), measurement(n=4, interval_kind="confidence")],
    )


def test_round_trip(full, tmp_path):
    path = ledger.put(full, tmp_path)
    again = ledger.read(path)
    assert path == tmp_path / "thing.json" and [*tmp_path.iterdir()] == [path]
    content = json.loads(path.read_text())
    assert content == full.content() == again.content() and set(content) == {*Record.model_fields}
    assert again.measurements == full.measurements and again.curves == full.curves and again.paper == full.paper
    assert again.configuration == {"n": 4, "cells": {"10": "a", "9": ["b", None]}}
    assert content["measurements"][0] == {
        "metric": "seconds",
        "value": 1.5,
        "unit": "s",
        "interval": [1.0, 2.0],
        "repetitions": 3,
    }
    assert content["schema_version"] == 2 and content["experiment"] == "thing"


def test_a_fingerprint_ignores_the_order_of_keys_only():
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": [1, 2], "a": 1})
    assert fingerprint({10: "a"}) == fingerprint({"10": "a"})
    assert fingerprint({"a": [1, 2]}) != fingerprint({"a": [2, 1]})
    assert fingerprint({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"  # sha256sum of {}


@pytest.mark.parametrize(
    "content", [b"", b"{cut off", b"[" * 100_000, b"[]", b"7", b"null", b'{"seconds": NaN}', b"caf\xe9", b"{}"]
)
def test_a_file_that_is_no_record_is_rejected(content, tmp_path):
    (tmp_path / "x.json").write_bytes(content)
    for read in (ledger.read, lambda path: ledger.read_all(path.parent), lambda path: ledger.read_folder(path.parent)):
        with pytest.raises(ValueError, match=r"x\.json"):
            read(tmp_path / "x.json")


def test_not_a_number_in_a_file_is_rejected(tmp_path):
    path = ledger.put(record(), tmp_path)
    for number in ("NaN", "Infinity"):
        text = json.dumps({**record().content(), "configuration": {"n": 0.125}}).replace("0.125", number)
        path.write_text(text)
        with pytest.raises(ValueError, match=r"thing\.json"):
            ledger.read(path)


def test_a_record_under_another_name_is_rejected(tmp_path):
    path = ledger.put(record(), tmp_path)
    path.rename(tmp_path / "y.json")
    with pytest.raises(ValueError, match=r"y\.json.*thing"):
        ledger.read(tmp_path / "y.json")


def test_folders(tmp_path):
    for name in ("b", "a"):
        ledger.put(record(identifier=name), tmp_path)
    assert (
        [r.identifier for r in ledger.read_all(tmp_path)]
        == [r.identifier for r in ledger.read_folder(tmp_path)]
        == ["a", "b"]
    )
    (tmp_path / "empty").mkdir()
    assert ledger.read_folder(tmp_path / "empty") == [] == ledger.read_folder(tmp_path / "nowhere")
    for folder in ("empty", "nowhere", "a.json"):
        with pytest.raises(ValueError, match=re.escape(str(tmp_path / folder))):
            ledger.read_all(tmp_path / folder)
    (tmp_path / "c.json").mkdir()
    with pytest.raises(ValueError, match=r"c\.json"):
        ledger.read_all(tmp_path)


def test_a_newer_record_replaces_the_file(full, tmp_path):
    path = ledger.put(full, tmp_path)
    assert ledger.put(full.copy_with(data="other"), tmp_path) == path and ledger.read(path).data == "other"


def test_a_record_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = ledger.put(record(), tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError(28, "no space left")))
    with pytest.raises(OSError, match="no space left"):
        ledger.put(record(data="other"), tmp_path)
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]


# Before hours of work


def test_check_writable(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(ValueError, match=f"--results.*{wrong}"):
            ledger.check_writable(wrong)
    (tmp_path / "file").unlink()
    ledger.check_writable(tmp_path)  # empty
    path = ledger.put(record(), tmp_path)
    ledger.check_writable(tmp_path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="thing.json"):
        ledger.check_writable(tmp_path)
    path.unlink()
    for error in (CalledProcessError(128, "git"), FileNotFoundError("git")):
        monkeypatch.setattr(ledger, "current_commit", lambda error=error: (_ for _ in ()).throw(error))
        with pytest.raises(ValueError, match="git"):
            ledger.check_writable(tmp_path)


def test_a_ledger_for_verdicts_needs_a_clean_commit(tmp_path, monkeypatch):
    ledger.check_writable(tmp_path, needs_clean=True)
    monkeypatch.setattr(machine, "changed_files", lambda folder=None: ["code.py"])
    ledger.check_writable(tmp_path)
    with pytest.raises(ValueError, match="clean commit.*-dirty.*code.py"):
        ledger.check_writable(tmp_path, needs_clean=True)


def test_a_record_with_uncommitted_changes_is_written_at_the_smoke_scale_only(tmp_path):
    changed = record(commit="abc; abc-dirty")
    with pytest.raises(ValueError, match="thing.*clean commit.*abc; abc-dirty"):
        ledger.put(changed, tmp_path)
    assert not [*tmp_path.iterdir()]
    path = ledger.put(changed.copy_with(scale="smoke"), tmp_path)
    assert ledger.read(path).commit == "abc; abc-dirty"


def test_a_read_only_ledger_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(ValueError, match=f"--results.*{tmp_path}"):
        ledger.check_writable(tmp_path)


def test_circumstances_are_those_of_this_machine(monkeypatch):
    here = {"hardware": {"cores": 2}, "versions": {"torch": "2"}, "date": "2026-01-02", "commit": "abc"}
    monkeypatch.setattr(records, "provenance", lambda: here)
    common = {name: here[name] for name in ("hardware", "versions", "date")}
    assert circumstances("text", "true", "gpu") == {"scale": "gpu", "data": "text", "command": "true", **common}


def test_what_is_wrong_is_one_sentence():
    for broken in (lambda: record(seconds="x", date=3), lambda: measurement(value=float("nan"))):
        with pytest.raises(ValueError) as error:
            broken()
        assert (
            "\n" not in str(error.value)
            and "http" not in str(error.value)
            and not isinstance(error.value, ValidationError)
        )
