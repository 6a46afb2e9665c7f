"""results/ holds the numbers of results/archive/, its records of schema 1, unchanged; so does archive/superseded/.

An entry of schema 1 had its measurements and curves by names such as ``n=512 k=128: eager / linformer``.
"""

import hashlib
import json
import re
from pathlib import Path

import pytest

from fairseq_linformer.reproduction import ledger
from fairseq_linformer.reproduction.superseded import FOLDER, read_superseded

RESULTS = Path(__file__).parents[2] / "results"
SUPERSEDED = {f"archive/superseded/{path.stem}": path for path in (RESULTS / FOLDER / "schema-1").glob("*.json")}
ORIGINALS = {path.stem: path for path in (RESULTS / "archive").glob("*.json")} | SUPERSEDED
ARCHIVED = {name: json.loads(path.read_text()) for name, path in sorted(ORIGINALS.items())}
RECORDS = {record.identifier: record for record in ledger.read_all(RESULTS)}
UNCHANGED = (
    "identifier",
    "date",
    "commit",
    "command",
    "seconds",
    "hardware",
    "versions",
    "data",
    "scale",
    "paper",
    "claim",
)
MOVED = ("experiment", "tolerance", "rules")
"""From the configuration to fields of their own."""
KEY_FIELDS = {
    "n": r"(?:^|[ ;])n ?= ?(\d+)",
    "k": r"(?:^|[ ;])k ?= ?(\d+)",
    "layer": r"layer = (\d+)",
    "head": r"head = (\d+)",
    "seed": r"seed (\d+)",
    "head_dim": r"; d = (\d+)",
    "baseline_n": r"/ n=(\d+)",
    "epsilon": r"eps = ([\d.]+)",
    "approximation": r"; [XS] = ([^;]+)",
    "matrix": r"matrix = ([^;]+)",
    "delta": r"; delta = ([^;]+)",
    "phase": r"^(pretraining|finetuning) ",
    "split": r"^(valid|test|train) \w+$",
}
"""How names said where a number was taken."""


def numbers(m):
    return m["value"], m["unit"], m.get("interval", m.get("spread")), m.get("repetitions", 1)


def migrated(name):
    """The record as JSON, which may have been superseded since, and its original."""
    original = ARCHIVED[name]
    paths = [RESULTS / f"{name}.json", *(RESULTS / FOLDER).glob(f"{name}.*.json")]
    versions = [json.loads(path.read_text()) for path in paths]
    circumstances = ("commit", "date", "seconds")
    (record,) = [each for each in versions if all(each[field] == original[field] for field in circumstances)]
    return record, original


def test_the_archive_is_complete():
    newest = {name: entry for name, entry in ARCHIVED.items() if name not in SUPERSEDED}
    assert len(newest) == 88 and set(newest) <= set(RECORDS)
    assert sum(len(entry["measured"]) for entry in newest.values()) == 5211
    assert len(SUPERSEDED) == 14 and sum(map(len, read_superseded(RESULTS).values())) >= 14


@pytest.mark.parametrize("name", ARCHIVED)
def test_the_original_is_sealed(name):
    """As schema 1 did it: SHA-256 of the entry without its seal."""
    content = dict(ARCHIVED[name])
    seal = content.pop("seal")
    assert seal == hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@pytest.mark.parametrize("name", ARCHIVED)
def test_every_number_is_unchanged(name):
    record, original = migrated(name)
    assert [numbers(m) for m in record["measurements"]] == [numbers(m) for m in original["measured"].values()]
    assert all(m.get("interval_kind", "range") == "range" for m in record["measurements"])
    assert [curve["points"] for curve in record["curves"]] == [*original["curves"].values()]


@pytest.mark.parametrize("name", ARCHIVED)
def test_every_circumstance_is_unchanged(name):
    record, original = migrated(name)
    assert {field: record[field] for field in UNCHANGED} == {field: original[field] for field in UNCHANGED}
    configuration = dict(original["configuration"])
    moved = {field: configuration.pop(field, None) for field in MOVED}
    assert record["configuration"] == configuration
    assert (record["tolerance"], record["rules"]) == (moved["tolerance"], moved["rules"])
    if moved["experiment"] is not None:
        assert (record["experiment"], record["made_by"]) == (moved["experiment"], "reproduce")
    else:
        assert record["made_by"] in ("benchmark", "analyze", "script")


@pytest.mark.parametrize("name", ARCHIVED)
def test_a_place_is_what_the_name_said(name):
    record, original = migrated(name)
    for m, said in zip(record["measurements"], original["measured"], strict=True):
        first = re.match(r"(heads|run|model) = ([^;]+)", said)
        if first:  # may have an n of its own
            assert m["model" if first[1] == "model" else "source"] == first[2]
        rest = said[first.end() :] if first else said
        for place, pattern in KEY_FIELDS.items():
            if found := re.search(pattern, rest):
                assert found[1] == str(m.get(place)), f"{said}: {place}"


@pytest.mark.parametrize("name", [name for name, entry in ARCHIVED.items() if entry["curves"]])
def test_a_curve_is_of_the_model_in_its_name(name):
    record, original = migrated(name)
    for curve, said in zip(record["curves"], original["curves"], strict=True):
        at = {place: curve[place] for place in ("model", "seed", "source", "layer") if place in curve}
        if name.startswith("spectrum"):
            assert said == f"run = {at['source']}; layer = {at['layer']}; curve, mean over heads"
        else:
            assert said == at["model"] + f", seed {at.get('seed')}" * ("seed" in at)


def test_records_without_an_original_are_newer():
    last = max(entry["date"] for entry in ARCHIVED.values())
    assert [name for name, record in RECORDS.items() if name not in ARCHIVED and record.date < last] == []
