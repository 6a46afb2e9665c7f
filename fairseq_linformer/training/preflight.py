"""Checks of a job before its processes start.

    python -m fairseq_linformer.training.preflight folder --processes 64 +run=n512-k256-layerwise task.data=BIN
    srun --ntasks-per-node=1 python -m fairseq_linformer.training.preflight node RUN --processes 8

``folder`` creates the run folder or prepares it for resuming, and prints its path. ``node`` checks that this node can
train in RUN; if not, it prints one sentence per problem and exits with status 1.
"""

import argparse
import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import first_line
from .arguments import build_training_job, parse_job_arguments


def prepare_folder(words: Sequence[str]) -> None:
    """Create the run folder or prepare it for resuming; print its path to stdout, and log lines to stderr."""
    from .run_folder import create_or_resume  # imports fairseq

    parser = argparse.ArgumentParser(prog="preflight folder")
    parser.add_argument(
        "--folder-only", action="store_true", help="print the path only; another node creates the folder"
    )
    try:
        options = parse_job_arguments(parser, words)
        training = build_training_job(options, options.processes)
        for line in () if options.folder_only else create_or_resume(training):
            print(line, file=sys.stderr)
    except (OSError, ValueError) as error:
        sys.exit(f"preflight: {error}")
    print(training.folder)


def check_node(words: Sequence[str]) -> None:
    """Exit with an error if this node has problems."""
    parser = argparse.ArgumentParser(prog="preflight node")
    parser.add_argument("folder", type=Path, help="run folder")
    parser.add_argument("--processes", type=int, required=True, help="number of processes on this node")
    options = parser.parse_args(words)
    if problems := list(find_problems(options.folder, options.processes)):
        sys.exit("\n".join(f"node {socket.gethostname()}: {problem}" for problem in problems))


def find_problems(folder: Path, processes: int) -> Iterator[str]:
    """Yield the problems that prevent ``processes``, one per GPU, from training in the run folder on this node."""
    try:
        import torch
        from omegaconf import OmegaConf

        import fairseq_linformer.models  # noqa: F401

        from .run_folder import CONFIG
    except Exception as error:
        yield f"{sys.executable} cannot import fairseq_linformer: {type(error).__name__}: {error}"
        return
    if not os.access(folder / CONFIG, os.R_OK) or not os.access(folder, os.W_OK):
        yield f"{folder} is missing or read-only; all nodes must share it"
        return
    cfg = OmegaConf.load(folder / CONFIG)
    for part in str(cfg.task.data).split(os.pathsep):
        if not os.access(part, os.R_OK):
            yield f"task.data {part} is missing or unreadable; all nodes must be able to read it"
    if cfg.common.cpu:
        return
    if not torch.cuda.is_available():
        yield f"torch {torch.__version__} finds no GPU; to train on CPUs, set DEVICE=cpu"
        return
    visible = torch.cuda.device_count()
    is_restricted = visible == 1 and "SLURM_JOB_ID" in os.environ  # Slurm may restrict each process to its GPU
    if visible != processes and not is_restricted:
        chosen = ",".join(map(str, range(processes)))
        hint = f"; to use some of them, set CUDA_VISIBLE_DEVICES={chosen}" if visible > processes else ""
        yield f"the node must have a visible GPU per process ({processes}), got {visible}{hint}"
    try:
        torch.ones(1, device="cuda").add(1).item()  # fails if torch has no kernels for this GPU
    except RuntimeError as error:
        capability = torch.cuda.get_device_capability()
        gpu = f"{torch.cuda.get_device_name()} (sm_{capability[0]}{capability[1]})"
        hint = "; install the torch of scripts/slurm/constraints-v100.txt" if capability == (7, 0) else ""
        yield f"torch {torch.__version__} cannot compute on {gpu}: {first_line(error)}{hint}"


def main(words: list[str] | None = None) -> None:
    logging.basicConfig(level=logging.WARNING)  # before fairseq configures INFO on stdout
    words = sys.argv[1:] if words is None else words
    commands = {"folder": prepare_folder, "node": check_node}
    if not (words and words[0] in commands):
        sys.exit(f"preflight: the first argument must be {' or '.join(commands)}, got {words[0] if words else 'none'}")
    commands[words[0]](words[1:])


if __name__ == "__main__":
    main()
