"""The text that is trained on: its files, their checksums, its sources."""
# ruff: noqa: F811 (fixtures are imported)

import json
import os
import shutil

import pytest

from fairseq_linformer.files import sha256
from fairseq_linformer.reproduction.text import checksums, describe_text, digest, find_shards

from .trainer import copied_text, text  # noqa: F401

FILES = ("dict.txt", "train.idx", "train.bin", "valid.idx", "valid.bin")


@pytest.fixture
def shards(copied_text):
    """Three shards: the second and the third have training text alone."""
    for name in ("shard2", "shard10"):
        (copied_text / name).mkdir()
        for end in ("idx", "bin"):
            shutil.copy(copied_text / f"shard0/train.{end}", copied_text / name)
    return copied_text


def test_shards_are_in_the_order_of_their_numbers(shards):
    assert [path.name for path in find_shards(shards)] == ["shard0", "shard2", "shard10"]
    assert find_shards(shards / "shard0") == [shards / "shard0"]
    (shards / "shard-1").mkdir()
    (shards / "shardy").mkdir()
    assert len(find_shards(shards)) == 3


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(copied_text, name):
    (copied_text / "shard0" / name).unlink()
    with pytest.raises(ValueError, match=rf"--data.* {copied_text}.*{name}"):
        find_shards(copied_text)


def test_a_later_shard_needs_training_text(shards):
    (shards / "shard10/train.bin").unlink()
    with pytest.raises(ValueError, match="shard10.*train.bin"):
        find_shards(shards)


@pytest.mark.parametrize("name", ["two:folders", "${x}"])
def test_paths_that_fairseq_cannot_read(copied_text, tmp_path, name):
    copied_text.rename(tmp_path / name)
    with pytest.raises(ValueError, match="--data.*" + ("':'" if ":" in name else r"'\$\{'")):
        find_shards(tmp_path / name)
    (tmp_path / "link").symlink_to(tmp_path / name)
    with pytest.raises(ValueError, match="--data"):
        find_shards(tmp_path / "link")


def test_nothing_there(tmp_path):
    with pytest.raises(ValueError, match="--data.*dict.txt"):
        find_shards(tmp_path / "nowhere")


def test_sums(shards):
    found = checksums(shards)
    later = {f"shard{i}/train.{end}" for i in (2, 10) for end in ("idx", "bin")}
    assert set(found) == {f"shard0/{name}" for name in FILES} | later
    assert found["shard0/valid.bin"] == sha256(shards / "shard0/valid.bin")


def test_sums_do_not_depend_on_where_it_lies(text, tmp_path):
    (tmp_path / "link").symlink_to(text)
    (tmp_path / "shard").symlink_to(text / "shard0")
    plain = shutil.copytree(text / "shard0", tmp_path / "plain")
    assert (
        checksums(text / "shard0") == checksums(tmp_path / "link") == checksums(tmp_path / "shard") == checksums(text)
    )
    assert checksums(plain) == {name.removeprefix("shard0/"): value for name, value in checksums(text).items()}


def test_described(text, tmp_path):
    of_files = ", ".join(f"{name} {value[:12]}" for name, value in checksums(text).items())
    assert describe_text(text) == f"made of wiki/train.txt eeeeeeeeeeee; sha256: {of_files}"
    assert describe_text(text / "shard0") == describe_text(text)
    (tmp_path / "link").symlink_to(text)
    assert describe_text(tmp_path / "link") == describe_text(text)
    plain = shutil.copytree(text / "shard0", tmp_path / "plain/text")
    assert describe_text(plain).startswith("sha256: dict.txt ")


def test_the_description_has_every_source(copied_text):
    files = [{"path": f"/corpora/{name}/a.txt", "sha256": name[0] * 64} for name in ("books", "wiki")]
    (copied_text / "manifest.json").write_text(json.dumps({"sources": [{"files": [file]} for file in files]}))
    assert describe_text(copied_text).startswith("made of books/a.txt bbbbbbbbbbbb, wiki/a.txt wwwwwwwwwwww; ")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        "{}",
        '{"sources": []}',
        '{"sources": [{"files": []}]}',
        '{"sources": [{"files": ["train.txt"]}]}',
        '{"sources": [{"files": [{"path": "a/b"}]}]}',
        '{"sources": [{"files": [{"path": "\\ud800/x", "sha256": "a"}]}]}',
    ],
)
def test_a_damaged_manifest_is_rejected(copied_text, content):
    (copied_text / "manifest.json").write_text(content)
    with pytest.raises(ValueError, match="manifest.json"):
        describe_text(copied_text)


def test_a_digest_is_of_the_content(tmp_path):
    path = tmp_path / "file"
    path.write_text("one")
    first = digest(path)
    assert first == sha256(path)
    path.write_text("two")
    os.utime(path, ns=(1, 1))
    assert digest(path) == sha256(path) != first
    path.write_text("three")
    os.utime(path, ns=(1, 1))
    assert digest(path) == sha256(path)
