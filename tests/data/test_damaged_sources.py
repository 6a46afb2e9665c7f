"""Sources that are damaged, incomplete or not the published ones are rejected with a one-line message."""

import io
import os
import tarfile
import zipfile

import pytest

from fairseq_linformer.cli import main

from . import task_files as files
from .command_errors import error_of


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "train.tsv is not a file"),
        (b"", "train.tsv is empty"),
        (b"sentence\tlabel\n", "no rows of train"),
        (b"sentence,label\nlow,1\n", "got 'sentence,label'"),
        (b"label\tsentence\n1\tlow\n", "got 'label, sentence'"),
        (b"low\t1\n", "got 'low, 1'"),
        ("sentence\tlabel\nlow\t1\n".encode("utf-16"), "train.tsv must have"),
        (b"x" * 3_000_000, "got ''"),
    ],
)
def test_modified_tsv_files_are_rejected(content, message, capsys, gpt2, tmp_path):
    source = files.write_tsv("sst-2", tmp_path / "SST-2")
    (source / "train.tsv").unlink()
    if content is not None:
        (source / "train.tsv").write_bytes(content)
    assert message in error_of(capsys, gpt2, source)


def test_paths_without_files_of_the_task_are_rejected(capsys, gpt2, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("text")
    (tmp_path / "nothing").write_text("")
    expected_sources = (
        "a folder or zip archive with train.tsv, test.tsv, or the folder aclImdb or its .tar.gz, "
        "or a folder with the hub's plain_text/*.parquet"
    )
    for name, message in {
        "empty": "no files of imdb",
        "missing": "does not exist",
        "text": "not an archive",
        "nothing": "empty",
    }.items():
        error = error_of(capsys, gpt2, tmp_path / name, task="imdb")
        assert name in error and message in error and expected_sources in error
    archive = files.write_tar(tmp_path / "x.tar.gz")
    assert "x.tar.gz is not an archive" in error_of(capsys, gpt2, archive, task="qnli")


def test_damaged_zip_archives_are_rejected(capsys, gpt2, tmp_path):
    whole = files.write_zip("qnli", tmp_path / "whole.zip").read_bytes()
    (tmp_path / "half.zip").write_bytes(whole[: len(whole) // 2])
    middle = whole.index(b"QNLI/train.tsv") + 30
    (tmp_path / "flipped.zip").write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    for name, member in (
        ("up.zip", "QNLI/../../x"),
        ("root.zip", "/etc/x"),
        ("drive.zip", "C:\\x"),
        ("back.zip", "..\\x"),
    ):
        files.write_zip("qnli", tmp_path / name)
        with zipfile.ZipFile(tmp_path / name, "a") as archive:
            archive.writestr(member, "x")
        assert f"{name} must have relative paths inside the archive, got {member!r}" in error_of(
            capsys, gpt2, tmp_path / name, task="qnli"
        )
    files.write_zip("qnli", tmp_path / "twice.zip", "other/QNLI")
    with zipfile.ZipFile(tmp_path / "twice.zip", "a") as archive:
        archive.writestr("QNLI/train.tsv", "x")
    for name, message in {
        "half.zip": "half.zip cannot be read",
        "flipped.zip": "flipped.zip/QNLI/train.tsv cannot be read: ",
        "twice.zip": "exactly one QNLI/train.tsv, got 2",
    }.items():
        assert message in error_of(capsys, gpt2, tmp_path / name, task="qnli")
    assert "exactly one SST-2/train.tsv, got none" in error_of(capsys, gpt2, tmp_path / "whole.zip", task="sst-2")


def test_damaged_tar_archives_are_rejected(capsys, gpt2, tmp_path):
    def write(name, member, kind=tarfile.REGTYPE, content=b"low"):
        info = tarfile.TarInfo(member)
        info.type, info.size, info.linkname = kind, len(content), "/etc/passwd"
        return files.write_tar(tmp_path / name, [(info, content)])

    noise = bytes(os.urandom(200_000).hex(), "ascii")
    write("half.tar.gz", "aclImdb/test/pos/99_9.txt", content=noise)
    whole = (tmp_path / "half.tar.gz").read_bytes()
    (tmp_path / "half.tar.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "flipped.tar.gz").write_bytes(whole[:-100_000] + bytes([whole[-100_000] ^ 1]) + whole[-99_999:])
    (tmp_path / "other.tar.gz").write_bytes(b"\x1f\x8b" + b"x" * 100)
    for name, message in {
        write("up.tar.gz", "aclImdb/../../x").name: "got 'aclImdb/../../x'",
        write("root.tar.gz", "/aclImdb/x").name: "got '/aclImdb/x'",
        write("link.tar.gz", "aclImdb/train/neg/50_1.txt", tarfile.SYMTYPE, b"").name: "50_1.txt'",
        write("twice.tar.gz", "aclImdb/train/neg/0_4.txt").name: "train/neg/0_4.txt only once",
        "half.tar.gz": "half.tar.gz cannot be read",
        "flipped.tar.gz": "flipped.tar.gz cannot be read",
        "other.tar.gz": "other.tar.gz cannot be read",
    }.items():
        assert message in error_of(capsys, gpt2, tmp_path / name, task="imdb")
    with tarfile.open(tmp_path / "train.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("aclImdb/train/neg/0_1.txt"), io.BytesIO())
    assert "has no files aclImdb/train/pos/*.txt" in error_of(capsys, gpt2, tmp_path / "train.tar.gz", task="imdb")


def test_modified_parquet_files_are_rejected(capsys, gpt2, tmp_path, monkeypatch):
    source = files.write_parquet("qnli", tmp_path / "half")
    file = source / "qnli" / "train-00000-of-00001.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert "half qnli/train cannot be read: " in error_of(capsys, gpt2, source, task="qnli")
    file.write_bytes(b"")
    assert "half qnli/train cannot be read: " in error_of(capsys, gpt2, source, task="qnli")
    file.unlink()
    assert "qnli has no train-*.parquet" in error_of(capsys, gpt2, source, task="qnli")
    file.with_name("train-00000-of-00003.parquet").write_bytes(whole)
    assert "must have 3 files train-*.parquet" in error_of(capsys, gpt2, source, task="qnli")
    row = list(files.FORMATS["qnli"])
    row[5] = "yes no"
    monkeypatch.setitem(files.FORMATS, "qnli", tuple(row))
    message = error_of(capsys, gpt2, files.write_parquet("qnli", tmp_path / "names"), task="qnli")
    assert "names qnli/train: unknown class 'yes'" in message and message.endswith("entailment, not_entailment")
    row[5:] = ["entailment not_entailment", "qnli text sentence"]
    monkeypatch.setitem(files.FORMATS, "qnli", tuple(row))
    message = error_of(capsys, gpt2, files.write_parquet("qnli", tmp_path / "columns"), task="qnli")
    assert "columns qnli/train must have a column 'question'" in message and message.endswith(
        "text, sentence, label, idx"
    )


def test_interrupted_hub_stream_is_reported(capsys, gpt2, tmp_path, monkeypatch):
    import datasets

    class Stream:
        features = {"sentence": None, "label": None}

        def __iter__(self):
            yield {"sentence": "low", "label": "positive"}
            raise ConnectionError("connection lost\nand more")

    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: Stream())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rejected").mkdir()
    with pytest.raises(SystemExit) as end:
        main(["prepare", "sst-2", "rejected/out", "--gpt2-bpe", str(gpt2)])
    message = end.value.code
    assert "nyu-mll/glue sst2/train" in message and message.endswith("after row 1: ConnectionError: connection lost")
    assert not os.listdir("rejected")
