"""Files that are there whole or not at all."""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest

from fairseq_linformer.files import atomic

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


def test_a_full_disk_says_which_file(tmp_path):
    with pytest.raises(OSError, match="No space left on device: '.*a.txt'"):
        with atomic(tmp_path / "a.txt"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not list(tmp_path.iterdir())


def test_a_command_that_is_terminated_leaves_nothing_half_written(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HALF, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n" and list(tmp_path.iterdir())
    time.sleep(0.1)
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM and not list(tmp_path.iterdir())
