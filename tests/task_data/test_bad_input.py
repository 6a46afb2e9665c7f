"""Bad input: skipped, counted and named where that is safe, else refused in one sentence; nothing is half-written."""

import io
import os
import resource
import signal
import subprocess
import sys
import tarfile
import zipfile

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.corpus.streams import MAX_BYTES
from fairseq_linformer.task_data import manifest as manifests
from fairseq_linformer.task_data import tsv
from fairseq_linformer.task_data.prepare import prepare
from fairseq_linformer.task_data.table import TASKS, Hub, Task, Tsv

from . import files


def refused(capsys, gpt2_files, source, *options, task="sst-2", out=None) -> str:
    """The sentence that the command ends with; there is no output and nothing beside it."""
    folder = source.parent / "refused"
    folder.mkdir(exist_ok=True)
    with pytest.raises(SystemExit) as end:
        main(["prepare", task, str(out or folder / "out"), "--source", str(source), "--gpt2", str(gpt2_files), *map(str, options)])
    said = end.value.code
    assert isinstance(said, str) and said.startswith("fairseq-linformer: ") and "\n" not in said, capsys.readouterr().err
    assert not os.listdir(folder)
    return said


BAD_ROWS = {
    b"too\tmany\t1": "wrong number of columns: train.tsv:{}: 3 where 2 are wanted",
    b"too few": "wrong number of columns: train.tsv:{}: 1 where 2 are wanted",
    b"": "wrong number of columns: train.tsv:{}: 1 where 2 are wanted",
    b"latin \xe4\t1": "not UTF-8: train.tsv:{}: byte 7 is 0xe4",
    b"nul \0\t1": "a NUL byte: train.tsv:{}",
    b" \xe2\x80\x83 \t1": "empty text: train.tsv:{}",
    b"label\t2": "unknown label: train.tsv:{}: '2'",
    b"label\t": "unknown label: train.tsv:{}: ''",
    b"x" * MAX_BYTES + b"\t1": f"longer than {MAX_BYTES:,} bytes: train.tsv:{{}}",
    b"x" * (5 * MAX_BYTES) + b"\t1": f"longer than {MAX_BYTES:,} bytes: train.tsv:{{}}",
    b"carriage \r return\t1": None,
    b"white" + b" " * (MAX_BYTES - 10) + b"x\t1": None,
    b"x" * (MAX_BYTES - 2) + b"\t1": None,
    b'"a quote\t1': None,
}


@pytest.mark.parametrize("line, said", BAD_ROWS.items(), ids=range(len(BAD_ROWS)))
def test_a_bad_row_is_skipped_and_named(line, said, gpt2, tmp_path):
    source = files.write_tsv("sst-2", tmp_path / "SST-2")
    whole = files.tsv("sst-2", "train").splitlines(keepends=True)
    (source / "train.tsv").write_bytes(b"".join(whole[:3]) + line + b"\n" + b"".join(whole[3:]))
    manifest = prepare(TASKS["sst-2"], tmp_path / "out", source, gpt2, max_skipped=0.2)
    counts = manifest["splits"]["train"]
    assert counts["read"] == 6 and counts["written"] == (6 if said is None else 5)
    lines = [text for text in manifests.summary(TASKS["sst-2"], "out", manifest).splitlines() if text.startswith("  ")]
    assert lines == ([] if said is None else ["  1 skipped, " + said.format(4)])
    if said is not None:
        prepare(TASKS["sst-2"], tmp_path / "without", files.write_tsv("sst-2", tmp_path / "good"), gpt2)
        assert files.bins(tmp_path / "out") == files.bins(tmp_path / "without")


def test_too_many_bad_rows_are_refused(capsys, gpt2_files, tmp_path):
    source = files.write_tsv("qqp", tmp_path / "QQP")
    with open(source / "dev.tsv", "ab") as file:
        file.write(b"9\t1\t2\tlow\tlow\t3\n9\t1\t2\tlow\t1\n")
    said = refused(capsys, gpt2_files, source, task="qqp")
    assert said.endswith("QQP: 2 of 5 rows of valid cannot be used, which is more than the share 0.01 that may be skipped; "
                         "the first is dev.tsv:5: unknown label, '3'")  # fmt: skip
    assert "2 of 5" in refused(capsys, gpt2_files, source, "--max-skipped", "0.39", task="qqp")
    main(["prepare", "qqp", str(tmp_path / "out"), "--source", str(source), "--gpt2", str(gpt2_files), "--max-skipped", "0.4"])
    assert "valid: 3 rows, 2 skipped" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content, said",
    [
        (None, "train.tsv is not a file; sst-2 is made of train.tsv, dev.tsv"),
        (b"", "train.tsv is empty"),
        (b"sentence\tlabel\n", "has no rows of train"),
        (b"sentence,label\nlow,1\n", "train.tsv has the header 'sentence,label'; 'sentence, label' is wanted, with tabs between"),
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
        "empty": "has nothing of imdb in it",
        "missing": "does not exist; hub, or",
        "text": "is no archive of this task",
        "nothing": "is empty",
    }.items():
        sentence = refused(capsys, gpt2_files, tmp_path / name, task="imdb")
        assert name in sentence and said in sentence and wanted in sentence
    assert "is no archive of this task" in refused(capsys, gpt2_files, files.write_tar(tmp_path / "x.tar.gz"), task="qnli")


