"""Submission of jobs and arrays to Slurm: whatever would fail is refused before anything is queued."""

import argparse
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, List, Sequence

from ..files import write_lines
from .arguments import BASE, make_training, member_options
from .run_folder import DONE, LOGS, check_run

SCRIPT = Path("scripts/slurm/train.sbatch")
_SET_HERE = ("--wrap", "--list", "--output", "--array", "--job-name", "--ntasks", "--chdir")


def submit(options: argparse.Namespace, sbatch_options: Sequence[str]) -> str:
    """Submit one job.

    Args:
        options: of ``fairseq-linformer submit``.
        sbatch_options: further options of sbatch.

    Returns:
        what was or would be submitted, in lines.

    Raises:
        ValueError: the job would fail, or sbatch refuses it; one sentence.
    """
    _check_options(options, sbatch_options)
    training = make_training(options, options.nodes * options.ntasks_per_node)
    found = [f"{training.folder}: {line}" for line in check_run(training)]
    logs = training.folder / LOGS
    job = [*sbatch_options, f"--job-name={training.folder.name}", f"--output={logs}/%j.txt"]
    arguments = [f"--name={training.name}", f"--config={options.config}"]
    return _sbatch(options, job, arguments, found, lambda: logs.mkdir(parents=True, exist_ok=True))


def submit_array(options: argparse.Namespace, members: List[List[str]], sbatch_options: Sequence[str]) -> str:
    """Submit an array: one job for each member whose training is not complete.

    Args:
        members: arguments of each, which precede those of ``options``.

    Raises:
        ValueError: as ``submit``, with the member that would fail; or ``options`` sets the name or the configuration,
            which are the members' own; or all members are complete.
    """
    if options.name:
        raise ValueError(f"--name is {options.name}; each member of an array has its own")
    if options.config != BASE:
        raise ValueError(f"--config is {options.config}; the members of an array have their own")
    _check_options(options, sbatch_options)
    found: List[str] = []
    incomplete: List[List[str]] = []
    for member in members:
        try:
            training = make_training(member_options(member, options), options.nodes * options.ntasks_per_node)
            found += [f"{training.folder}: {line}" for line in check_run(training)]
        except ValueError as error:
            raise ValueError(f"{' '.join(member)}: {error}") from None
        if not (training.folder / DONE).exists():
            incomplete.append(member)
    if not incomplete:
        raise ValueError(f"the training of all members of {options.array} is complete; there is nothing to submit")
    folder = Path(options.runs).absolute() / "arrays"
    # A new file each time: queued members of an earlier array read theirs when they start.
    listed = folder / f"{options.array}-{secrets.token_hex(4)}.txt"
    job = [*sbatch_options, f"--job-name={options.array}", f"--array=0-{len(incomplete) - 1}",
           f"--output={folder}/{options.array}-%A_%a.txt"]  # fmt: skip
    return _sbatch(options, job, [f"--list={listed}"], found, lambda: write_lines(listed, map(shlex.join, incomplete)))


def _check_options(options: argparse.Namespace, sbatch_options: Sequence[str]) -> None:
    if not SCRIPT.is_file():
        raise ValueError(f"there is no {SCRIPT} in {Path.cwd()}; run submit from the root of the repository")
    for name in ("nodes", "ntasks_per_node"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} is {getattr(options, name)}; it must be at least 1")
    for word in sbatch_options:
        if not word.startswith("--"):
            raise ValueError(f"{word} is not accepted; write options of sbatch as --OPTION=VALUE")
        if word.partition("=")[0] in _SET_HERE:
            raise ValueError(f"{word} is not accepted; submit sets {', '.join(_SET_HERE)}")


def _sbatch(options: argparse.Namespace, job: Sequence[str], arguments: Sequence[str], found: Sequence[str],
            write_files: Callable[[], None]) -> str:  # fmt: skip
    """Write what the job needs and submit it, unless it is a dry run.

    Args:
        job: options of sbatch.
        arguments: of the script.
        found: lines to report before the command.
    """
    gpus = options.ntasks_per_node if options.device == "gpu" else 0
    command = [
        "sbatch", f"--nodes={options.nodes}", f"--ntasks-per-node={options.ntasks_per_node}", f"--gpus-per-node={gpus}",
        *job, str(SCRIPT), *arguments, f"--device={options.device}", f"--runs={options.runs}", *options.overrides,
    ]  # fmt: skip
    python = os.environ.get("PYTHON", sys.executable)
    report = [*found, f"PYTHON={shlex.quote(python)} {shlex.join(command)}"]
    if options.dry_run:
        return "\n".join([*report, "a dry run: nothing was submitted"])
    if shutil.which("sbatch") is None:
        raise ValueError("there is no sbatch here; run submit where Slurm is, or train without it: scripts/torchrun.sh")
    write_files()
    # The job must get the options that were checked here, not variables that happen to be set.
    environment = {**os.environ, "PYTHON": python, "NAME": "", "CONFIG": BASE}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"sbatch refuses the job: {' '.join(done.stderr.split())}")
    return "\n".join([*report, done.stdout.strip()])
