"""Jobs are checked here and handed to ``sbatch``: what is wrong is said before anything is queued."""

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
from .arguments import BASE, members_arguments, training_of
from .folder import DONE, LOGS, check

SCRIPT = Path("scripts/slurm/train.sbatch")


def submit(options: argparse.Namespace, to_sbatch: Sequence[str]) -> str:
    """One job.

    Args:
        options: of ``fairseq-linformer submit``.
        to_sbatch: more options of sbatch.

    Returns:
        what was or would be submitted, in lines.

    Raises:
        ValueError: it would fail, or sbatch refuses it; one sentence.
    """
    processes = _processes(options)
    training = training_of(options, processes)
    found = check(training)
    logs = training.folder / LOGS
    command = [*_sbatch(options, to_sbatch), f"--job-name={training.folder.name}", f"--output={logs}/%j.txt", str(SCRIPT), f"--name={training.name}",
               f"--config={options.config}", f"--device={options.device}", f"--runs={options.runs}", *options.overrides]  # fmt: skip
    found = [f"{training.folder}: {line}" for line in found]
    return _hand_over(command, options.dry_run, found, lambda: logs.mkdir(parents=True, exist_ok=True))


def submit_array(options: argparse.Namespace, members: List[List[str]], to_sbatch: Sequence[str]) -> str:
    """A job for each member that is not trained to its end, from the same command.

    Args:
        members: arguments of each, before those of ``options``.

    Raises:
        ValueError: as ``submit``, with the member that would fail; or ``options`` has a name; or all are trained.
    """
    if options.name:
        raise ValueError(f"--name is {options.name}; each member of an array has its own")
    if options.config != BASE:
        raise ValueError(f"--config is {options.config}; the members of an array have their own")
    processes = _processes(options)
    found: List[str] = []
    missing: List[List[str]] = []
    for member in members:
        try:
            training = training_of(members_arguments(member, options), processes)
            found += [f"{training.folder}: {line}" for line in check(training)]
        except ValueError as error:
            raise ValueError(f"{' '.join(member)}: {error}") from None
        if not (training.folder / DONE).exists():
            missing.append(member)
    if not missing:
        raise ValueError(f"all members of {options.array} are trained to their end; there is nothing to submit")
    folder = Path(options.runs).absolute() / "arrays"
    listed = folder / f"{options.array}-{secrets.token_hex(4)}.txt"  # members that wait read it when they begin
    command = [*_sbatch(options, to_sbatch), f"--job-name={options.array}", f"--array=0-{len(missing) - 1}", f"--output={folder}/{options.array}-%A_%a.txt",
               str(SCRIPT), f"--list={listed}", f"--device={options.device}", f"--runs={options.runs}", *options.overrides]  # fmt: skip
    return _hand_over(command, options.dry_run, found, lambda: write_lines(listed, map(shlex.join, missing)))


def _processes(options: argparse.Namespace) -> int:
    if not SCRIPT.is_file():
        raise ValueError(f"there is no {SCRIPT} in {Path.cwd()}; submit is run from the root of the repository")
    for name in ("nodes", "ntasks_per_node"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} is {getattr(options, name)}; it must be at least 1")
    return options.nodes * options.ntasks_per_node


def _sbatch(options: argparse.Namespace, more: Sequence[str]) -> List[str]:
    wrong = [word for word in more if not word.startswith("--") or word.partition("=")[0] in ("--wrap", "--list", "--output", "--array", "--job-name", "--ntasks", "--chdir")]
    if wrong:
        raise ValueError(f"{wrong[0]} is not taken; options of sbatch are given as --OPTION=VALUE, and some are set here")
    gpus = options.ntasks_per_node if options.device == "gpu" else 0
    return ["sbatch", f"--nodes={options.nodes}", f"--ntasks-per-node={options.ntasks_per_node}", f"--gpus-per-node={gpus}", *more]


def _hand_over(command: List[str], dry_run: bool, found: List[str], write: Callable[[], None]) -> str:
    """Write what the job needs and submit it, unless it is a dry run."""
    python = os.environ.get("PYTHON", sys.executable)
    said = [*found, f"PYTHON={shlex.quote(python)} {shlex.join(command)}"]
    if dry_run:
        return "\n".join([*said, "a dry run: nothing was submitted"])
    if shutil.which("sbatch") is None:
        raise ValueError("there is no sbatch here; this is run where jobs are submitted to Slurm, and scripts/torchrun.sh trains without Slurm")
    write()
    # What was checked counts, and not what the job would find in the environment.
    environment = {**os.environ, "PYTHON": python, "NAME": "", "CONFIG": BASE}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"sbatch refuses it: {' '.join(done.stderr.split())}")
    return "\n".join([*said, done.stdout.strip()])
