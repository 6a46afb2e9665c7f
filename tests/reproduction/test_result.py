"""Results: rows, files, the numbers of repeated measurements, and the text that was read."""

import json
import shutil
from statistics import fmean

import pytest

from fairseq_linformer.files import sha256
from fairseq_linformer.reproduction.result import (
    ENVIRONMENT,
    Inputs,
    Result,
    Row,
    Rows,
    claim_runs,
    describe_text,
    find_shards,
    in_words,
    join,
    read,
    repeated,
    write,
)

ROWS = Rows(
    [
        Row(metric="bits", value=2.0, low=1.0, high=3.0, repetitions=3, model="a", n=16),
        Row(metric="bits", value=1.0, model="a", n=16, seed=1),
        Row(metric="bits_curve", model="a", points=[[1, 2.0], [2, 1.5]]),
    ]
)


def result(part="a", value=1.0) -> Result:
    fields = {**dict.fromkeys(ENVIRONMENT, "x"), "seconds": 1.0}
    return Result(part, "cpu", Rows([*ROWS, Row(metric="x", value=value)]), fields, {"k": [1, 2]})


def test_rows_are_selected_by_what_they_have():
    assert ROWS.select("bits", model="a") == ROWS[:2] and ROWS.find("bits", seed=None) == ROWS[0]
    assert ROWS.find("bits", model="b") is None and join([result(), result()]).select("x") == 2 * [
        ROWS.__class__([Row(metric="x", value=1.0)])[0]
    ]


def test_written_and_read(tmp_path):
    path = tmp_path / "figure_9/cpu.json"
    for each in (result("a"), result("b"), result("a", 2.0)):
        write(each, path)
    assert read(path) == [result("a", 2.0), result("b")]
    assert json.loads(path.read_text())[1]["rows"][2]["points"] == [[1, 2.0], [2, 1.5]]
    assert path.read_text().count("\n  {") == 8  # a line per row
    assert read(tmp_path / "cpu.json") == []


def test_the_result_of_a_part(tmp_path):
    found = Inputs("a", "cpu", "the command", tmp_path, started=0.0).result(iter(ROWS), "none", {"k": 1})
    assert (found.part, found.scale, found.rows, found.configuration) == ("a", "cpu", ROWS, {"k": 1})
    assert found.environment.keys() == set(ENVIRONMENT) and found.environment["command"] == "the command"
    assert found.environment["seconds"] > 0


def test_a_repeated_measurement_is_its_median():
    assert repeated([1.0, 5.0, 2.0]) == {"value": 2.0, "low": 1.0, "high": 5.0, "repetitions": 3}
    assert repeated([1.0, 5.0, 3.0], fmean)["value"] == 3.0 and repeated([1.23456789]) == {"value": 1.23457}


def test_lines_of_a_chart():
    rows = Rows(Row(value=float(n * k), n=n, k=k) for n in (2, 1) for k in (4, 3))
    assert rows.lines("n", "k", "n = {}") == {"n = 2": [[(3, 6.0), (4, 8.0)]], "n = 1": [[(3, 3.0), (4, 4.0)]]}


@pytest.mark.parametrize(
    "row, words",
    [
        (Row(value=0.123456), "0.123"),
        (Row(value=12345.6), "12,346"),
        (Row(value=1.0, low=0.5, high=2.0), "1 [0.5, 2]"),
        (None, "-"),
    ],
)
def test_in_words(row, words):
    assert in_words(row) == words


# Texts


@pytest.fixture
def text(tmp_path, mlm_data):
    """A prepared text of one shard, with its manifest."""
    shutil.copytree(mlm_data, tmp_path / "text/shard0")
    source = {"files": [{"path": "/corpora/wiki/train.txt", "sha256": 64 * "e"}]}
    (tmp_path / "text/manifest.json").write_text(json.dumps({"sources": [source]}))
    return tmp_path / "text"


def test_shards_are_in_the_order_of_their_numbers(text):
    for name in ("shard10", "shard2", "shard-1", "shardy"):
        (text / name).mkdir()
        shutil.copy(text / "shard0/train.bin", text / name)
    assert [path.name for path in find_shards(text)] == ["shard0", "shard2", "shard10"]
    assert find_shards(text / "shard0") == [text / "shard0"]
    with pytest.raises(ValueError, match="must have one shard, got 3"):
        find_shards(text, single=True)
    assert describe_text(text).count("train.bin") == 3


def test_a_missing_file_is_named(text):
    (text / "shard0/valid.bin").unlink()
    with pytest.raises(ValueError, match=f"--data {text} has no valid.bin"):
        find_shards(text)


def test_described(text, tmp_path):
    sums = ", ".join(
        f"shard0/{each} {sha256(text / 'shard0' / each)[:12]}" for each in ("dict.txt", "train.bin", "valid.bin")
    )
    assert describe_text(text) == f"made of train.txt eeeeeeeeeeee; sha256: {sums}" == describe_text(text / "shard0")
    plain = shutil.copytree(text / "shard0", tmp_path / "plain/text")
    assert describe_text(plain).startswith("sha256: text/dict.txt ")


def test_runs_are_on_one_text(text, tmp_path):
    """Finished runs are used again: not for another text, but for a copy of the same."""
    claim_runs(tmp_path / "runs", text)
    claim_runs(tmp_path / "runs", text)
    (text / "shard0/valid.bin").write_bytes(b"others")
    with pytest.raises(ValueError, match="runs was made from other inputs: --data must be .*; choose another folder"):
        claim_runs(tmp_path / "runs", text)
