"""Atomic writes, and seals of JSON files."""

import errno
import json
import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from fairseq_linformer.files import new_folder, open_atomic, read_sealed, without_seal, write_sealed

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

cli.report.add_parser = lambda commands: commands.add_parser("report").set_defaults(run=slowly)
cli.main(["report"])
"""
REPLACED = HALF.replace(
    """        print("begun", flush=True)
        time.sleep(60)
""",
    """
        try:
            print("begun", flush=True)
            time.sleep(60)
        except BaseException as error:
            raise RuntimeError(f"INTERNAL: {error}") from None
""",
)
"""As sentencepiece does with what is raised where it calls Python."""
assert REPLACED != HALF


def test_full_disk_error_names_the_file(tmp_path):
    with pytest.raises(OSError, match="No space left on device: '.*a.txt'"), open_atomic(tmp_path / "a.txt"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not list(tmp_path.iterdir())


def test_error_of_a_library_keeps_its_sentence(tmp_path):
    """transformers raises OSError without a number, for example for a model that does not exist."""
    with pytest.raises(OSError, match="^no such model$"), new_folder(tmp_path / "out"):
        raise OSError("no such model")
    with pytest.raises(OSError, match="No space left on device: '.*out'"), new_folder(tmp_path / "out"):
        raise RuntimeError(f"write failed: {os.strerror(errno.ENOSPC)}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("script", [HALF, REPLACED], ids=["raised", "replaced"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_stopped_command_leaves_no_partial_files(number, script, tmp_path):
    words = [sys.executable, "-c", script, str(tmp_path / "out")]
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


def test_a_seal_detects_an_edit(tmp_path):
    content, path = {"seconds": 1.5, "scores": [1, 2], "by_n": {64: "a"}}, tmp_path / "a.json"
    write_sealed(path, content)
    stored = json.loads(path.read_text())
    assert without_seal(stored, "a.json") == read_sealed(path) == json.loads(json.dumps(content))
    for edit in ({"seconds": 1.6}, {"more": None}, {"scores": [2, 1]}, {"seal": "0"}):
        with pytest.raises(ValueError, match="a.json was edited.*seal"):
            without_seal({**stored, **edit}, "a.json")
        path.write_text(json.dumps({**stored, **edit}))
        with pytest.raises(ValueError, match="a.json is missing, edited or damaged"):
            read_sealed(path)
    stored.pop("seconds")
    with pytest.raises(ValueError, match="a.json was edited"):
        without_seal(stored, "a.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", "1"])
def test_a_file_without_a_seal_is_rejected(text, tmp_path):
    (tmp_path / "a.json").write_text(text)
    for name in ("a.json", "b.json"):
        with pytest.raises(ValueError, match=f"{name} is missing, edited or damaged"):
            read_sealed(tmp_path / name)


def test_files_of_earlier_versions_have_no_seal():
    assert without_seal({"seconds": 1.5}, "a.json") == {"seconds": 1.5}
