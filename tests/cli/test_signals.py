"""Commands that a signal ends at a random moment leave a whole output or none, no process, and no other file."""

import multiprocessing
import os
import random
import shlex
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from fairseq_linformer.cli import main

from ..bad_input.world import world  # noqa: F401  a fixture
from ..forked_worker import forget_temporary_folder

COMMANDS = [
    "evaluate cls/model.pt rows.tsv --device cpu --predictions {out}.tsv",
    "convert to-huggingface mlm/model.pt {out}",
    "convert from-huggingface hf {out}",
    "convert from-transformers bert {out}",
    "convert resize mlm/model.pt {out}.pt --max-positions 32",
    "prepare sentencepiece {out} --source text.txt --vocab-size 30",
    "prepare pretraining {out} --source {documents} --valid-share 0.2 --sentencepiece-model spm.model",
    "analyze theorems {out} --lengths 16,32 --head-dim 4",
]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DEADLINE = 60.0
"""Seconds until a process that is left will not end."""
RESUMES = "prepare pretraining"


def run(words: str, log: Path, number: int | None = None, seconds: float = 0) -> tuple[int | None, float]:
    """Run a command in a process and session of its own, and send it a signal after some time.

    Returns:
        the exit status, negative for a signal that is not handled yet, and the duration in seconds.
    """
    log.touch()  # a signal may come before the process has opened it
    process = multiprocessing.get_context("fork").Process(target=_work, args=(words, log))
    start = time.monotonic()
    process.start()
    if number is not None:
        process.join(seconds)
        if process.is_alive():
            os.kill(process.pid, number)
    process.join()
    seconds = time.monotonic() - start
    while left := _session(process.pid):  # processes that are about to end
        assert time.monotonic() < start + DEADLINE, (left, log.read_text())
        time.sleep(0.01)
    return process.exitcode, seconds


def _work(words: str, log: Path) -> None:
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.setsid()
    forget_temporary_folder()
    with open(log, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        sys.stdout = sys.stderr = os.fdopen(1, "w", closefd=False)
        main(shlex.split(words))


def _session(leader: int) -> list[int]:
    """Processes of a session that have not ended."""
    found = []
    for process in psutil.process_iter(["pid", "status"]):
        try:
            if os.getsid(process.pid) == leader and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except ProcessLookupError:
            continue
    return found


def names(folder: Path) -> set[str]:
    """Files and folders, without logs."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix != ".log"}


@pytest.fixture
def here(world, monkeypatch):  # noqa: F811
    monkeypatch.chdir(world)
    return world


@pytest.mark.slow
@pytest.mark.fault("signal to a command")
@pytest.mark.parametrize("seed", range(int(os.environ.get("FAULTS", "1"))))
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words.split()[:2]))
def test_random_moment(command, seed, here, tmp_path):
    choose, before = random.Random(f"{command} {seed}"), names(here)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    documents = tmp_path / "documents.txt"
    documents.write_text("".join(f"the cat sat {i}\na dog ran\n\n" for i in range(300)))
    status, seconds = run(command.format(out=whole / "out", documents=documents), tmp_path / "whole.log")
    assert status == 0, (tmp_path / "whole.log").read_text()
    number = choose.choice(SIGNALS)
    words, log = command.format(out=stopped / "out", documents=documents), tmp_path / "stopped.log"
    status, _ = run(words, log, number, choose.uniform(0, seconds))
    assert status in (0, -number, 128 + number), log.read_text()
    assert "Traceback" not in log.read_text()
    assert names(here) == before
    if status and command.startswith(RESUMES):
        assert run(words, log)[0] == 0, log.read_text()
    assert names(stopped) in ([names(whole)] if not status or command.startswith(RESUMES) else [names(whole), set()])
