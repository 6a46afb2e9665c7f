"""Atomic writes, and folders that belong to their inputs."""

import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from fairseq_linformer.files import claim, new_folder, open_atomic, write_lines

from .forked_worker import reset_signals

HALF = """
import sys, time
from pathlib import Path
from fairseq_linformer import cli
from fairseq_linformer.files import new_folder

def slowly(options):
    with new_folder(sys.argv[1]) as folder:
        (folder / "half").touch()
        print("begun", flush=True)
        time.sleep(60)

cli.path.run = slowly
cli.main(["path", "plugin"])
"""


def test_an_error_leaves_no_folder(tmp_path):
    with pytest.raises(OSError, match="^no such model$"), new_folder(tmp_path / "out"):
        raise OSError("no such model")
    assert not list(tmp_path.iterdir())


def test_content_is_on_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    """A power cut between the two would otherwise leave an empty file with the name of a complete one."""
    synced, named, fsync, replace = {}, [], os.fsync, os.replace

    def record(descriptor):
        stat = os.fstat(descriptor)
        synced[stat.st_ino] = stat.st_size
        fsync(descriptor)

    def check(source, target):
        written = [path for path in (source, *source.rglob("*")) if path.is_file()]
        assert [synced.get(path.stat().st_ino) for path in written] == [path.stat().st_size for path in written]
        assert written
        named.append(target.name)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(os, "replace", check)
    with open_atomic(tmp_path / "a.txt") as file:
        file.write("whole")
    with new_folder(tmp_path / "out") as folder:
        (folder / "sub").mkdir()
        (folder / "sub/b").write_text("b")
        (folder / "c").write_text("cc")
    assert named == ["a.txt", "out"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_stopped_command_leaves_no_partial_files(number, tmp_path):
    words = [sys.executable, "-c", HALF, str(tmp_path / "out")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=reset_signals)
    assert process.stdout.readline() == "begun\n" and list(tmp_path.iterdir())
    process.send_signal(number)
    assert process.wait(60) == 128 + number and not list(tmp_path.iterdir())


def test_nohup_is_respected(tmp_path):
    hang_up = HALF.replace("time.sleep(60)", "os.kill(os.getpid(), signal.SIGHUP)").replace(
        "sys, time", "os, signal, sys"
    )
    ignore = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    done = subprocess.run([sys.executable, "-c", hang_up, str(tmp_path / "out")], preexec_fn=ignore)
    assert done.returncode == 0 and (tmp_path / "out/half").exists()


def test_write_lines_is_atomic(tmp_path):
    write_lines(tmp_path / "a.txt", ["whole"])

    def lines():
        yield "half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lines(tmp_path / "a.txt", lines())
    assert (tmp_path / "a.txt").read_text() == "whole\n" and len(list(tmp_path.iterdir())) == 1


def test_a_folder_belongs_to_its_inputs(tmp_path):
    inputs = {"text": {"train.idx": "abc"}, "lr": 0.1, "k": "4,8", "seed": None}
    claim(tmp_path / "new", inputs)
    claim(tmp_path / "new", {name: value for name, value in inputs.items() if value})
    with pytest.raises(
        ValueError,
        match="new was made from other inputs: k must be 4,8, got None; lr must be 0.1, got 1; choose another",
    ):
        claim(tmp_path / "new", {**inputs, "k": None, "lr": 1})
