"""Training by one worker process on this machine, which this process follows: log, progress, failure, signals."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import TIMEOUT_MAX, Event, Timer
from typing import Optional

from ..fairseq_log import numbers
from ..progress import Progress
from . import run_folder
from .checkpoints import LAST
from .training import Training

_PR_SET_PDEATHSIG = 1  # Linux's prctl: the signal that a process gets when its parent dies
_FAILURE = re.compile(r"\| ERROR \|.*\brank 0 of 1\b.* failed: (.*)$")
_FIRST_UPDATE = "Start iterating over samples"
"""fairseq logs it before the first update; from then on a signal makes the worker save and stop."""


def train(training: Training, log: str, updates: int, what: str, until: Optional[float] = None) -> bool:
    """Start or resume training in its run folder, and mark the folder when training is complete.

    Args:
        log: file in the folder's ``logs`` to which the worker's output is appended.
        updates: of the whole training.
        what: is trained, in a few words.
        until: the ``time.monotonic()`` at which training is stopped.

    Returns:
        whether training is complete; if not, it was stopped and saved, and the same call resumes it.

    Raises:
        ValueError: as ``run_folder.create_or_resume``; or training failed, with the checkpoint to resume from.
        KeyboardInterrupt: this process received a signal to stop; the same call resumes.
    """
    for line in run_folder.create_or_resume(training):
        print(f"{what}: {line}", file=sys.stderr)
    path = training.folder / run_folder.LOGS / log
    seconds = None if until is None else max(0.0, until - time.monotonic())
    failure = follow(start_worker(training), path, updates, what, seconds)
    if (training.folder / run_folder.STOPPED).exists():
        return False
    if failure is not None:
        last = training.folder / run_folder.CHECKPOINTS / LAST
        saved = f"the last good checkpoint is {last}" if last.exists() else "no checkpoint was saved"
        raise ValueError(f"{what} failed: {failure}; {saved}; the log is {path}")
    (training.folder / run_folder.DONE).touch()
    return True


def start_worker(training: Training) -> subprocess.Popen:
    """Start ``launching.worker`` as the only rank of a job in a run folder that exists."""
    arguments = [
        f"--config={training.config}", f"--device={training.device}", f"--runs={training.runs}",
        f"--name={training.name}", *training.overrides,
    ]  # fmt: skip
    package = str(Path(__file__).resolve().parents[2])
    environment = {
        **os.environ, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0",  # any free port: no other process connects
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
    }  # fmt: skip
    # Whatever ends this process, even a kill, stops the worker.
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    return subprocess.Popen(
        [sys.executable, "-m", "fairseq_linformer.launching.worker", "--processes=1", *arguments], env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        preexec_fn=prctl and (lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)),
    )  # fmt: skip


def follow(worker: subprocess.Popen, log: Path, updates: int, what: str, seconds: Optional[float]) -> Optional[str]:
    """Append a worker's output to ``log`` and show its progress until it ends; why it failed, or None.

    Args:
        seconds: after which the worker gets a signal to stop, though not before its first update; None for no limit.

    Raises:
        KeyboardInterrupt: this process received a signal to stop, and the worker has ended.
    """
    failure, last_line, done = None, "", 0
    first_update, interrupted = Event(), Event()

    def forward(number: int, frame) -> None:
        interrupted.set()
        worker.send_signal(signal.SIGTERM)  # it finishes the update, saves and ends

    def stop() -> None:
        first_update.wait()
        worker.send_signal(signal.SIGTERM)  # does nothing once it has ended

    handlers = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    timer = Timer(TIMEOUT_MAX if seconds is None else min(seconds, TIMEOUT_MAX), stop)
    timer.daemon = True
    timer.start()
    try:
        with open(log, "a", encoding="utf-8", buffering=1) as file, Progress(what, int(updates), "updates") as progress:
            for line in worker.stdout:
                file.write(line)
                last_line = line.strip() or last_line
                if _FIRST_UPDATE in line:
                    first_update.set()
                if match := _FAILURE.search(line):
                    failure = match[1].strip()
                elif found := numbers(line):
                    split, stats = found
                    if split in ("train_inner", "train"):
                        now = int(stats.get("num_updates", stats.get("train_num_updates", done)))
                        progress.add(max(0, now - done))
                        done = max(done, now)
                    elif "epoch" in stats:
                        scores = [f"{key.removeprefix(split + '_')} {value:g}" for key, value in stats.items()
                                  if key.endswith(("loss", "accuracy", "spearman"))]  # fmt: skip
                        print(f"epoch {stats['epoch']:.0f}, {split}: {', '.join(scores)}", file=sys.stderr)
    finally:
        timer.cancel()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    status = worker.wait()
    first_update.set()  # ends a timer that waits for an update that never came
    if interrupted.is_set():
        raise KeyboardInterrupt
    return None if status == 0 else failure or f"status {status}: {last_line[:300]}"
