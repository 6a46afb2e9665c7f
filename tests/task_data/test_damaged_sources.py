"""Sources that are damaged, incomplete or not the published ones are refused in one sentence."""

import io
import os
import tarfile
import zipfile

import pytest

from fairseq_linformer.cli import main

from . import files
from .refusals import refused


@pytest.mark.parametrize(
    "content, said",
    [
        (None, "train.tsv is not a file"),
        (b"", "train.tsv is empty"),
        (b"sentence\tlabel\n", "no rows of train"),
        (b"sentence,label\nlow,1\n", "train.tsv has the header 'sentence,label'"),
        (b"label\tsentence\n1\tlow\n", "train.tsv has the header 'label, sentence'"),
        (b"low\t1\n", "train.tsv has the header 'low, 1'"),
        ("sentence\tlabel\nlow\t1\n".encode("utf-16"), "train.tsv has the header"),
        (b"x" * 3_000_000, "train.tsv has the header ''"),
    ],
)
def test_a_file_that_is_not_the_published_one(content, said, capsys, gpt2_files, tmp_path):
    source = files.write_tsv("sst-2", tmp_path / "SST-2")
    (source / "train.tsv").unlink()
    if content is not None:
        (source / "train.tsv").write_bytes(content)
    assert said in refused(capsys, gpt2_files, source)


def test_paths_with_nothing_of_the_task(capsys, gpt2_files, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("text")
    (tmp_path / "nothing").write_text("")
    wanted = (
        "a folder or zip archive with train.tsv, test.tsv, or the folder aclImdb or its .tar.gz, "
        "or a folder with the hub's plain_text/*.parquet"
    )
    for name, said in {
        "empty": "nothing of imdb",
        "missing": "does not exist",
        "text": "no archive",
        "nothing": "empty",
    }.items():
        sentence = refused(capsys, gpt2_files, tmp_path / name, task="imdb")
        assert name in sentence and said in sentence and wanted in sentence
    assert "x.tar.gz is no archive" in refused(capsys, gpt2_files, files.write_tar(tmp_path / "x.tar.gz"), task="qnli")


def test_zip_archives(capsys, gpt2_files, tmp_path):
    whole = files.write_zip("qnli", tmp_path / "whole.zip").read_bytes()
    (tmp_path / "half.zip").write_bytes(whole[: len(whole) // 2])
    middle = whole.index(b"QNLI/train.tsv") + 30
    (tmp_path / "flipped.zip").write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    for name, member in (("up.zip", "QNLI/../../x"), ("root.zip", "/etc/x"), ("drive.zip", "C:\\x"), ("back.zip", "..\\x")):
        files.write_zip("qnli", tmp_path / name)
        with zipfile.ZipFile(tmp_path / name, "a") as archive:
            archive.writestr(member, "x")
        assert f"{name} has a member {member!r}" in refused(capsys, gpt2_files, tmp_path / name, task="qnli")
    files.write_zip("qnli", tmp_path / "twice.zip", "other/QNLI")
    with zipfile.ZipFile(tmp_path / "twice.zip", "a") as archive:
        archive.writestr("QNLI/train.tsv", "x")
    for name, said in {
        "half.zip": "half.zip cannot be read",
        "flipped.zip": "flipped.zip/QNLI/train.tsv cannot be read: ",
        "twice.zip": "twice.zip has 2 files QNLI/train.tsv",
    }.items():
        assert said in refused(capsys, gpt2_files, tmp_path / name, task="qnli")
    assert "no files SST-2/train.tsv" in refused(capsys, gpt2_files, tmp_path / "whole.zip", task="sst-2")


def test_tar_archives(capsys, gpt2_files, tmp_path):
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
    for name, said in {
        write("up.tar.gz", "aclImdb/../../x").name: "member 'aclImdb/../../x'",
        write("root.tar.gz", "/aclImdb/x").name: "member '/aclImdb/x'",
        write("link.tar.gz", "aclImdb/train/neg/50_1.txt", tarfile.SYMTYPE, b"").name: "50_1.txt'",
        write("twice.tar.gz", "aclImdb/train/neg/0_4.txt").name: "train/neg/0_4.txt twice",
        "half.tar.gz": "half.tar.gz cannot be read",
        "flipped.tar.gz": "flipped.tar.gz cannot be read",
        "other.tar.gz": "other.tar.gz cannot be read",
    }.items():
        assert said in refused(capsys, gpt2_files, tmp_path / name, task="imdb")
    with tarfile.open(tmp_path / "train.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("aclImdb/train/neg/0_1.txt"), io.BytesIO())
    assert "has no files aclImdb/train/pos/*.txt" in refused(capsys, gpt2_files, tmp_path / "train.tar.gz", task="imdb")


def test_parquet_that_is_not_the_hub_s(capsys, gpt2_files, tmp_path, monkeypatch):
    source = files.write_parquet("qnli", tmp_path / "half")
    file = source / "qnli" / "train-00000-of-00001.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert "half qnli/train cannot be read: " in refused(capsys, gpt2_files, source, task="qnli")
    file.write_bytes(b"")
    assert "half qnli/train cannot be read: " in refused(capsys, gpt2_files, source, task="qnli")
    file.unlink()
    assert "qnli has no train-*.parquet" in refused(capsys, gpt2_files, source, task="qnli")
    file.with_name("train-00000-of-00003.parquet").write_bytes(whole)
    assert "train-00000-of-00003.parquet is one of 3" in refused(capsys, gpt2_files, source, task="qnli")
    row = list(files.FORMATS["qnli"])
    row[5] = "yes no"
    monkeypatch.setitem(files.FORMATS, "qnli", tuple(row))
    said = refused(capsys, gpt2_files, files.write_parquet("qnli", tmp_path / "names"), task="qnli")
    assert "names qnli/train has a class 'yes'" in said and said.endswith("entailment, not_entailment")
    row[5:] = ["entailment not_entailment", "qnli text sentence"]
    monkeypatch.setitem(files.FORMATS, "qnli", tuple(row))
    said = refused(capsys, gpt2_files, files.write_parquet("qnli", tmp_path / "columns"), task="qnli")
    assert "columns qnli/train has the columns text, sentence, label, idx" in said and said.endswith("question")


def test_a_stream_that_stops(capsys, gpt2_files, tmp_path, monkeypatch):
    import datasets

    class Stream:
        features = {"sentence": None, "label": None}

        def __iter__(self):
            yield {"sentence": "low", "label": "positive"}
            raise ConnectionError("the line is dead\nand more")

    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: Stream())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "refused").mkdir()
    with pytest.raises(SystemExit) as end:
        main(["prepare", "sst-2", "refused/out", "--gpt2", str(gpt2_files)])
    said = end.value.code
    assert "nyu-mll/glue sst2/train" in said and said.endswith("after row 1: ConnectionError: the line is dead")
    assert not os.listdir("refused")
