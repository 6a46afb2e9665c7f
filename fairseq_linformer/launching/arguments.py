"""The command line of a job: what it trains, and where. Each option has an environment variable."""

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import Optional, Sequence

BASE = "configs/pretrain/base.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add configuration, device and run folder."""
    default = os.environ.get
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="such as +run=n512-k256-layerwise")
    parser.add_argument("--config", default=default("CONFIG", BASE), help="a YAML; or CONFIG=... (%(default)s)")
    parser.add_argument("--device", default=default("DEVICE", "gpu"), help="gpu or cpu; or DEVICE=... (%(default)s)")
    parser.add_argument("--runs", default=default("RUNS") or "runs", metavar="FOLDER",
                        help="holds the run folders; or RUNS=... (%(default)s)")  # fmt: skip
    parser.add_argument("--name", default=default("NAME", ""), help="of the run folder; or NAME=... (from --config)")


def parse_job_arguments(parser: argparse.ArgumentParser, words: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Parse the arguments of a process of a job. In a member of an array, its line of ``--list`` precedes them.

    Raises:
        ValueError: ``--list`` has no line for this member.
        OSError: ``--list`` cannot be read.
    """
    add_arguments(parser)
    parser.add_argument("--processes", type=int, required=True, help="of the job")
    parser.add_argument("--list", metavar="FILE", help="arguments of the members of an array, one line each")
    words = sys.argv[1:] if words is None else words
    options = parser.parse_intermixed_args(words)
    if options.list is None:
        return options
    lines = Path(options.list).read_text(encoding="utf-8").splitlines()
    member = os.environ.get("SLURM_ARRAY_TASK_ID", "")
    if not member.isdigit() or int(member) >= len(lines):
        allowed = f"it must be a line of {options.list}, from 0 to {len(lines) - 1}"
        raise ValueError(f"SLURM_ARRAY_TASK_ID is {member or 'not set'}; {allowed}")
    return parser.parse_intermixed_args([*shlex.split(lines[int(member)]), *words])


def member_options(member: Sequence[str], options: argparse.Namespace) -> argparse.Namespace:
    """The options of a member of an array, as ``parse_job_arguments`` will return them in its job."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    shared = [f"--device={options.device}", f"--runs={options.runs}", *options.overrides]
    return parser.parse_intermixed_args([*member, *shared])


def make_training(options: argparse.Namespace, processes: int):
    """The ``Training`` that these options describe; ValueError if one has a value that is not allowed."""
    from .training import DEVICES, Training  # imports fairseq

    if options.device not in DEVICES:
        raise ValueError(f"--device is {options.device}; it must be one of {', '.join(DEVICES)}")
    if processes < 1:
        raise ValueError(f"the number of processes is {processes}; it must be at least 1")
    for word in options.overrides:
        if "=" not in word and not word.startswith("~"):
            raise ValueError(f"{word} is not an override; write KEY=VALUE, such as +run=n512-k256-layerwise")
    if options.name:
        check_run_name(options.name, options.runs)
    return Training(options.config, tuple(options.overrides), processes, options.device, options.runs, options.name)


def check_run_name(name: str, runs) -> None:
    """ValueError if a run folder of this name would not be below ``runs``."""
    path = Path(name)
    if path.is_absolute() or not path.parts or ".." in path.parts:
        raise ValueError(f"--name is {name}; it must be a folder below {runs}")
