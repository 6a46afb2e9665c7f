"""Submission of jobs and arrays to Slurm, after checks that reject jobs that would fail."""

import os
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..files import write_lines
from ..resources import SCRIPTS
from .job import TrainingJob
from .run_folder import DONE, LOGS, check_run_folder

SCRIPT = SCRIPTS / "slurm" / "train.sbatch"


def layout(nodes: int, processes: int, device: str) -> list[str]:
    """Options of sbatch for ``processes`` on each node, each with a GPU of its own if ``device`` is ``cuda``."""
    gpus = processes if device == "cuda" else 0
    return [f"--nodes={nodes}", f"--ntasks-per-node={processes}", f"--gpus-per-node={gpus}"]


def submit(jobs: Sequence[TrainingJob], sbatch_options: Sequence[str], array: str = "", dry_run: bool = False) -> str:
    """Submit a job, or an array of those jobs whose training is incomplete.

    Args:
        jobs: all in the same folder of runs.
        sbatch_options: their ``layout``, and further options.
        array: name of the array; empty for a single job.
        dry_run: write and submit nothing.

    Returns:
        The command and sbatch's answer.
    """
    for job in jobs:
        check_run_folder(job)
    incomplete = [job for job in jobs if not (job.folder / DONE).exists()]
    if not incomplete:
        raise ValueError(f"nothing to submit: {array or jobs[0].folder} is trained")
    first, members = incomplete[0], [shlex.join(job.arguments()) for job in incomplete]
    if array:
        logs = Path(first.runs).absolute() / "arrays"
        # A new file each time: queued members of an earlier array still need theirs.
        member_list = logs / f"{array}-{secrets.token_hex(4)}.txt"
        own = [f"--job-name={array}", f"--array=0-{len(members) - 1}", f"--output={logs}/{array}-%A_%a.txt"]
        arguments = [f"--list={member_list}"]
    else:
        logs = first.folder / LOGS
        own, arguments = [f"--job-name={first.folder.name}", f"--output={logs}/%j.txt"], first.arguments()
    command = ["sbatch", *own, *sbatch_options, str(SCRIPT), *arguments]
    python = os.environ.get("PYTHON", sys.executable)
    line = f"PYTHON={shlex.quote(python)} {shlex.join(command)}"
    if dry_run:
        return f"{line}\ndry run: nothing was submitted"
    if shutil.which("sbatch") is None:
        raise ValueError("sbatch is not installed; run submit on a Slurm login node, or use scripts/torchrun.sh")
    logs.mkdir(parents=True, exist_ok=True)
    if array:
        write_lines(member_list, members)
    done = subprocess.run(command, env={**os.environ, "PYTHON": python}, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"sbatch rejected the job: {' '.join(done.stderr.split())}")
    return f"{line}\n{done.stdout.strip()}"
