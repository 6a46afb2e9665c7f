"""On each node of a job, before training: is everything there?

    srun --ntasks-per-node=1 python -m fairseq_linformer.launching.node RUN --processes 8

A sentence for each thing that is missing and status 1, so that a job does not fail later and less
clearly. RUN is a run folder that ``launching.begin`` has made.
"""

import argparse
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Iterator, List, Optional, Sequence, Tuple


def problems(folder: Path, processes: int) -> Iterator[str]:
    """What is missing here.

    Args:
        folder: of the run.
        processes: on this node, a GPU each.
    """
    try:
        import torch
        from omegaconf import OmegaConf

        import fairseq_linformer.models  # noqa: F401

        from .folder import CONFIG
    except Exception as error:
        yield f"{sys.executable} cannot import fairseq_linformer: {type(error).__name__}: {error}"
        return
    if not os.access(folder / CONFIG, os.R_OK) or not os.access(folder, os.W_OK):
        yield f"{folder} is not there or cannot be written; the run folder must be on a file system that all nodes share"
        return
    cfg = OmegaConf.load(folder / CONFIG)
    for part in str(cfg.task.data).split(os.pathsep):
        if not os.access(part, os.R_OK):
            yield f"the data {part} is not there or cannot be read; it must be where all nodes can read it"
    if cfg.common.cpu:
        return
    if not torch.cuda.is_available():
        yield f"torch {torch.__version__} finds no GPU; DEVICE=cpu trains without"
        return
    if torch.cuda.device_count() not in (1, processes):  # one: the scheduler shows each process its own
        yield f"{torch.cuda.device_count()} GPUs are visible, for {processes} processes"
    capability = torch.cuda.get_device_capability()
    if not supported(capability, torch.cuda.get_arch_list()):
        hint = "; scripts/slurm/constraints-v100.txt has one that does" if capability == (7, 0) else ""
        yield f"torch {torch.__version__} does not support {torch.cuda.get_device_name()} (sm_{capability[0]}{capability[1]}){hint}"


def supported(capability: Tuple[int, int], architectures: Sequence[str]) -> bool:
    """Whether a GPU runs what torch was built for: machine code of its own generation and of no later minor
    version (``sm_70``), or what is compiled on the spot (``compute_70``)."""
    for name in architectures:
        kind, _, number = name.partition("_")
        built = divmod(int(number.rstrip("af") or 0), 10)
        if built <= capability and (kind == "compute" or built[0] == capability[0]):
            return True
    return False


def main(words: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, required=True, help="on this node")
    options = parser.parse_args(words)
    logging.basicConfig(level=logging.WARNING)  # before fairseq does it, at INFO, when it is imported
    found = list(problems(options.folder, options.processes))
    if found:
        sys.exit("\n".join(f"node {socket.gethostname()}: {problem}" for problem in found))


if __name__ == "__main__":
    main()