def test_options_and_an_output_that_is_there(capsys, gpt2_files, tmp_path):
    source = files.write_tsv("qnli", tmp_path / "QNLI")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for options, out, said in (
        (["--max-positions", 5], None, "max_positions is 5; <s>, </s> and a token of each text need at least 6"),
        (["--max-skipped", 1], None, "max_skipped is 1.0; it must be at least 0 and below 1"),
        ([], tmp_path / "full", "full has files in it; a new or an empty folder is wanted"),
        ([], source / "train.tsv", "train.tsv is not a folder"),
        ([], tmp_path / "link", "link is a link; a new or an empty folder is wanted"),
        ([], source / "train.tsv" / "out", "was not finished, nothing of it is left: [Errno 17] File exists"),
    ):
        assert said in refused(capsys, gpt2_files, source, *options, task="qnli", out=out)
    assert os.listdir(tmp_path / "full") == ["x"]


def test_a_source_that_is_gone_is_not_blamed_on_the_output(capsys, gpt2_files, tmp_path, monkeypatch):
    def gone(path):
        raise FileNotFoundError(2, "No such file or directory", "train.tsv")

    monkeypatch.setattr(tsv, "sha256", gone)
    said = refused(capsys, gpt2_files, files.write_tsv("sst-2", tmp_path / "SST-2"))
    assert said.endswith("out was not finished, nothing of it is left: [Errno 2] No such file or directory: 'train.tsv'")


def test_a_tokenizer_without_a_name(capsys, gpt2_files, tmp_path):
    source = files.write_tsv("qnli", tmp_path / "QNLI")
    for option, said in (("--gpt2", "encoder.json is not a file"), ("--sentencepiece", "is not a file; --sentencepiece needs a model file")):
        with pytest.raises(SystemExit) as end:
            main(["prepare", "qnli", str(tmp_path / "out"), "--source", str(source), option, ""])
        assert said in end.value.code


