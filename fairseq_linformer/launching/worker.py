"""One process of a training job: ``fairseq-hydra-train`` as one rank among the others.

    torchrun --nproc-per-node 8 -m fairseq_linformer.launching.worker --processes 8 task.data=BIN

scripts/slurm/train.sbatch, scripts/torchrun.sh and ``launching.local`` start it. Its exit status is 0 when training is
complete, or when a signal stopped it and it saved (then RUN/stopped exists), else 1.
"""

import argparse
import logging
import os
import re
import socket
import sys
import time
from contextlib import nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

import torch
import torch.distributed as dist
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer
from fairseq_cli import hydra_train

from ..errors import first_line
from .arguments import make_training, parse_job_arguments
from .checkpoints import save_with_retries
from .run_folder import CONFIG, is_new, locked, record_attempt
from .stopping import StopRequest, stop_after_update

logger = logging.getLogger(__name__)
_LOST_CONNECTION = re.compile(r"gloo|nccl|Connection (closed|reset)|Broken pipe|peer|rendezvous", re.IGNORECASE)
_DELAY_SECONDS = 5.0
"""A process that failed because it lost another ends later than that one, which Slurm then names as the first."""


class Rank(NamedTuple):
    """This process among the ``world_size`` processes of the job: its rank, and its rank on its node, from 0."""

    rank: int
    world_size: int
    local_rank: int

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size} on {socket.gethostname()}"


def read_rank() -> Rank:
    """From the environment, as torchrun sets it; ValueError if a variable is missing."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            raise ValueError(f"{name} is not set; scripts/torchrun.sh or scripts/slurm/train.sbatch must start this")
    return Rank(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))


def main(words: Optional[List[str]] = None) -> int:
    """Train; the exit status."""
    request = StopRequest()
    request.listen()
    try:
        options = parse_job_arguments(argparse.ArgumentParser(description=__doc__), words)
        training = make_training(options, options.processes)
        rank = read_rank()
        if rank.world_size != training.processes:
            raise ValueError(f"this is {rank}, and the job has {training.processes} processes; both must be the same")
        if is_new(training):
            raise ValueError(f"{training.folder} has no {CONFIG}; launching.preflight writes it first")
        folder = training.folder  # resolved here, because hydra changes the working directory
        sys.argv = ["fairseq-hydra-train", *training.command_line(**_process_overrides(rank, folder))]
    except (OSError, ValueError) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 1
    stop_after_update(request, folder)
    checkpoint_utils._torch_persistent_save = save_with_retries
    Trainer.train_step = _name_the_update(Trainer.train_step)
    hydra_train.pre_main = _guard(hydra_train.pre_main, rank, folder)
    try:
        hydra_train.cli_main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def _process_overrides(rank: Rank, folder: Path) -> Dict[str, Any]:
    devices = torch.cuda.device_count()  # one if the scheduler shows each process only its own
    return {
        "hydra.run.dir": str(folder),
        "hydra.output_subdir": None,
        "hydra/job_logging": "stdout",
        "hydra.job_logging.formatters.simple.format": "%(asctime)s | %(levelname)s | %(name)s | %(message)s",
        "distributed_training.distributed_init_method": "env://",
        "distributed_training.distributed_rank": rank.rank,
        "distributed_training.device_id": rank.local_rank % devices if devices else 0,
        "distributed_training.distributed_no_spawn": True,
    }


def _guard(train, rank: Rank, folder: Path):
    """fairseq's main function in the locked run folder, once the process group is checked; a failure names its rank."""

    def guarded(cfg, **kwargs) -> None:
        logger.setLevel(logging.INFO)  # fairseq silences all ranks but the first
        try:
            _check_world(rank, cfg)
            logger.info("%s: world size is %d, device %s", rank, dist.get_world_size(), _device(cfg))
            with locked(folder) if rank.rank == 0 else nullcontext():
                if rank.rank == 0:
                    record_attempt(folder, rank.world_size)
                train(cfg, **kwargs)
        except Exception as error:
            cause = _root_cause(error)
            logger.exception("%s failed: %s: %s", rank, type(cause).__name__, first_line(cause))
            if _LOST_CONNECTION.search(f"{type(error).__name__} {error}"):
                time.sleep(_DELAY_SECONDS)
            _exit_now(1)

    return guarded


def _name_the_update(train_step):
    """fairseq checks that gradients are finite before the update, but its error does not say at which update."""

    @wraps(train_step)
    def wrapped(trainer, *args, **kwargs):
        try:
            return train_step(trainer, *args, **kwargs)
        except FloatingPointError as error:
            raise FloatingPointError(f"update {trainer.get_num_updates() + 1}: {error}") from None

    return wrapped


def _root_cause(error: BaseException) -> BaseException:
    """The first of a chain of errors."""
    while before := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = before
    return error


def _check_world(rank: Rank, cfg) -> None:
    """RuntimeError unless job, configuration and process group have the same size, and each rank is there once."""
    sizes = (rank.world_size, cfg.distributed_training.distributed_world_size, dist.get_world_size())
    counts = torch.zeros(rank.world_size, device=_device(cfg))
    counts[rank.rank] = 1
    dist.all_reduce(counts)
    if len(set(sizes)) > 1 or not bool((counts == 1).all()):
        problem = f"job, configuration and process group have {sizes} processes, rank by rank {counts.tolist()}"
        raise RuntimeError(f"{rank}: {problem}; the sizes must be the same, and each rank there once")


def _device(cfg) -> str:
    on_gpu = torch.cuda.is_available() and not cfg.common.cpu
    return f"cuda:{cfg.distributed_training.device_id}" if on_gpu else "cpu"


def _exit_now(status: int) -> None:
    """A normal exit waits for the data loaders, which no signal reaches any more."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _exit_now(main())
