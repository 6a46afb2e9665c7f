"""Checks of a job before its processes start.

    python -m fairseq_linformer.launching.preflight folder --processes 64 +run=n512-k256-layerwise task.data=BIN
    srun --ntasks-per-node=1 python -m fairseq_linformer.launching.preflight node RUN --processes 8

``folder`` creates the run folder, or prepares it for resuming, and prints its path. ``node`` checks that this node has
what training in RUN needs, so that the job does not fail later and less clearly: one sentence for each problem, and
status 1.
"""

import argparse
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Iterator, List, Optional, Sequence

from ..errors import first_line
from .arguments import make_training, parse_job_arguments


def prepare_folder(words: Sequence[str]) -> None:
    """Print the run folder to stdout, and what was found in it to stderr."""
    from .run_folder import create_or_resume  # imports fairseq

    parser = argparse.ArgumentParser(prog="preflight folder")
    parser.add_argument("--folder-only", action="store_true", help="only print it; another node creates it")
    try:
        options = parse_job_arguments(parser, words)
        training = make_training(options, options.processes)
        for line in () if options.folder_only else create_or_resume(training):
            print(line, file=sys.stderr)
    except (OSError, ValueError) as error:
        sys.exit(f"preflight: {error}")
    print(training.folder)


def check_node(words: Sequence[str]) -> None:
    """Print what ``node_problems`` finds."""
    parser = argparse.ArgumentParser(prog="preflight node")
    parser.add_argument("folder", type=Path, help="the run folder")
    parser.add_argument("--processes", type=int, required=True, help="on this node")
    options = parser.parse_args(words)
    if problems := list(node_problems(options.folder, options.processes)):
        sys.exit("\n".join(f"node {socket.gethostname()}: {problem}" for problem in problems))


def node_problems(folder: Path, processes: int) -> Iterator[str]:
    """What this node lacks for so many ``processes`` on it, one GPU each, that train in the run folder."""
    try:
        import torch
        from omegaconf import OmegaConf

        import fairseq_linformer.models  # noqa: F401

        from .run_folder import CONFIG
    except Exception as error:
        yield f"{sys.executable} cannot import fairseq_linformer: {type(error).__name__}: {error}"
        return
    if not os.access(folder / CONFIG, os.R_OK) or not os.access(folder, os.W_OK):
        yield f"{folder} does not exist or cannot be written; it must be on a file system that all nodes share"
        return
    cfg = OmegaConf.load(folder / CONFIG)
    for part in str(cfg.task.data).split(os.pathsep):
        if not os.access(part, os.R_OK):
            yield f"the data {part} does not exist or cannot be read; all nodes must be able to read it"
    if cfg.common.cpu:
        return
    if not torch.cuda.is_available():
        yield f"torch {torch.__version__} finds no GPU; DEVICE=cpu trains without"
        return
    if torch.cuda.device_count() not in (1, processes):  # one: the scheduler shows each process only its own
        yield f"{torch.cuda.device_count()} GPUs are visible, for {processes} processes"
    try:
        torch.ones(1, device="cuda").add(1).item()  # fails if torch was built without kernels for this GPU
    except RuntimeError as error:
        capability = torch.cuda.get_device_capability()
        gpu = f"{torch.cuda.get_device_name()} (sm_{capability[0]}{capability[1]})"
        hint = "; scripts/slurm/constraints-v100.txt names a torch for it" if capability == (7, 0) else ""
        yield f"torch {torch.__version__} cannot compute on {gpu}: {first_line(error)}{hint}"


def main(words: Optional[List[str]] = None) -> None:
    logging.basicConfig(level=logging.WARNING)  # before fairseq configures it for INFO on stdout when it is imported
    words = sys.argv[1:] if words is None else words
    commands = {"folder": prepare_folder, "node": check_node}
    if not (words and words[0] in commands):
        sys.exit(f"preflight: the arguments are {words}; the first must be one of {', '.join(commands)}")
    commands[words[0]](words[1:])


if __name__ == "__main__":
    main()