def test_zip_archives(capsys, gpt2_files, tmp_path):
    whole = files.write_zip("qnli", tmp_path / "whole.zip").read_bytes()
    (tmp_path / "half.zip").write_bytes(whole[: len(whole) // 2])
    middle = whole.index(b"QNLI/train.tsv") + 30
    (tmp_path / "flipped.zip").write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    for name, member in (("up.zip", "QNLI/../../x"), ("root.zip", "/etc/x"), ("drive.zip", "C:\\x"), ("back.zip", "..\\x")):
        files.write_zip("qnli", tmp_path / name)
        with zipfile.ZipFile(tmp_path / name, "a") as archive:
            archive.writestr(member, "x")
        assert f"{name} has a member {member!r}, which points outside" in refused(capsys, gpt2_files, tmp_path / name, task="qnli")
    files.write_zip("qnli", tmp_path / "twice.zip", "other/QNLI")
    with zipfile.ZipFile(tmp_path / "twice.zip", "a") as archive:
        archive.writestr("QNLI/train.tsv", "x")
    for name, said in {
        "half.zip": "half.zip cannot be read: File is not a zip file",
        "flipped.zip": "flipped.zip/QNLI/train.tsv cannot be read: ",
        "twice.zip": "twice.zip has 2 files QNLI/train.tsv; one is wanted",
    }.items():
        assert said in refused(capsys, gpt2_files, tmp_path / name, task="qnli")
    assert "has no files SST-2/train.tsv" in refused(capsys, gpt2_files, tmp_path / "whole.zip", task="sst-2")


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
        write("up.tar.gz", "aclImdb/../../x").name: "has a member 'aclImdb/../../x', which points outside",
        write("root.tar.gz", "/aclImdb/x").name: "has a member '/aclImdb/x', which points outside",
        write("link.tar.gz", "aclImdb/train/neg/50_1.txt", tarfile.SYMTYPE, b"").name: "50_1.txt' that is a link",
        write("twice.tar.gz", "aclImdb/train/neg/0_4.txt").name: "has train/neg/0_4.txt twice",
        "half.tar.gz": "half.tar.gz cannot be read",
        "flipped.tar.gz": "flipped.tar.gz cannot be read",
        "other.tar.gz": "other.tar.gz cannot be read",
    }.items():
        assert said in refused(capsys, gpt2_files, tmp_path / name, task="imdb")
    with tarfile.open(tmp_path / "train.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("aclImdb/train/neg/0_1.txt"), io.BytesIO())
    assert "has no files aclImdb/train/pos/*.txt" in refused(capsys, gpt2_files, tmp_path / "train.tar.gz", task="imdb")


def test_reviews_that_cannot_be_used(gpt2, capsys, gpt2_files, tmp_path):
    folder = files.write_reviews(tmp_path)
    for name, content in {"20_1.txt": b"", "21_1.txt": b"\xff", "22_1.txt": b"\0", "23_1.txt": b"x" * 2_000_000, "urls.txt": b"low"}.items():
        (folder / "train" / "neg" / name).write_bytes(content)
    extra = []
    for name in ("20_1.txt", "21_1.txt", "22_1.txt", "23_1.txt", "urls.txt"):
        content = (folder / "train" / "neg" / name).read_bytes()
        info = tarfile.TarInfo(f"aclImdb/train/neg/{name}")
        info.size = len(content)
        extra.append((info, content))
    skipped = []
    for source in (folder, files.write_tar(tmp_path / "x.tar.gz", extra)):
        out = tmp_path / f"out{len(skipped)}"
        counts = prepare(TASKS["imdb"], out, source, gpt2, max_skipped=0.6)["splits"]["train"]
        assert counts["written"] == 5
        skipped.append({reason: [place.removeprefix("aclImdb/") for place in what["examples"]] for reason, what in counts["skipped"].items()})
    assert skipped[0] == skipped[1] == {
        "a NUL byte": ["train/neg/22_1.txt"],
        "empty text": ["train/neg/20_1.txt"],
        f"longer than {MAX_BYTES:,} bytes": ["train/neg/23_1.txt"],
        "not UTF-8": ["train/neg/21_1.txt: byte 1 is 0xff"],
        "not named NUMBER_RATING.txt": ["train/neg/urls.txt"],
    }
    for path in (folder / "test" / "pos").iterdir():
        path.unlink()
    (folder / "test" / "pos").rmdir()
    assert "aclImdb/test/pos is not a folder; the texts of imdb lie in it" in refused(capsys, gpt2_files, folder, task="imdb")


def test_parquet_rows_that_cannot_be_used(gpt2, tmp_path):
    def change(columns):
        if len(columns["label"]) == 5:
            columns["sentence"][:4] = [None, "nul \0", " ", "x" * 2_000_000]
            columns["label"][4] = -1
            columns["sentence"] += ["low", "lower"]
            columns["label"] += [0, 1]
            columns["idx"] += [5, 6]
        return columns

    source = files.write_parquet("sst-2", tmp_path / "hub", change)
    counts = prepare(TASKS["sst-2"], tmp_path / "out", source, gpt2, max_skipped=0.8)["splits"]["train"]
    assert {reason: what["examples"] for reason, what in counts["skipped"].items()} == {
        "a NUL byte": ["sst2/train:2"],
        "empty text": ["sst2/train:1", "sst2/train:3"],
        f"longer than {MAX_BYTES:,} bytes": ["sst2/train:4"],
        "unknown label": ["sst2/train:5: '-1'"],
    }
    assert counts["classes"] == {"negative": 1, "positive": 1}


def test_parquet_that_is_not_the_hub_s(capsys, gpt2_files, tmp_path, monkeypatch):
    source = files.write_parquet("qnli", tmp_path / "half")
    file = source / "qnli" / "train-00000-of-00001.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert "half qnli/train cannot be read: " in refused(capsys, gpt2_files, source, task="qnli")
    file.write_bytes(b"")
    assert "half qnli/train cannot be read: " in refused(capsys, gpt2_files, source, task="qnli")
    file.unlink()
    assert "qnli has no train-*.parquet, as the hub has it" in refused(capsys, gpt2_files, source, task="qnli")
    file.with_name("train-00000-of-00003.parquet").write_bytes(whole)
    assert "qnli has 1 files train-*.parquet; train-00000-of-00003.parquet is one of 3" in refused(capsys, gpt2_files, source, task="qnli")
    row = list(files.FORMATS["qnli"])
    row[5] = "yes no"
    monkeypatch.setitem(files.FORMATS, "qnli", tuple(row))
    said = refused(capsys, gpt2_files, files.write_parquet("qnli", tmp_path / "names"), task="qnli")
    assert said.endswith("names qnli/train has a class 'yes'; entailment, not_entailment are wanted")
    row[5:] = ["entailment not_entailment", "qnli text sentence"]
    monkeypatch.setitem(files.FORMATS, "qnli", tuple(row))
    said = refused(capsys, gpt2_files, files.write_parquet("qnli", tmp_path / "columns"), task="qnli")
    assert said.endswith("columns qnli/train has the columns text, sentence, label, idx; question is wanted")


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
    assert end.value.code == "fairseq-linformer: nyu-mll/glue sst2/train cannot be read after row 1: ConnectionError: the line is dead"
    assert not os.listdir("refused")


def test_scores_that_are_none(gpt2, tmp_path):
    source = files.write_tsv("sts-b", tmp_path / "STS-B")
    with open(source / "train.tsv", "a") as file:
        for label in ("5.1", "-0.1", "nan", "inf", "", "high"):
            file.write(f"9\tg\tf\t2012\t9\tn\tn\ta\tb\t{label}\n")
    counts = prepare(TASKS["sts-b"], tmp_path / "out", source, gpt2, max_skipped=0.6)["splits"]["train"]
    assert counts["written"] == 5 and counts["skipped"]["unknown label"]["rows"] == 6
    assert counts["skipped"]["unknown label"]["examples"] == ["train.tsv:7: '5.1'", "train.tsv:8: '-0.1'", "train.tsv:9: 'nan'"]


_COMMAND = "import sys; from fairseq_linformer.cli import main; main(sys.argv[1:])"


def big(tmp_path, rows):
    source = files.write_tsv("sst-2", tmp_path / "SST-2")
    with open(source / "train.tsv", "ab") as file:
        file.write(b"low lower lower low hello world \t1\n" * rows)
    return source


@pytest.mark.slow
def test_a_full_disk_leaves_nothing(gpt2_files, tmp_path):
    """A limit on the size of a file is the nearest thing to a full disk that a test may have."""
    source = big(tmp_path, 5000)
    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, "prepare", "sst-2", tmp_path / "out" / "x", "--source", source, "--gpt2", gpt2_files],
        capture_output=True, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith(
        f"fairseq-linformer: {tmp_path / 'out' / 'x'} was not finished, nothing of it is left: [Errno 27] File too large"
    ), done.stderr
    assert "Traceback" not in done.stderr and not os.listdir(tmp_path / "out")


def test_a_kill_leaves_no_output(gpt2, tmp_path, monkeypatch):
    """At any time there is either the whole folder or none, also beside the one that was finished before."""
    source = big(tmp_path, 10)
    prepare(TASKS["sst-2"], tmp_path / "out" / "finished", source, gpt2)
    before = files.bins(tmp_path / "out" / "finished")
    if (child := os.fork()) == 0:
        try:
            monkeypatch.setattr(manifests, "sha256", lambda path: os.kill(os.getpid(), signal.SIGKILL))
            prepare(TASKS["sst-2"], tmp_path / "out" / "x", source, gpt2)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert not (tmp_path / "out" / "x").exists() and files.bins(tmp_path / "out" / "finished") == before
    prepare(TASKS["sst-2"], tmp_path / "out" / "x", source, gpt2)
    assert files.bins(tmp_path / "out" / "x") == before


@pytest.mark.parametrize(
    "change, said",
    [
        ({"classes": {}}, "either classes or a score"),
        ({"score": (0, 1)}, "either classes or a score"),
        ({"tsv": None}, "needs a source"),
        ({"tsv": Tsv("X", ["text", "class"], ["text"])}, "task x has no column label in train.tsv"),
        ({"hub": Hub("x", ["a", "b"])}, "one text or two, the same from each source"),
        ({"hub": Hub("x", ["a"], splits={"train": "train", "test": "test"})}, "the same splits from each source"),
    ],
)
def test_an_entry_that_contradicts_itself(change, said):
    entry = {"name": "x", "licence": "none", "classes": {"0": "no", "1": "yes"}, "tsv": Tsv("X", ["text", "label"], ["text"])}
    Task(**entry)
    with pytest.raises(ValueError, match=said):
        Task(**{**entry, **change})
