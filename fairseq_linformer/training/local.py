"""Training in a worker process on this machine; this process shows its progress, and passes on errors and signals."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from ..signals import handle, hangup_signals
from . import run_folder
from .job import TrainingJob
from .progress import TrainingProgress
from .restore import LAST
from .stopping import STOPPED

_PR_SET_PDEATHSIG = 1  # Linux's prctl: signal sent when the parent dies


def train(job: TrainingJob, updates: int, ignore: Sequence[str] = (), advice: str = "choose another --name") -> None:
    """Start or resume training in its run folder; does nothing if it is complete.

    Args:
        updates: total number of updates.
        ignore, advice: as for ``check_run_folder``.

    Raises:
        ValueError: as ``check_run_folder``; or training failed.
        KeyboardInterrupt: a signal has stopped it, and it is saved; call again to resume.
    """
    run_folder.check_run_folder(job, ignore, advice)
    if (job.folder / run_folder.DONE).exists():
        return
    last_line = ""
    worker = start_worker(job)

    def forward(number: int, frame: FrameType | None) -> None:
        worker.send_signal(signal.SIGTERM)  # the worker finishes its update, saves and exits

    with handle((signal.SIGINT, signal.SIGTERM, *hangup_signals()), forward):
        with TrainingProgress(job.name, updates) as progress:
            assert worker.stdout is not None  # a pipe
            for line in worker.stdout:
                last_line = line.strip() or last_line
                progress.read(line)
        status = worker.wait()
    if status == STOPPED:
        raise KeyboardInterrupt
    if status != 0:
        last = job.folder / run_folder.CHECKPOINTS / LAST
        saved = f"the last checkpoint is {last}" if last.exists() else "no checkpoint was saved"
        log = job.folder / run_folder.LOGS / run_folder.LOG
        failure = last_line[:300] or f"status {status}"
        raise ValueError(f"training {job.name} failed: {failure}; {saved}; the log is {log}")


def start_worker(job: TrainingJob) -> subprocess.Popen:
    """Start ``worker`` as the only rank."""
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
        [sys.executable, "-m", "fairseq_linformer.training.worker", *job.arguments()],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=prctl and (lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)),
    )
