"""The arguments that the commands around a job share. Each has a variable of the environment beside it."""

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import Optional, Sequence

BASE = "configs/pretrain/base.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What a job is: configuration, device, and where it goes."""
    default = os.environ.get
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="overrides of the configuration, such as +run=n512-k256-layerwise")
    parser.add_argument("--config", default=default("CONFIG", BASE), help="a YAML for fairseq-hydra-train; or CONFIG=... (%(default)s)")
    parser.add_argument("--device", default=default("DEVICE", "gpu"), help="gpu or cpu; or DEVICE=... (%(default)s)")
    parser.add_argument("--runs", default=default("RUNS") or "runs", metavar="FOLDER", help="holds the run folders; or RUNS=... (%(default)s)")
    parser.add_argument("--name", default=default("NAME", ""), help="of the run folder; or NAME=... (made of the configuration)")


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """What a job knows besides."""
    add_arguments(parser)
    parser.add_argument("--processes", type=int, required=True, help="of the job")
    parser.add_argument("--list", metavar="FILE", help="arguments of the members of an array, a line each")


def training_of(options: argparse.Namespace, processes: int):
    """The ``Training`` that is asked for.

    Raises:
        ValueError: an argument is not what it must be.
    """
    from .training import DEVICES, Training  # imports fairseq

    if options.device not in DEVICES:
        raise ValueError(f"--device is {options.device}; it must be one of {', '.join(DEVICES)}")
    if processes < 1:
        raise ValueError(f"{processes} processes; there must be one at least")
    wrong = [word for word in options.overrides if "=" not in word and not word.startswith("~")]
    if wrong:
        raise ValueError(f"{wrong[0]} is no override; KEY=VALUE is wanted, such as +run=n512-k256-layerwise")
    if options.name:
        check_name(options.name, options.runs)
    return Training(options.config, tuple(options.overrides), processes, options.device, options.runs, options.name)


def check_name(name: str, runs) -> None:
    """
    Raises:
        ValueError: a run of this name would not be below ``runs``.
    """
    if Path(name).is_absolute() or not Path(name).parts or ".." in Path(name).parts:
        raise ValueError(f"--name is {name}; it must be a folder below {runs}")


def parse_in_job(parser: argparse.ArgumentParser, words: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """The arguments, of the command line if none are given; in a member of an array, with the member's line of ``--list`` before them.

    Raises:
        ValueError: there is no such line.
        OSError: the list cannot be read.
    """
    words = sys.argv[1:] if words is None else words
    options = parser.parse_intermixed_args(words)
    if options.list is None:
        return options
    lines = [shlex.split(line) for line in Path(options.list).read_text(encoding="utf-8").splitlines()]
    member = os.environ.get("SLURM_ARRAY_TASK_ID", "")
    if not member.isdigit() or int(member) >= len(lines):
        raise ValueError(f"SLURM_ARRAY_TASK_ID is {member or 'not set'}, and {options.list} has {len(lines)} lines; a number from 0 to {len(lines) - 1} is wanted")
    return parser.parse_intermixed_args([*lines[int(member)], *words])


def members_arguments(member: Sequence[str], options: argparse.Namespace) -> argparse.Namespace:
    """The arguments of a member of an array, as ``parse_in_job`` will find them."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_intermixed_args([*member, f"--device={options.device}", f"--runs={options.runs}", *options.overrides])
