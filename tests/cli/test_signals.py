"""Commands that a signal ends at a random moment leave a whole output or none, no process, and no other file; tokens in
the environment reach no file and no output."""

import json
import multiprocessing
import os
import random
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch

from fairseq_linformer.cli import main

from ..bad_input.world import world  # noqa: F401  a fixture
from ..fault_seeds import SEEDS
from ..forked_worker import forget_temporary_folder
from ..test_secrets import files_with_secret, secrets  # noqa: F401  a fixture

COMMANDS = [
    "evaluate cls/model.pt rows.tsv --device cpu --predictions {out}.tsv",
    "export mlm/model.pt {out}",
    "convert hf {out}",
    "convert bert {out}",
    "convert mlm/model.pt {out} --max-positions 32",
    "prepare sentencepiece {out} --source text.txt --vocab-size 30",
    "prepare pretraining {out} --source {documents} --valid-share 0.2 --tokenizer spm.model",
]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DEADLINE = 60.0
"""Seconds until a process that is left will not end."""


def run(words: str, log: Path, number: int | None = None, delay: float = 0) -> tuple[int | None, float]:
    """Run a command in a process and session of its own, and send it a signal after a delay in seconds.

    Returns:
        the exit status, negative for a signal that is not handled yet, and the duration in seconds.
    """
    log.touch()  # a signal may come before the process has opened it
    process = multiprocessing.get_context("fork").Process(target=_work, args=(words, log))
    start = time.monotonic()
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until ``main`` begins
    process.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, previous)
    if number is not None:
        process.join(delay)
        if process.is_alive():
            os.kill(process.pid, number)
    process.join(DEADLINE)
    if process.is_alive():
        process.kill()
        raise AssertionError(f"{words} did not end: {log.read_text()}")
    duration = time.monotonic() - start
    while left := _session(process.pid):  # processes that are about to end
        assert time.monotonic() < start + DEADLINE, (left, log.read_text())
        time.sleep(0.01)
    return process.exitcode, duration


def _work(words: str, log: Path) -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    forget_temporary_folder()
    with open(log, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        sys.stdout = sys.stderr = os.fdopen(1, "w", closefd=False)
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            main(shlex.split(words))
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


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


def load(path: Path) -> object:
    """Content of a file; of one with dates or durations only whether it is complete."""
    if path.suffix == ".pt":
        return {name: tensor.tolist() for name, tensor in torch.load(path, weights_only=True)["model"].items()}
    if path.suffix == ".json":
        return bool(json.loads(path.read_text()))
    if path.suffix in (".md", ".log"):
        return path.read_bytes().endswith(b"\n")
    return path.read_bytes()


def contents(folder: Path, read: Callable[[Path], object] = load) -> dict[str, object]:
    """All files and folders."""
    return {str(path.relative_to(folder)): read(path) if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def here(world, monkeypatch):  # noqa: F811
    monkeypatch.chdir(world)
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words.split()[:2]))
def test_random_moment(command, seed, here, tmp_path):
    choose, before = random.Random(f"{command} {seed}"), contents(here, Path.read_bytes)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    documents = tmp_path / "documents.txt"
    documents.write_text("".join(f"the cat sat {i}\na dog ran\n\n" for i in range(300)))
    status, seconds = run(command.format(out=whole / "out", documents=documents), tmp_path / "whole.log")
    assert status == 0, (tmp_path / "whole.log").read_text()
    assert [*whole.iterdir()] and not files_with_secret(tmp_path)
    number = choose.choice(SIGNALS)
    words, log = command.format(out=stopped / "out", documents=documents), tmp_path / "stopped.log"
    status, _ = run(words, log, number, choose.uniform(0, seconds))
    # torch.save that a signal ends raises an error of its own.
    assert status in (0, -number, 128 + number) or "unexpected pos" in log.read_text(), log.read_text()
    assert contents(here, Path.read_bytes) == before
    assert contents(stopped) in ([contents(whole)] if not status else [contents(whole), {}])
