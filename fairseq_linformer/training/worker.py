"""One process of a training job: fairseq's training in a run folder, which stops on signals and resumes.

    torchrun --nproc-per-node 8 -m fairseq_linformer.training.worker RUN

scripts/slurm/train.sbatch, scripts/torchrun.sh and ``local.py`` start it, with torchrun's variables: RANK, WORLD_SIZE,
LOCAL_RANK, and with several processes MASTER_ADDR and MASTER_PORT. RUN/config.yaml says what to train. Its exit status
is 0 if training is complete, ``STOPPED`` if a signal stopped it, else 1.
"""

import logging
import multiprocessing
import os
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from fairseq.distributed import utils as distributed_utils
from fairseq_cli import train
from omegaconf import DictConfig, OmegaConf

from ..checkpoints.identify import LAST
from ..errors import first_line, root_cause
from .job import distribute
from .run_folder import CHECKPOINTS, DONE, LOG, LOGS, lock_folder, read_config, record_attempt, restore_last
from .stopping import StopRequest, stop_after_update

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)  # fairseq silences all ranks but the first
TIMEOUT = timedelta(minutes=30)
"""The timeout of collective operations. PyTorch's 10 minutes are too few for rank 0 to write a large checkpoint to a
busy file system while the others wait."""


def main(run: str) -> int:
    """Train in a run folder, and return the exit status."""
    get_temp_dir()  # the data loaders inherit it, so that it can be removed when they are killed
    request = StopRequest()
    request.listen()
    folder = Path(run).absolute()
    rank, world_size, local_rank = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    if (folder / DONE).exists():
        print(f"training is already complete: {folder}")
        return 0
    try:
        cfg = read_config(folder)
        distribute(cfg, world_size)
        _prefer_own_checkpoint(cfg, folder / CHECKPOINTS)
        if cfg.common.cpu:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # otherwise PyTorch and fairseq reserve memory of the first GPU
        elif not torch.cuda.is_available():
            raise ValueError(f"PyTorch {torch.__version__} finds no GPU; to train on CPUs, pass --device cpu")
        _set_process(cfg, rank, local_rank)
        with lock_folder(folder) if rank == 0 else nullcontext():
            if rank == 0:  # the others wait for it in the initialization of the process group
                print("\n".join(restore_last(folder / CHECKPOINTS)))
                record_attempt(folder, world_size)
            _configure_log([folder / LOGS / LOG] if rank == 0 else [])
            os.chdir(folder)
            stop_after_update(request)
            status = _train(cfg, f"rank {rank} of {world_size}")
            if rank == 0 and status == 0:
                Path(DONE).touch()
    except (OSError, ValueError) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 1
    return status


def _prefer_own_checkpoint(cfg: DictConfig, own: Path) -> None:
    """Make ``restore_file`` and what is reset those of the first start only; fairseq would repeat both at every resume,
    and count updates from 0 again."""
    options = cfg.checkpoint
    if any(own.glob("checkpoint*.pt")):
        options.update({name: False for name in options if name.startswith("reset_")})
    if options.restore_file != LAST and not options.finetune_from_model:  # with both, fairseq ends in an error
        options.continue_once, options.restore_file = options.restore_file, LAST


def _set_process(cfg: DictConfig, rank: int, local_rank: int) -> None:
    """Set the options of a process, as fairseq-hydra-train does."""
    devices = torch.cuda.device_count()  # 1 if the scheduler restricts each process to its GPU
    options: dict[str, Any] = {"device_id": local_rank % devices if devices else 0, "distributed_no_spawn": True}
    if cfg.distributed_training.distributed_world_size > 1:
        options |= {"distributed_init_method": "env://", "distributed_rank": rank}
    OmegaConf.update(cfg, "distributed_training", options)
    OmegaConf.set_struct(cfg, True)


def _train(cfg: Any, rank: str) -> int:
    """Train as fairseq-hydra-train, and return the exit status."""
    # fairseq also creates groups of its own, which have PyTorch's timeout and not that of the default group.
    dist.init_process_group = partial(dist.init_process_group, timeout=TIMEOUT)
    dist.new_group = partial(dist.new_group, timeout=TIMEOUT)

    def train_in_group(cfg: Any) -> None:
        world_size = dist.get_world_size() if dist.is_initialized() else 1
        logger.info("%s on %s: world size %d", rank, socket.gethostname(), world_size)
        train.main(cfg)

    try:
        distributed_utils.call_main(cfg, train_in_group)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except Exception as error:
        cause = root_cause(error)
        logger.exception(f"{rank} on {socket.gethostname()} failed: {type(cause).__name__}: {first_line(cause)}")
        return 1
    return 0


def _configure_log(files: Sequence[Path]) -> None:
    """Log as fairseq does to standard output, and append to files."""
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stdout), *map(logging.FileHandler, files)]
    line = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"
    logging.basicConfig(format=line, level=logging.INFO, handlers=handlers, force=True)


def exit_now(status: int) -> NoReturn:
    """Kill the data loaders, which ignore other signals, and exit.

    Most would end with this process, but those that have just started would keep its output open forever.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # PyTorch's handler raises if a loader is killed
    for loader in multiprocessing.active_children():
        loader.kill()
        loader.join(5.0)  # it cannot end while a file system hangs
    shutil.rmtree(get_temp_dir(), ignore_errors=True)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    exit_now(main(sys.argv[1]))
