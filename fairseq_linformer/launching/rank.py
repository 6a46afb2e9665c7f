"""One process of a training job: ``fairseq-hydra-train`` in its place among the others.

    srun python -m fairseq_linformer.launching.rank --processes 64 +run=n512-k256-layerwise task.data=BIN

scripts/slurm/train.sbatch and scripts/torchrun.sh start it. Its exit status is 0 when training is
done or was told to stop and is saved (then RUN/stopped is there), else 1.
"""

import argparse
import logging
import os
import re
import sys
import time
from contextlib import nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, Dict, List, Optional

import torch
import torch.distributed as dist
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer
from fairseq_cli import hydra_train

from ..errors import first_line
from .arguments import add_job_arguments, parse_in_job, training_of
from .checkpoints import save_whole
from .folder import alone_in, is_new, note_stint
from .place import Place, find_place
from .stopping import Stop, stop_after_updates

logger = logging.getLogger(__name__)
_LOST = re.compile(r"gloo|nccl|Connection (closed|reset)|Broken pipe|peer|rendezvous", re.IGNORECASE)
_WAIT_FOR_THE_FIRST = 5.0
"""Seconds. A process that fails because another one did ends after that one, which Slurm then names first."""


def main(words: Optional[List[str]] = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_job_arguments(parser)
    stop = Stop()
    stop.listen()
    try:
        options = parse_in_job(parser, words)
        training = training_of(options, options.processes)
        place = find_place()
        if place.world_size != training.processes:
            raise ValueError(f"this is {place}, and the job has {training.processes} processes; both must be the same")
        if is_new(training):
            raise ValueError(f"{training.folder} has no config.yaml; launching.begin makes it first")
        folder = training.folder  # before hydra works in it, where relative paths are others
        sys.argv = ["fairseq-hydra-train", *training.command_line(**_placed(place, folder))]
    except (OSError, ValueError) as error:
        print(f"rank: {error}", file=sys.stderr)
        return 1
    stop_after_updates(stop, folder)
    checkpoint_utils._torch_persistent_save = save_whole
    Trainer.train_step = _naming_the_update(Trainer.train_step)
    hydra_train.pre_main = _guarded(hydra_train.pre_main, place, folder)
    try:
        hydra_train.cli_main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def _placed(place: Place, folder: Path) -> Dict[str, Any]:
    """The overrides of this process."""
    devices = torch.cuda.device_count()  # one if the scheduler shows each process its own
    return {
        "hydra.run.dir": str(folder),
        "hydra.output_subdir": None,
        "hydra/job_logging": "stdout",
        "hydra.job_logging.formatters.simple.format": "%(asctime)s | %(levelname)s | %(name)s | %(message)s",
        "distributed_training.distributed_init_method": f"tcp://{place.address}:{place.port}",
        "distributed_training.distributed_rank": place.rank,
        "distributed_training.device_id": place.local_rank % devices if devices else 0,
        "distributed_training.distributed_no_spawn": True,
    }


def _guarded(train, place: Place, folder: Path):
    """fairseq's main function, alone in the run folder; a failure is told with the rank that it happened in."""

    def guarded(cfg, **kwargs) -> None:
        logger.setLevel(logging.INFO)  # fairseq silences all ranks but the first
        try:
            _check_world(place, cfg)
            logger.info("%s: world size is %d, device %s", place, dist.get_world_size(), _device(cfg))
            with alone_in(folder) if place.rank == 0 else nullcontext():
                if place.rank == 0:
                    note_stint(folder, place.world_size)
                train(cfg, **kwargs)
        except Exception as error:
            cause = _first_cause(error)
            logger.exception("%s failed: %s: %s", place, type(cause).__name__, first_line(cause))
            if _LOST.search(f"{type(error).__name__} {error}"):
                time.sleep(_WAIT_FOR_THE_FIRST)
            _leave(1)

    return guarded


def _naming_the_update(train_step):
    """fairseq says that gradients are not finite, before they change anything, but not when."""

    @wraps(train_step)
    def named(trainer, *args, **kwargs):
        try:
            return train_step(trainer, *args, **kwargs)
        except FloatingPointError as error:
            raise FloatingPointError(f"update {trainer.get_num_updates() + 1}: {error}") from None

    return named


def _first_cause(error: BaseException) -> BaseException:
    """What the others in a chain of errors came from."""
    while before := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = before
    return error


def _check_world(place: Place, cfg) -> None:
    """
    Raises:
        RuntimeError: the processes that found each other are not those of the job.
    """
    sizes = (place.world_size, cfg.distributed_training.distributed_world_size, dist.get_world_size())
    ranks = torch.zeros(place.world_size, device=_device(cfg))
    ranks[place.rank] = 1
    dist.all_reduce(ranks)
    if len(set(sizes)) > 1 or not bool((ranks == 1).all()):
        raise RuntimeError(f"{place}: the job has {sizes[0]} processes, the configuration {sizes[1]}, the process group {sizes[2]}; all must be the same")


def _device(cfg) -> str:
    return "cpu" if cfg.common.cpu or not torch.cuda.is_available() else f"cuda:{cfg.distributed_training.device_id}"


def _leave(status: int) -> None:
    """End now: an ordinary end waits for processes that load data, which no signal reaches any more."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _leave(main())
