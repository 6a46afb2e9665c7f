"""Command-line arguments of a training job, of ``submit`` and of its worker processes."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .job import TrainingJob

BASE = "configs/pretrain/base.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that define a job's configuration, device and run folder."""
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="hydra overrides, such as +run=n512-k256-layerwise"
    )
    parser.add_argument(
        "--config",
        default=BASE,
        metavar="YAML",
        help="YAML configuration of fairseq-hydra-train (default: %(default)s)",
    )
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="device to train on (default: %(default)s)"
    )
    parser.add_argument(
        "--runs", default="runs", metavar="FOLDER", help="folder that contains the run folders (default: %(default)s)"
    )
    parser.add_argument(
        "--name", default="", help="name of the run folder (default: derived from the configuration and its overrides)"
    )


def parse_job_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the arguments of a process of a job. In an array, those in the member's line of ``--list`` precede them."""
    parser = argparse.ArgumentParser(prog="worker")
    add_arguments(parser)
    parser.add_argument("--list", metavar="FILE", help="file with one line of arguments per member of an array")
    words = sys.argv[1:] if words is None else words
    options = parser.parse_intermixed_args(words)
    if options.list is None:
        return options
    lines = Path(options.list).read_text(encoding="utf-8").splitlines()
    member = lines[int(os.environ["SLURM_ARRAY_TASK_ID"])]
    return parser.parse_intermixed_args([*shlex.split(member), *words])


def build_training_job(options: argparse.Namespace, processes: int) -> "TrainingJob":
    """Build the ``TrainingJob`` of these options."""
    from .job import TrainingJob  # imports fairseq, which takes seconds

    return TrainingJob(options.config, tuple(options.overrides), processes, options.device, options.runs, options.name)
