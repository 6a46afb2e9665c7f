"""The text that is trained on: its data folders, their checksums, its sources."""

import json
import shutil

import pytest

from fairseq_linformer.files import sha256
from fairseq_linformer.reproduction.text import claim_runs, describe_text, find_shards


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
