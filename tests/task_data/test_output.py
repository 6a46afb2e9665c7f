"""Options and outputs that are refused; whatever happens, nothing is half-written."""

import os
import resource
import signal
import subprocess
import sys

import pytest

from fairseq_linformer.cli import main
from fairseq_linformer.task_data import manifest as manifests
from fairseq_linformer.task_data import tsv
from fairseq_linformer.task_data.prepare import prepare
from fairseq_linformer.task_data.table import TASKS

from . import files
from .refusals import refused


def test_options_and_an_output_that_is_there(capsys, gpt2_files, tmp_path):
    source = files.write_tsv("qnli", tmp_path / "QNLI")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for options, out, said in (
        (["--max-positions", 5], None, "max_positions is 5"),
        (["--max-skipped", 1], None, "max_skipped is 1.0"),
        ([], tmp_path / "full", "full has files"),
        ([], source / "train.tsv", "train.tsv is not a folder"),
        ([], tmp_path / "link", "link is a link"),
        ([], source / "train.tsv" / "out", "[Errno 17] File exists"),
    ):
        assert said in refused(capsys, gpt2_files, source, *options, task="qnli", out=out)
    assert os.listdir(tmp_path / "full") == ["x"]


def test_a_source_that_is_gone_is_not_blamed_on_the_output(capsys, gpt2_files, tmp_path, monkeypatch):
    def gone(path):
        raise FileNotFoundError(2, "No such file or directory", "train.tsv")

    monkeypatch.setattr(tsv, "sha256", gone)
    said = refused(capsys, gpt2_files, files.write_tsv("sst-2", tmp_path / "SST-2"))
    assert "refused/out was not finished" in said and said.endswith("[Errno 2] No such file or directory: 'train.tsv'")


def test_a_tokenizer_without_a_name(capsys, gpt2_files, tmp_path):
    source = files.write_tsv("qnli", tmp_path / "QNLI")
    for option, said in (("--gpt2", "encoder.json is not a file"), ("--sentencepiece", "--sentencepiece needs")):
        with pytest.raises(SystemExit) as end:
            main(["prepare", "qnli", str(tmp_path / "out"), "--source", str(source), option, ""])
        assert said in end.value.code


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
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and str(tmp_path / "out" / "x") in last and "[Errno 27] File too large" in last, done.stderr
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
