"""Training in a worker process on this machine; this process handles its log, progress, errors and signals."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import TIMEOUT_MAX, Event, Timer

from ..signals import handle, hangup_signals
from . import run_folder
from .checkpoints import LAST
from .job import TrainingJob
from .progress import TrainingProgress

_PR_SET_PDEATHSIG = 1  # Linux's prctl: signal sent when the parent dies
_FAILURE = re.compile(r"\| ERROR \|.*\brank 0 of 1\b.* failed: (.*)$")
_FIRST_UPDATE = "Start iterating over samples"
"""fairseq logs this before the first update. From then on, a signal makes the worker save and stop."""


def train(training: TrainingJob, log: str, updates: int, until: float | None = None) -> bool:
    """Start or resume training in its run folder, and mark the folder when training is complete.

    Args:
        log: file in the folder's ``logs`` that the worker's output is appended to.
        updates: total number of updates.
        until: value of ``time.monotonic()`` at which to stop.

    Returns:
        Whether training is complete: True at once if the folder is marked, without comparing its configuration, as
        ``run_folder.is_new`` does. If not, it was stopped after ``until`` and saved; call again to resume.

    Raises:
        ValueError: as ``run_folder.create_or_resume``; or training failed.
        KeyboardInterrupt: this process received a signal to stop, or its worker did and there is no ``until``; call
            again to resume.
    """
    if (training.folder / run_folder.DONE).exists():
        return True
    for line in run_folder.create_or_resume(training):
        print(f"{training.name}: {line}", file=sys.stderr)
    path = training.folder / run_folder.LOGS / log
    seconds = None if until is None else max(0.0, until - time.monotonic())
    failure = follow(start_worker(training), path, TrainingProgress(training.name, updates), seconds)
    if (training.folder / run_folder.STOPPED).exists():
        if until is None:
            raise KeyboardInterrupt
        return False
    if failure is not None:
        last = training.folder / run_folder.CHECKPOINTS / LAST
        saved = f"the last checkpoint is {last}" if last.exists() else "no checkpoint was saved"
        raise ValueError(f"training {training.name} failed: {failure}; {saved}; the log is {path}")
    (training.folder / run_folder.DONE).touch()
    return True


def start_worker(training: TrainingJob) -> subprocess.Popen:
    """Start ``training.worker`` as the only rank, in an existing run folder."""
    arguments = [
        f"--config={training.config}",
        f"--device={training.device}",
        f"--runs={training.runs}",
        f"--name={training.name}",
        *training.overrides,
    ]
    package = str(Path(__file__).resolve().parents[2])
    environment = {
        **os.environ,
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
    }
    # The worker stops when this process ends, even if it is killed.
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    return subprocess.Popen(
        [sys.executable, "-m", "fairseq_linformer.training.worker", "--processes=1", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=prctl and (lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)),
    )


def follow(worker: subprocess.Popen, log: Path, progress: TrainingProgress, seconds: float | None) -> str | None:
    """Append a worker's output to ``log`` and report its progress until it ends.

    Args:
        seconds: time limit; the worker then gets a signal to stop, but not before its first update.

    Returns:
        Its error; None if it succeeded.

    Raises:
        KeyboardInterrupt: this process received a signal to stop, and the worker has ended.
        OSError: the log cannot be written, and the worker was stopped.
    """
    failure, last_line = None, ""
    log_error: OSError | None = None
    first_update, interrupted = Event(), Event()

    def forward(number: int, frame) -> None:
        interrupted.set()
        worker.send_signal(signal.SIGTERM)  # the worker finishes its update, saves and exits

    def stop() -> None:
        first_update.wait()
        worker.send_signal(signal.SIGTERM)  # no effect on a worker that has ended

    timer = Timer(TIMEOUT_MAX if seconds is None else min(seconds, TIMEOUT_MAX), stop)
    timer.daemon = True
    with handle((signal.SIGINT, signal.SIGTERM, *hangup_signals()), forward):
        timer.start()
        try:
            with open(log, "ab", buffering=0) as file, progress:
                assert worker.stdout is not None  # a pipe
                for line in worker.stdout:
                    if log_error is None:
                        try:
                            file.write(line.encode())
                        except OSError as error:
                            log_error = error
                            worker.send_signal(signal.SIGTERM)
                    last_line = line.strip() or last_line
                    if _FIRST_UPDATE in line:
                        first_update.set()
                    if match := _FAILURE.search(line):
                        failure = match[1].strip()
                    progress.read(line)
        except OSError:
            worker.send_signal(signal.SIGTERM)
            worker.communicate()  # a worker that fills the pipe would wait forever
            raise
        finally:
            timer.cancel()
    status = worker.wait()
    first_update.set()  # releases a timer that still waits for it
    if interrupted.is_set():
        raise KeyboardInterrupt
    if log_error is not None:
        raise OSError(log_error.errno, log_error.strerror, str(log))
    return None if status == 0 else failure or f"status {status}: {last_line[:300]}"
