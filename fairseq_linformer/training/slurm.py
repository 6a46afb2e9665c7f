"""Submission of training jobs to Slurm, after checks that reject jobs that would fail."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

from ..resources import SCRIPTS
from .job import TrainingJob
from .run_folder import DONE, LOGS, check_run_folder, write_config

SCRIPT = SCRIPTS / "slurm" / "train.sbatch"


def layout(nodes: int, processes: int, device: str) -> list[str]:
    """Options of sbatch for ``processes`` on each node, each with a GPU of its own if ``device`` is ``cuda``."""
    gpus = processes if device == "cuda" else 0
    return [f"--nodes={nodes}", f"--ntasks-per-node={processes}", f"--gpus-per-node={gpus}"]


def submit(jobs: Sequence[TrainingJob], sbatch_options: Sequence[str], dry_run: bool = False) -> str:
    """Submit those jobs whose training is incomplete. All are checked before the first is submitted.

    Args:
        sbatch_options: their ``layout``, and further options.
        dry_run: write and submit nothing.

    Returns:
        The commands and sbatch's answers.
    """
    for job in jobs:
        check_run_folder(job)
    incomplete = [job for job in jobs if not (job.folder / DONE).exists()]
    if not incomplete:
        raise ValueError(f"nothing to submit: {', '.join(str(job.folder) for job in jobs)} is trained")
    if not dry_run and shutil.which("sbatch") is None:
        raise ValueError("sbatch is not installed; run submit on a Slurm login node, or use scripts/torchrun.sh")
    python = os.environ.get("PYTHON", sys.executable)
    lines = []
    for job in incomplete:
        own = [f"--job-name={job.folder.name}", f"--output={job.folder / LOGS}/%j.txt"]
        command = ["sbatch", *own, *sbatch_options, str(SCRIPT), str(job.folder)]
        lines.append(f"PYTHON={shlex.quote(python)} {shlex.join(command)}")
        if not dry_run:
            write_config(job)
            done = subprocess.run(command, env={**os.environ, "PYTHON": python}, capture_output=True, text=True)
            if done.returncode:
                for line in lines[:-1]:  # those that were submitted
                    print(line, file=sys.stderr)
                raise ValueError(f"sbatch rejected {job.folder.name}: {' '.join(done.stderr.split())}")
            lines.append(done.stdout.strip())
    return "\n".join([*lines, "dry run: nothing was submitted"] if dry_run else lines)
