"""Submission of jobs and arrays to Slurm, after checks that reject jobs that would fail."""

import argparse
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ..files import write_lines
from ..resources import find_packaged_file
from .arguments import BASE, COLLECTIVE_TIMEOUT, build_training_job, parse_member
from .run_folder import DONE, LOGS, check_run

SCRIPT = find_packaged_file("scripts/slurm/train.sbatch")
_RESERVED = (
    "--wrap",
    "--list",
    "--output",
    "--array",
    "--job-name",
    "--nodes",
    "--ntasks",
    "--ntasks-per-node",
    "--chdir",
)


def submit(options: argparse.Namespace, sbatch_options: Sequence[str]) -> str:
    """Submit one job.

    Args:
        options: options of ``fairseq-linformer submit``.
        sbatch_options: further options of sbatch.

    Returns:
        The checks, the command and sbatch's answer.

    Raises:
        ValueError: the job would fail, its training is complete, or sbatch rejects it.
    """
    _check_options(options, sbatch_options)
    training = build_training_job(options, options.nodes * options.ntasks_per_node)
    checks = [f"{training.folder}: {line}" for line in check_run(training)]
    if (training.folder / DONE).exists():
        raise ValueError(f"nothing to submit: {training.folder} is trained")
    logs = training.folder / LOGS
    job_options = [*sbatch_options, f"--job-name={training.folder.name}", f"--output={logs}/%j.txt"]
    arguments = [f"--name={training.name}", f"--config={options.config}"]
    return _sbatch(options, job_options, arguments, checks, lambda: logs.mkdir(parents=True, exist_ok=True))


def submit_array(options: argparse.Namespace, members: list[list[str]], sbatch_options: Sequence[str]) -> str:
    """Submit an array with one job per member whose training is incomplete.

    Args:
        members: arguments of each member, which precede those of ``options``.

    Raises:
        ValueError: as ``submit``, with the member that would fail; ``options`` has a name or configuration, which
            members set themselves; or all members are trained.
    """
    if options.name:
        raise ValueError(
            "--name, or the variable NAME, cannot be used with an array, whose members have their own names, got "
            f"{options.name}"
        )
    if options.config != BASE:
        raise ValueError(
            "--config, or the variable CONFIG, cannot be used with an array, whose members have their own "
            f"configurations, got {options.config}"
        )
    _check_options(options, sbatch_options)
    checks: list[str] = []
    incomplete: list[list[str]] = []
    for member in members:
        if broken := [word for word in member if word.splitlines() != [word]]:  # the list has one line per member
            raise ValueError(f"arguments of an array must not be empty or have line breaks, got {broken[0]!r}")
        try:
            training = build_training_job(parse_member(member, options), options.nodes * options.ntasks_per_node)
            checks += [f"{training.folder}: {line}" for line in check_run(training)]
        except ValueError as error:
            raise ValueError(f"{' '.join(member)}: {error}") from None
        if not (training.folder / DONE).exists():
            incomplete.append(member)
    if not incomplete:
        raise ValueError(f"nothing to submit: all members of {options.array} are trained")
    folder = Path(options.runs).absolute() / "arrays"
    # A new file each time: queued members of an earlier array still need theirs.
    list_file = folder / f"{options.array}-{secrets.token_hex(4)}.txt"
    job_options = [
        *sbatch_options,
        f"--job-name={options.array}",
        f"--array=0-{len(incomplete) - 1}",
        f"--output={folder}/{options.array}-%A_%a.txt",
    ]
    return _sbatch(
        options,
        job_options,
        [f"--list={list_file}"],
        checks,
        lambda: write_lines(list_file, map(shlex.join, incomplete)),
    )


def _check_options(options: argparse.Namespace, sbatch_options: Sequence[str]) -> None:
    for name in ("nodes", "ntasks_per_node"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(options, name)}")
    for word in sbatch_options:
        if not word.startswith("--"):
            raise ValueError(f"options of sbatch must be --OPTION=VALUE, got {word}")
        name = word.partition("=")[0]
        if any(reserved.startswith(name) for reserved in _RESERVED):  # sbatch also accepts abbreviations
            raise ValueError(f"{word} cannot be passed to sbatch; submit sets {', '.join(_RESERVED)} itself")


def _sbatch(
    options: argparse.Namespace,
    job_options: Sequence[str],
    arguments: Sequence[str],
    checks: Sequence[str],
    write_files: Callable[[], None],
) -> str:
    """Write the files of the job and submit it, unless this is a dry run.

    Args:
        job_options: options of sbatch.
        arguments: arguments of the script.
        checks: lines to print before the command.
    """
    gpus = options.ntasks_per_node if options.device == "cuda" else 0
    minutes = options.collective_timeout
    timeout = [f"--collective-timeout={minutes:g}"] if minutes != COLLECTIVE_TIMEOUT else []
    command = [
        "sbatch",
        f"--nodes={options.nodes}",
        f"--ntasks-per-node={options.ntasks_per_node}",
        f"--gpus-per-node={gpus}",
        *job_options,
        str(SCRIPT),
        *arguments,
        f"--device={options.device}",
        f"--runs={options.runs}",
        *timeout,
        *options.overrides,
    ]
    python = os.environ.get("PYTHON", sys.executable)
    report = [*checks, f"PYTHON={shlex.quote(python)} {shlex.join(command)}"]
    if options.dry_run:
        return "\n".join([*report, "dry run: nothing was submitted"])
    if shutil.which("sbatch") is None:
        raise ValueError("sbatch is not installed; run submit on a Slurm login node, or use scripts/torchrun.sh")
    write_files()
    # Environment variables must not change the options that were checked here.
    environment = {**os.environ, "PYTHON": python, "NAME": "", "CONFIG": BASE, "COLLECTIVE_TIMEOUT": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"sbatch rejected the job: {' '.join(done.stderr.split())}")
    return "\n".join([*report, done.stdout.strip()])
