"""Graceful stops: on a signal, a job finishes its update, saves a checkpoint and exits, so that it can be requeued.

Slurm sends USR1 minutes before the time limit (``--signal``) and TERM on preemption; a closed terminal sends HUP;
torchrun forwards TERM, INT and HUP. Signals can reach processes during different updates, so the processes agree after
each update. They exit with status 0, because Slurm kills all processes when one exits with another status;
``RUN/stopped`` marks unfinished training.
"""

import logging
import math
import os
import signal
from datetime import timedelta
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist
from fairseq import checkpoint_utils
from fairseq_cli import train

from ..errors import first_line
from ..signals import hangup_signals
from .run_folder import MAX_STOPS_AT_ONE_UPDATE, mark_stopped

logger = logging.getLogger(__name__)

SECONDS_FOR_PEERS = 30.0
"""Limit on the time that a stopping process waits for the others."""
SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, *hangup_signals())


class StopRequest:
    """Whether this process has received a signal to stop."""

    def __init__(self) -> None:
        self.received = False

    def listen(self) -> None:
        """Start handling the signals. Data loaders block them, because training fails if a loader exits."""
        for number in SIGNALS:
            signal.signal(number, self._receive)
        os.register_at_fork(
            before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS),
            after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS),
        )

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = True

    def received_by_any(self, device: torch.device) -> bool:
        """Whether any process has received a signal. This is a collective operation: all processes must call it."""
        if not dist.is_initialized():  # a job of one process
            return self.received
        received = torch.tensor(float(self.received), device=device)
        dist.all_reduce(received, op=dist.ReduceOp.MAX)
        return bool(received)


def wait_for_peers(seconds: float = SECONDS_FOR_PEERS) -> None:
    """Wait at most this long until all processes get here: a broadcast may return on the sender before the others have
    received it."""
    try:
        dist.barrier(async_op=True).wait(timedelta(seconds=seconds))
    except RuntimeError as error:
        logger.warning("exiting before all processes confirmed the stop: %s", first_line(error))


def stop_after_update(request: StopRequest, folder: Path) -> None:
    """Patch fairseq's training loop to check ``request`` after each update.

    To stop, it saves, marks the run folder, and exits with status 0, or 1 if the last stops were at this update.
    """
    validate_and_save, train_epoch = train.validate_and_save, train.train

    def validate_save_and_stop(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch):
        losses, done = validate_and_save(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
        if done or not request.received_by_any(trainer.device):
            return losses, done
        updates = trainer.get_num_updates()
        logger.info("received a signal to stop; saving at update %d", updates)
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
        has_advanced = torch.ones((), device=trainer.device)
        if trainer.is_data_parallel_master and not mark_stopped(folder, updates):
            has_advanced.zero_()
        if dist.is_initialized():
            dist.broadcast(has_advanced, 0)  # no process exits before the checkpoint is written
            has_advanced = has_advanced.cpu()  # on a GPU the broadcast has only now ended
            wait_for_peers()
        if has_advanced:
            raise SystemExit(0)
        logger.error(
            "stopped at update %d %d times in a row; the time limit is too short for an update",
            updates,
            MAX_STOPS_AT_ONE_UPDATE,
        )
        raise SystemExit(1)

    def train_unless_done(cfg, trainer, task, epoch_itr):
        """Do not train a run that was stopped after its last update; fairseq would train one more update."""
        if trainer.get_num_updates() >= (cfg.optimization.max_update or math.inf):
            return [None], True
        return train_epoch(cfg, trainer, task, epoch_itr)

    train.validate_and_save, train.train = validate_save_and_stop, train_unless_done
