"""A training by one process on this machine, started and followed by a command: its log is kept, its progress shown, its end told."""

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import Dict, List, Optional

from ..fairseq_log import numbers
from ..progress import Progress
from . import folder as run_folder
from .checkpoints import LAST
from .training import Training

_PR_SET_PDEATHSIG = 1  # of Linux's prctl: the signal at the death of the parent
_FAILED = re.compile(r"\| ERROR \|.*\brank 0 of 1\b.* failed: (.*)$")
_BEGUN = "Start iterating over samples"
"""fairseq, as it begins the first update; from then on a signal stops it as it should."""


def train(training: Training, log: str, updates: int, what: str, until: Optional[float] = None) -> bool:
    """Train in its run folder from where it is, and mark the end.

    Args:
        log: name of the file, in the folder's ``logs``, to which what fairseq says is added.
        updates: of the whole training.
        what: is trained, in a few words.
        until: the time, of ``time.monotonic``, at which it is told to stop.

    Returns:
        whether it is trained to its end; if not, it was told to stop and saved, and the same call goes on.

    Raises:
        ValueError: as ``launching.folder.begin``; or training failed, with what to go on from.
        KeyboardInterrupt: this process was told to stop; the same call goes on.
    """
    for line in run_folder.begin(training):
        print(f"{what}: {line}", file=sys.stderr)
    path = training.folder / run_folder.LOGS / log
    failed = follow(start(training), path, updates, what, None if until is None else max(0.0, until - time.monotonic()))
    if (training.folder / run_folder.STOPPED).exists():
        return False
    if failed is not None:
        last = training.folder / run_folder.CHECKPOINTS / LAST
        left = f"the last good checkpoint is {last}" if last.exists() else "nothing was finished, so there is no checkpoint"
        raise ValueError(f"{what} failed: {failed}; {left}; {path} has what fairseq said")
    (training.folder / run_folder.DONE).touch()
    return True


def start(training: Training) -> subprocess.Popen:
    """``launching.rank`` in the run folder that ``launching.folder.begin`` has made."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    words = [f"--config={training.config}", f"--device={training.device}", f"--runs={training.runs}", f"--name={training.name}", *training.overrides]
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    # What stops this process stops the one that trains, however it comes.
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    return subprocess.Popen([sys.executable, "-m", "fairseq_linformer.launching.rank", "--processes", "1", *words],
                            env={**os.environ, **place, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                            preexec_fn=prctl and (lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)))  # fmt: skip


def follow(process: subprocess.Popen, log: Path, updates: int, what: str, seconds: Optional[float] = None) -> Optional[str]:
    """Show how far it is until it ends.

    Args:
        log: to which what it says is added.
        what: is being done, in a word.
        seconds: after which it is told to stop, yet not before its first update: it saves, and a mark in its run folder says so.

    Returns:
        why it failed, None if it did not.

    Raises:
        KeyboardInterrupt: this process was told to stop, and the other one has ended.
    """
    failed, last, done, told = None, "", 0, []
    begun, ended = Event(), Event()

    def hand_on(number: int, frame) -> None:
        told.append(number)
        process.send_signal(signal.SIGTERM)  # it finishes the update, saves and ends

    def stop_in_time() -> None:
        if not ended.wait(seconds):
            begun.wait()
            if not ended.is_set():
                process.send_signal(signal.SIGTERM)

    handlers = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM)}
    if seconds is not None:
        Thread(target=stop_in_time, daemon=True).start()
    try:
        with open(log, "a", encoding="utf-8", buffering=1) as file, Progress(what, int(updates), "updates") as progress:
            for line in process.stdout:
                file.write(line)
                last = line.strip() or last
                if _BEGUN in line:
                    begun.set()
                if found := _FAILED.search(line):
                    failed = found[1].strip()
                elif found := numbers(line):
                    split, stats = found
                    if split in ("train_inner", "train"):
                        now = int(stats.get("num_updates", stats.get("train_num_updates", done)))
                        progress.add(max(0, now - done))
                        done = max(done, now)
                    elif "epoch" in stats:
                        print(f"epoch {stats['epoch']:.0f}, {split}: {', '.join(_told(split, stats))}", file=sys.stderr)
    finally:
        ended.set()
        begun.set()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    status = process.wait()
    if told:
        raise KeyboardInterrupt
    return None if status == 0 else failed or f"status {status}: {last[:300]}"


def _told(split: str, stats: Dict[str, float]) -> List[str]:
    return [f"{key.removeprefix(split + '_')} {value:g}" for key, value in stats.items() if re.search("loss$|accuracy$|spearman$", key)]
