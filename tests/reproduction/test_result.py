"""Results: their files, and the text that was read."""

import json
import shutil

import pytest

from fairseq_linformer.files import sha256
from fairseq_linformer.reproduction.result import (
    ENVIRONMENT,
    Result,
    Row,
    Rows,
    describe_text,
    find_shards,
    read,
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


def test_written_and_read(tmp_path):
    path = tmp_path / "figure_9/cpu.json"
    for each in (result("a"), result("b"), result("a", 2.0)):
        write(each, path)
    assert read(path) == [result("a", 2.0), result("b")]
    assert json.loads(path.read_text())[1]["rows"][2]["points"] == [[1, 2.0], [2, 1.5]]
    assert path.read_text().count("\n  {") == 8  # a line per row
    assert read(tmp_path / "cpu.json") == []


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


def test_described(text, tmp_path):
    sums = ", ".join(
        f"shard0/{each} {sha256(text / 'shard0' / each)[:12]}" for each in ("dict.txt", "train.bin", "valid.bin")
    )
    assert describe_text(text) == f"made of train.txt eeeeeeeeeeee; sha256: {sums}" == describe_text(text / "shard0")
    plain = shutil.copytree(text / "shard0", tmp_path / "plain/text")
    assert describe_text(plain).startswith("sha256: text/dict.txt ")
