"""Command-line arguments of a training job; environment variables set their defaults."""

import argparse
import math
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .job import TrainingJob

BASE = "configs/pretrain/base.yaml"
COLLECTIVE_TIMEOUT = 30.0
"""Minutes; PyTorch's 10 are too few for rank 0 to write a large checkpoint to a busy file system."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that define a job's configuration, device and run folder."""
    default = os.environ.get
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="hydra overrides, such as +run=n512-k256-layerwise"
    )
    parser.add_argument(
        "--config",
        default=default("CONFIG", BASE),
        metavar="YAML",
        help="YAML configuration of fairseq-hydra-train (default: %(default)s)",
    )
    parser.add_argument(
        "--device", default=default("DEVICE", "cuda"), help="device to train on: cuda or cpu (default: %(default)s)"
    )
    parser.add_argument(
        "--runs",
        default=default("RUNS") or "runs",
        metavar="FOLDER",
        help="folder that contains the run folders (default: %(default)s)",
    )
    parser.add_argument(
        "--name",
        default=default("NAME", ""),
        help="name of the run folder (default: derived from the configuration and its overrides)",
    )
    parser.add_argument(
        "--collective-timeout",
        type=float,
        default=default("COLLECTIVE_TIMEOUT") or str(COLLECTIVE_TIMEOUT),
        metavar="MINUTES",
        help="time in which all processes must join a collective operation, such as waiting for rank 0 to write a "
        "checkpoint, before they abort (default: %(default)s)",
    )


def parse_job_arguments(parser: argparse.ArgumentParser, words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the arguments of a process of a job. In an array, those in the member's line of ``--list`` precede them.

    Raises:
        ValueError: the ``--list`` file has no line for this member.
        OSError: the ``--list`` file cannot be read.
    """
    add_arguments(parser)
    parser.add_argument("--processes", type=int, required=True, help="number of processes of the job")
    parser.add_argument("--list", metavar="FILE", help="file with one line of arguments per member of an array")
    words = sys.argv[1:] if words is None else words
    options = parser.parse_intermixed_args(words)
    if options.list is None:
        return options
    lines = Path(options.list).read_text(encoding="utf-8").splitlines()
    member = os.environ.get("SLURM_ARRAY_TASK_ID", "")
    if not member.isdigit() or int(member) >= len(lines):
        raise ValueError(
            f"SLURM_ARRAY_TASK_ID must be between 0 and {len(lines) - 1}, a line of {options.list}, got "
            f"{member or 'none'}"
        )
    return parser.parse_intermixed_args([*shlex.split(lines[int(member)]), *words])


def parse_member(member: Sequence[str], options: argparse.Namespace) -> argparse.Namespace:
    """Parse the arguments of an array's member as its job will."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    shared = [f"--device={options.device}", f"--runs={options.runs}", *options.overrides]
    return parser.parse_intermixed_args([*member, *shared])


def build_training_job(options: argparse.Namespace, processes: int) -> "TrainingJob":
    """Build the ``TrainingJob`` of these options; ValueError if an option is invalid."""
    from .job import DEVICES, TrainingJob  # imports fairseq, which takes seconds

    if options.device not in DEVICES:
        raise ValueError(f"unknown --device {options.device!r}; choose from {', '.join(DEVICES)}")
    if not options.runs:
        raise ValueError("--runs must name a folder, got ''")
    if not 0 < options.collective_timeout < math.inf:
        raise ValueError(
            f"--collective-timeout must be a finite number of minutes above 0, got {options.collective_timeout:g}"
        )
    if processes < 1:
        raise ValueError(f"the number of processes must be at least 1, got {processes}")
    for word in options.overrides:
        if "=" not in word and not word.startswith("~"):
            raise ValueError(f"overrides must be KEY=VALUE, such as +run=n512-k256-layerwise, got {word}")
    if options.name:
        check_run_name(options.name, options.runs)
    return TrainingJob(options.config, tuple(options.overrides), processes, options.device, options.runs, options.name)


def check_run_name(name: str, runs: str | Path) -> None:
    """Raise ValueError unless ``name`` is a path inside ``runs``."""
    path = Path(name)
    if path.is_absolute() or not path.parts or ".." in path.parts:
        raise ValueError(f"--name must be a path inside {runs}, got {name}")
