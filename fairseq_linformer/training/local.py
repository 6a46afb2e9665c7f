"""Training in a worker process on this machine; this process shows its progress, and passes on errors and signals."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from tqdm import tqdm

from ..checkpoints.identify import LAST
from ..fairseq_log import parse_line
from ..progress import progress_bar
from .job import TrainingJob
from .run_folder import CHECKPOINTS, DONE, LOG, LOGS, write_config
from .signals import handle, hangup_signals
from .stopping import STOPPED

_PR_SET_PDEATHSIG = 1  # Linux's prctl: signal sent when the parent dies
_SCORES = ("loss", "accuracy", "spearman")


def train(job: TrainingJob) -> None:
    """Start or resume training in a job's run folder, which has been checked; does nothing if it is complete.

    Raises:
        ValueError: training failed.
        KeyboardInterrupt: a signal has stopped it, and it is saved; call again to resume.
    """
    if (job.folder / DONE).exists():
        return
    last, last_line, stopped = job.folder / CHECKPOINTS / LAST, "", False
    start = f"resuming from {last}" if last.exists() else f"training; the log is {job.folder / LOGS / LOG}"
    print(f"{job.name}: {start}", file=sys.stderr)  # the first updates can take minutes
    write_config(job)
    worker = start_worker(job.folder)

    def forward(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        worker.send_signal(signal.SIGTERM)  # the worker finishes its update, saves and exits

    updates = job.cfg.optimization.max_update or job.cfg.lr_scheduler.total_num_update
    with handle((signal.SIGINT, signal.SIGTERM, *hangup_signals()), forward):
        with progress_bar(job.name, int(updates), "update") as bar:
            assert worker.stdout is not None  # a pipe
            for line in worker.stdout:
                last_line = line.strip() or last_line
                show_progress(bar, line)
        status = worker.wait()
    # While it starts, signals end it; after the last update it is complete.
    if status == STOPPED or (stopped and status in (0, -signal.SIGTERM, -signal.SIGINT)):
        print(f"{job.name}: stopped by a signal; rerun the command to resume", file=sys.stderr)
        raise KeyboardInterrupt
    if status != 0:
        saved = f"the last checkpoint is {last}" if last.exists() else "no checkpoint was saved"
        failure, path = last_line[:300] or f"status {status}", job.folder / LOGS / LOG
        if status == -signal.SIGKILL:
            failure = "its process was killed, perhaps for want of memory"
        log = f"; the log is {path}" if path.exists() else ""
        raise ValueError(f"training {job.name} failed: {failure}; {saved}{log}")


def start_worker(folder: Path) -> subprocess.Popen:
    """Start ``worker`` in a run folder, as the only rank."""
    package = str(Path(__file__).resolve().parents[2])
    environment = {
        **os.environ,
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
    }
    # The worker stops when this process ends, even if it is killed.
    prctl = ctypes.CDLL(None).prctl
    return subprocess.Popen(
        [sys.executable, "-m", "fairseq_linformer.training.worker", str(folder)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),
    )


def show_progress(bar: tqdm, line: str) -> None:
    """Count the updates in a line of fairseq's log; print validation scores."""
    if not (parsed := parse_line(line)):
        return
    split, stats = parsed
    bar.delay = 0  # something has happened: the bar stays when it closes
    values = {key.removeprefix(f"{split}_"): value for key, value in stats.items()}
    if split not in ("train_inner", "train"):
        shown = [key for key in values if key.endswith(_SCORES) and not key.startswith(("nll_", "best_"))]
        scores = ", ".join(f"{key} {values[key]:g}" for key in shown)
        bar.write(f"{bar.desc}: epoch {values.get('epoch', 0):.0f}, {split}: {scores}", file=sys.stderr)
    elif "num_updates" in values:
        update = int(values["num_updates"])
        if not bar.n:  # the updates of earlier attempts do not count for the rate
            bar.n = bar.initial = update
        bar.set_postfix_str(f"loss {values.get('loss', float('nan')):.4g}", refresh=False)
        bar.update(update - bar.n)
