"""One process of a training job, which runs ``fairseq-hydra-train`` as one rank.

    torchrun --nproc-per-node 8 -m fairseq_linformer.training.worker --processes 8 task.data=BIN

It is started by scripts/slurm/train.sbatch, scripts/torchrun.sh and ``training.local``. Its exit status is 0 if
training is complete, or was stopped by a signal and saved (then RUN/stopped exists), else 1.
"""

import argparse
import logging
import multiprocessing
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
import torch.distributed as dist
from fairseq_cli import hydra_train
from omegaconf import DictConfig

from ..errors import first_line, root_cause
from .arguments import build_training_job, parse_job_arguments
from .run_folder import CONFIG, is_new, lock_folder, record_attempt
from .stopping import StopRequest, stop_after_update

logger = logging.getLogger(__name__)
_LOST_CONNECTION = re.compile(r"gloo|nccl|Connection (closed|reset)|Broken pipe|peer|rendezvous", re.IGNORECASE)
STORE = ("MASTER_ADDR", "MASTER_PORT")
"""Where the processes of a job meet."""
_LOADER_SECONDS = 5.0
"""Seconds to wait for a killed data loader, which cannot end while a file system hangs."""
_DELAY_SECONDS = 5.0
"""Delay of a process that failed because it lost another one, so that Slurm reports the other as the first to fail."""


class Rank(NamedTuple):
    """Rank of this process, in the job and on its node."""

    rank: int
    world_size: int
    local_rank: int

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size} on {socket.gethostname()}"


def read_rank() -> Rank:
    """Read the environment variables that torchrun sets; ValueError if one is missing.

    A job of one process needs no MASTER_ADDR and no MASTER_PORT: it has no process group, and listens on no port.
    """
    needed = ["RANK", "WORLD_SIZE", "LOCAL_RANK", *(STORE if os.environ.get("WORLD_SIZE") != "1" else ())]
    for name in needed:
        if name not in os.environ:
            raise ValueError(f"{name} is not set; start workers with scripts/torchrun.sh or scripts/slurm/train.sbatch")
    return Rank(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))


def main(words: list[str] | None = None) -> int:
    """Train, and return the exit status."""
    get_temp_dir()  # the data loaders inherit it, so that it can be removed when they are killed
    request = StopRequest()
    request.listen()
    try:
        options = parse_job_arguments(argparse.ArgumentParser(description=__doc__), words)
        training = build_training_job(options, options.processes)
        if training.device == "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # otherwise PyTorch and fairseq reserve memory of the first GPU
        rank = read_rank()
        if rank.world_size == 1:
            for name in STORE:
                os.environ.pop(name, None)  # fairseq would create a process group
        if rank.world_size != training.processes:
            raise ValueError(f"{rank}: --processes must equal WORLD_SIZE, got {training.processes}")
        if is_new(training):
            raise ValueError(f"{training.folder} has no {CONFIG}; run training.preflight first")
        folder = training.folder  # resolved before hydra changes the working directory
        sys.argv = ["fairseq-hydra-train", *training.command_line(**_process_overrides(rank, folder))]
    except (OSError, ValueError) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 1
    stop_after_update(request, folder)
    # fairseq also creates groups of its own, which have PyTorch's timeout and not that of the default group.
    timeout = timedelta(minutes=options.collective_timeout)
    dist.init_process_group = partial(dist.init_process_group, timeout=timeout)
    dist.new_group = partial(dist.new_group, timeout=timeout)
    hydra_train.pre_main = _guard(hydra_train.pre_main, rank, folder)
    try:
        hydra_train.cli_main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else 1
    return 0


def _process_overrides(rank: Rank, folder: Path) -> dict[str, Any]:
    devices = torch.cuda.device_count()  # 1 if the scheduler restricts each process to its GPU
    group = {"distributed_init_method": "env://", "distributed_rank": rank.rank} if rank.world_size > 1 else {}
    return {
        "hydra.run.dir": str(folder),
        "hydra.output_subdir": None,
        "hydra/job_logging": "stdout",
        "hydra.job_logging.formatters.simple.format": "%(asctime)s | %(levelname)s | %(name)s | %(message)s",
        **{f"distributed_training.{name}": value for name, value in group.items()},
        "distributed_training.device_id": rank.local_rank % devices if devices else 0,
        "distributed_training.distributed_no_spawn": True,
    }


def _guard(train: Callable[..., None], rank: Rank, folder: Path) -> Callable[..., None]:
    """Wrap fairseq's main function: check the process group, lock the run folder, and name the rank in errors."""

    def guarded(cfg: DictConfig, **kwargs: Any) -> None:
        logger.setLevel(logging.INFO)  # fairseq silences all other ranks
        try:
            if rank.world_size > 1:
                _check_world(rank, cfg)
            logger.info("%s: world size %d, device %s", rank, rank.world_size, _device(cfg))
            with lock_folder(folder) if rank.rank == 0 else nullcontext():
                if rank.rank == 0:
                    record_attempt(folder, rank.world_size)
                train(cfg, **kwargs)
        except Exception as error:
            cause = root_cause(error)
            failure = f"{rank} failed: {type(cause).__name__}: {first_line(cause)}"
            logger.exception(failure)
            if _LOST_CONNECTION.search(f"{type(error).__name__} {error}"):
                time.sleep(_DELAY_SECONDS)
            _exit_now(1)

    return guarded


def _check_world(rank: Rank, cfg: DictConfig) -> None:
    """Raise RuntimeError unless job, configuration and process group have the same size, and each rank exists once."""
    sizes = (rank.world_size, cfg.distributed_training.distributed_world_size, dist.get_world_size())
    counts = torch.zeros(rank.world_size, device=_device(cfg))
    counts[rank.rank] = 1
    dist.all_reduce(counts)
    if len(set(sizes)) > 1 or not bool((counts == 1).all()):
        raise RuntimeError(
            f"{rank}: job, configuration and process group must have the same number of processes, got {sizes}, and "
            f"each rank must exist once, got {counts.tolist()}"
        )


def _device(cfg: DictConfig) -> str:
    on_gpu = torch.cuda.is_available() and not cfg.common.cpu
    return f"cuda:{cfg.distributed_training.device_id}" if on_gpu else "cpu"


def _exit_now(status: int) -> NoReturn:
    """Kill the data loaders, which ignore other signals, and exit.

    Most would end with this process, but those that have just started would keep its output open forever.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # PyTorch's handler raises if a loader is killed
    loaders = multiprocessing.active_children()
    for loader in loaders:
        loader.kill()
    for loader in loaders:
        loader.join(_LOADER_SECONDS)
    shutil.rmtree(get_temp_dir(), ignore_errors=True)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _exit_now(main())
