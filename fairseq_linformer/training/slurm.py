"""Submission of jobs and arrays to Slurm, after checks that reject jobs that would fail."""

import argparse
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..files import write_lines
from ..resources import find_packaged_file
from .arguments import BASE, add_arguments, build_training_job
from .job import TrainingJob
from .run_folder import DONE, LOGS, is_new

SCRIPT = find_packaged_file("scripts/slurm/train.sbatch")


def submit(options: argparse.Namespace, sbatch_options: Sequence[str]) -> str:
    """Submit one job.

    Args:
        options: options of ``fairseq-linformer submit``.
        sbatch_options: further options of sbatch.

    Returns:
        The command and sbatch's answer.

    Raises:
        ValueError: the job would fail, its training is complete, or sbatch rejects it.
    """
    job = _check_job(options)
    if (job.folder / DONE).exists():
        raise ValueError(f"nothing to submit: {job.folder} is trained")
    logs = job.folder / LOGS
    job_options = [f"--job-name={job.folder.name}", f"--output={logs}/%j.txt", *sbatch_options]
    command = _sbatch_command(options, job_options, [f"--name={job.name}", f"--config={options.config}"])
    if not options.dry_run:
        logs.mkdir(parents=True, exist_ok=True)
    return _run(command, options.dry_run)


def submit_array(options: argparse.Namespace, members: list[list[str]], sbatch_options: Sequence[str]) -> str:
    """Submit an array with one job per member whose training is incomplete.

    Args:
        members: arguments of each member, which precede those of ``options``.

    Raises:
        ValueError: as ``submit``, with the member that would fail; ``options`` has a name or configuration, which
            members set themselves; or all members are trained.
    """
    for name, default in (("name", ""), ("config", BASE)):
        if (value := getattr(options, name)) != default:
            raise ValueError(f"--{name} cannot be used with an array, whose members have their own, got {value}")
    incomplete = []
    for member in members:
        try:
            job = _check_job(parse_member(member, options))
        except ValueError as error:
            raise ValueError(f"{' '.join(member)}: {error}") from None
        if not (job.folder / DONE).exists():
            incomplete.append(member)
    if not incomplete:
        raise ValueError(f"nothing to submit: all members of {options.array} are trained")
    folder = Path(options.runs).absolute() / "arrays"
    # A new file each time: queued members of an earlier array still need theirs.
    list_file = folder / f"{options.array}-{secrets.token_hex(4)}.txt"
    job_options = [
        f"--job-name={options.array}",
        f"--array=0-{len(incomplete) - 1}",
        f"--output={folder}/{options.array}-%A_%a.txt",
        *sbatch_options,
    ]
    command = _sbatch_command(options, job_options, [f"--list={list_file}"])
    if not options.dry_run:
        write_lines(list_file, map(shlex.join, incomplete))
    return _run(command, options.dry_run)


def parse_member(member: Sequence[str], options: argparse.Namespace) -> argparse.Namespace:
    """Parse the arguments of an array's member as its job will."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parsed = parser.parse_intermixed_args([*member, f"--device={options.device}", f"--runs={options.runs}"])
    parsed.overrides += options.overrides
    parsed.nodes, parsed.ntasks_per_node = options.nodes, options.ntasks_per_node
    return parsed


def _check_job(options: argparse.Namespace) -> TrainingJob:
    """The job of these options; ValueError if it would fail."""
    for name in ("nodes", "ntasks_per_node"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(options, name)}")
    job = build_training_job(options, options.nodes * options.ntasks_per_node)
    if is_new(job):
        _ = job.cfg  # checks it
    return job


def _sbatch_command(options: argparse.Namespace, job_options: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """The command that submits the script with ``arguments``; ValueError if it is not installed."""
    if not options.dry_run and shutil.which("sbatch") is None:
        raise ValueError("sbatch is not installed; run submit on a Slurm login node, or use scripts/torchrun.sh")
    return [
        "sbatch",
        f"--nodes={options.nodes}",
        f"--ntasks-per-node={options.ntasks_per_node}",
        f"--gpus-per-node={options.ntasks_per_node if options.device == 'cuda' else 0}",
        *job_options,
        str(SCRIPT),
        *arguments,
        f"--device={options.device}",
        f"--runs={options.runs}",
        *options.overrides,
    ]


def _run(command: list[str], dry_run: bool) -> str:
    python = os.environ.get("PYTHON", sys.executable)
    line = f"PYTHON={shlex.quote(python)} {shlex.join(command)}"
    if dry_run:
        return f"{line}\ndry run: nothing was submitted"
    done = subprocess.run(command, env={**os.environ, "PYTHON": python}, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"sbatch rejected the job: {' '.join(done.stderr.split())}")
    return f"{line}\n{done.stdout.strip()}"
