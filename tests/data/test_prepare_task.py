"""Rejected options and output folders; the output is complete or absent after errors and kills."""

import os
import re
import resource
import signal
import subprocess
import sys

import pytest
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_linformer.cli import main
from fairseq_linformer.data import prepare_task as prepare_module
from fairseq_linformer.data import task_manifest as manifests
from fairseq_linformer.data import tsv
from fairseq_linformer.data.prepare_task import prepare_task
from fairseq_linformer.data.tasks import TASKS
from fairseq_linformer.progress import Progress

from . import task_files as files
from .command_errors import error_of


def test_rejected_options_and_output_folders(capsys, gpt2, tmp_path):
    source = files.write_tsv("qnli", tmp_path / "QNLI")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for options, out, message in (
        (["--max-positions", 5], None, "got 5"),
        (["--max-skipped", 1], None, "got 1.0"),
        (["--train-rows", 0], None, "--train-rows must be at least 1, got 0"),
        (["--valid-rows", 99], None, "--valid-rows must be at most"),
        ([], tmp_path / "full", "but it has files"),
        ([], source / "train.tsv", "but it is not a folder"),
        ([], tmp_path / "link", "but it is a link"),
        ([], source / "train.tsv" / "out", "[Errno 17] File exists"),
    ):
        assert message in error_of(capsys, gpt2, source, *options, task="qnli", out=out)
    assert os.listdir(tmp_path / "full") == ["x"]


def test_selected_rows_are_rows_of_the_source_in_their_order(bpe, tmp_path):
    """All development sets are limited; the same number gives the same rows, and the manifest has the options."""
    source = files.write_tsv("mnli", tmp_path / "MNLI")

    def prepare_rows(name, **options):
        manifest = prepare_task(TASKS["mnli"], tmp_path / name, source, bpe, **options)
        paths = {split: tmp_path / name / "input0" / split for split in TASKS["mnli"].splits}
        return manifest, {
            split: [row.tolist() for row in MMapIndexedDataset(str(path))] for split, path in paths.items()
        }

    _, every = prepare_rows("every")
    manifest, selected = prepare_rows("selected", num_rows={"train": 3, "valid": 2})
    assert {split: len(rows) for split, rows in selected.items()} == {"train": 3, "valid": 2, "valid1": 2}
    for split, rows in selected.items():
        at = [every[split].index(row) for row in rows]
        assert at == sorted(at) and len(every[split]) > len(rows)
    assert "--train-rows 3 --valid-rows 2" in manifest["command"]
    assert prepare_rows("again", num_rows={"train": 3, "valid": 2})[1] == selected


def test_error_names_the_missing_source_file(capsys, gpt2, tmp_path, monkeypatch):
    def raise_missing(path):
        raise FileNotFoundError(2, "No such file or directory", "train.tsv")

    monkeypatch.setattr(tsv, "sha256", raise_missing)
    message = error_of(capsys, gpt2, files.write_tsv("sst-2", tmp_path / "SST-2"))
    assert "rejected/out failed" in message and message.endswith("[Errno 2] No such file or directory: 'train.tsv'")


def test_empty_tokenizer_path_is_rejected(capsys, gpt2, tmp_path):
    source = files.write_tsv("qnli", tmp_path / "QNLI")
    for option in ("--gpt2-bpe", "--sentencepiece-model"):
        with pytest.raises(SystemExit):
            main(["prepare", "qnli", str(tmp_path / "out"), "--source", str(source), option, ""])
        assert f"{option}: must not be empty" in capsys.readouterr().err


def test_redirected_output_has_progress_lines(bpe, tmp_path, monkeypatch, capsys):
    """With rows, rate and ETA; here at short intervals."""
    monkeypatch.setattr(prepare_module, "Progress", lambda *args: Progress(*args, interval=0.01))
    prepare_task(TASKS["sst-2"], tmp_path / "out", write_large_source(tmp_path, 20_000), bpe)
    lines = capsys.readouterr().err.splitlines()
    line = r"sst-2 train: [\d,]+/20,005 rows \(\d+ %\), [\d,]+ rows/s, ETA 0:00:\d\d"
    assert any(re.fullmatch(line, printed) for printed in lines), lines
    assert any(printed.startswith("sst-2 train: 20,005 rows in 0:00:") for printed in lines)


_COMMAND = "import sys; from fairseq_linformer.cli import main; main(sys.argv[1:])"


def write_large_source(tmp_path, rows):
    source = files.write_tsv("sst-2", tmp_path / "SST-2")
    with open(source / "train.tsv", "ab") as file:
        file.write(b"low lower lower low hello world \t1\n" * rows)
    return source


@pytest.mark.slow
def test_full_disk_leaves_no_files(gpt2, tmp_path):
    """Simulated by a limit on the file size."""
    source = write_large_source(tmp_path, 5000)
    (tmp_path / "out").mkdir()
    process = subprocess.run(
        [
            sys.executable,
            "-c",
            _COMMAND,
            "prepare",
            "sst-2",
            tmp_path / "out" / "x",
            "--source",
            source,
            "--gpt2-bpe",
            gpt2,
        ],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )
    last = process.stderr.splitlines()[-1]
    assert process.returncode == 1 and str(tmp_path / "out" / "x") in last and "[Errno 27] File too large" in last, (
        process.stderr
    )
    assert "Traceback" not in process.stderr and not os.listdir(tmp_path / "out")


def test_killed_run_leaves_no_output(bpe, tmp_path, monkeypatch):
    """An earlier finished folder next to it is unchanged, and rerunning succeeds."""
    source = write_large_source(tmp_path, 10)
    prepare_task(TASKS["sst-2"], tmp_path / "out" / "finished", source, bpe)
    before = files.bins(tmp_path / "out" / "finished")
    if (child := os.fork()) == 0:
        try:
            monkeypatch.setattr(manifests, "sha256", lambda path: os.kill(os.getpid(), signal.SIGKILL))
            prepare_task(TASKS["sst-2"], tmp_path / "out" / "x", source, bpe)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert not (tmp_path / "out" / "x").exists() and files.bins(tmp_path / "out" / "finished") == before
    prepare_task(TASKS["sst-2"], tmp_path / "out" / "x", source, bpe)
    assert files.bins(tmp_path / "out" / "x") == before
