"""Submission of jobs and arrays to Slurm, after checks that reject jobs that would fail."""

import os
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..files import write_lines
from ..resources import find_packaged_file
from .job import TrainingJob
from .run_folder import DONE, LOGS, check_run_folder

SCRIPT = find_packaged_file("scripts/slurm/train.sbatch")


@dataclass(frozen=True)
class Submission:
    """How to submit.

    Attributes:
        nodes: number of nodes.
        ntasks_per_node: processes per node, one per GPU.
        sbatch_options: further options of sbatch.
        dry_run: write and submit nothing.
    """

    nodes: int = 1
    ntasks_per_node: int = 1
    sbatch_options: Sequence[str] = ()
    dry_run: bool = False

    def __post_init__(self) -> None:
        for name in ("nodes", "ntasks_per_node"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")

    @property
    def processes(self) -> int:
        """Number of processes of a job."""
        return self.nodes * self.ntasks_per_node


def submit(job: TrainingJob, submission: Submission) -> str:
    """Submit one job.

    Returns:
        The command and sbatch's answer.

    Raises:
        ValueError: the job would fail, its training is complete, or sbatch rejects it.
    """
    check_run_folder(job)
    if (job.folder / DONE).exists():
        raise ValueError(f"nothing to submit: {job.folder} is trained")
    logs = job.folder / LOGS
    if not submission.dry_run:
        _check_sbatch()
        logs.mkdir(parents=True, exist_ok=True)
    options = [f"--job-name={job.folder.name}", f"--output={logs}/%j.txt"]
    return _run(submission, job.device, options, job.arguments())


def submit_array(name: str, jobs: Sequence[TrainingJob], submission: Submission) -> str:
    """Submit an array of the jobs whose training is incomplete; all have the same device and folder of runs.

    Args:
        name: name of the array.

    Raises:
        ValueError: as ``submit``, with the job that would fail; or all are trained.
    """
    incomplete = []
    for job in jobs:
        try:
            check_run_folder(job)
        except ValueError as error:
            raise ValueError(f"{job.folder.name}: {error}") from None
        if not (job.folder / DONE).exists():
            incomplete.append(job)
    if not incomplete:
        raise ValueError(f"nothing to submit: all members of {name} are trained")
    folder = Path(incomplete[0].runs).absolute() / "arrays"
    # A new file each time: queued members of an earlier array still need theirs.
    list_file = folder / f"{name}-{secrets.token_hex(4)}.txt"
    if not submission.dry_run:
        _check_sbatch()
        write_lines(list_file, (shlex.join(job.arguments()) for job in incomplete))
    array = f"--array=0-{len(incomplete) - 1}"
    options = [f"--job-name={name}", array, f"--output={folder}/{name}-%A_%a.txt"]
    return _run(submission, incomplete[0].device, options, [f"--list={list_file}"])


def _check_sbatch() -> None:
    if shutil.which("sbatch") is None:
        raise ValueError("sbatch is not installed; run submit on a Slurm login node, or use scripts/torchrun.sh")


def _run(submission: Submission, device: str, options: Sequence[str], arguments: Sequence[str]) -> str:
    """Run sbatch with ``options``, and the script with ``arguments``."""
    command = [
        "sbatch",
        f"--nodes={submission.nodes}",
        f"--ntasks-per-node={submission.ntasks_per_node}",
        f"--gpus-per-node={submission.ntasks_per_node if device == 'cuda' else 0}",
        *options,
        *submission.sbatch_options,
        str(SCRIPT),
        *arguments,
    ]
    python = os.environ.get("PYTHON", sys.executable)
    line = f"PYTHON={shlex.quote(python)} {shlex.join(command)}"
    if submission.dry_run:
        return f"{line}\ndry run: nothing was submitted"
    done = subprocess.run(command, env={**os.environ, "PYTHON": python}, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"sbatch rejected the job: {' '.join(done.stderr.split())}")
    return f"{line}\n{done.stdout.strip()}"
