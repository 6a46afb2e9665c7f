"""A job that is told to stop saves a checkpoint after the update it is in, and asks to be queued again.

Slurm sends USR1 some minutes before the time limit (``--signal``) and TERM when a job with more
right to the nodes comes; torchrun hands TERM and INT on. Not every process hears it in the same update, so
all of them agree after each. They end with status 0, because Slurm kills the others as soon as one
ends with another; a file in the run folder says that there is more to do.
"""

import logging
import math
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from fairseq import checkpoint_utils
from fairseq_cli import train

from .folder import STANDING_STILL, mark_stopped

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether this process was told to stop."""

    def __init__(self):
        self.heard = False

    def listen(self) -> None:
        """From now on. Processes that load data do not hear it: one that TERM ends takes the training with it."""
        for number in SIGNALS:
            signal.signal(number, self._hear)
        os.register_at_fork(
            before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS),
            after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS),
        )

    def _hear(self, number: int, frame) -> None:
        self.heard = True

    def heard_by_any(self, device: torch.device) -> bool:
        """The same answer in all processes, which all must ask."""
        heard = torch.tensor(float(self.heard), device=device)
        dist.all_reduce(heard, op=dist.ReduceOp.MAX)
        return bool(heard)


def stop_after_updates(stop: Stop, folder: Path) -> None:
    """Let fairseq's training look at ``stop`` after each update, and save and end the process if it is set.

    Args:
        folder: of the run.

    Raises:
        SystemExit: in training, of status 0; of 1 if nothing was done since the last stops.
    """
    validate_and_save, train_epoch = train.validate_and_save, train.train

    def and_stop(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch):
        losses, done = validate_and_save(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
        if done or not stop.heard_by_any(trainer.device):
            return losses, done
        updates = trainer.get_num_updates()
        logger.info("told to stop: saving at update %d", updates)
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
        ahead = torch.ones((), device=trainer.device)
        if dist.get_rank() == 0 and not mark_stopped(folder, updates):
            ahead.zero_()
        dist.broadcast(ahead, 0)  # nobody leaves before the checkpoint is written
        if ahead:
            raise SystemExit(0)
        logger.error("told to stop at update %d for the %dth time in a row: a job has too little time for an update", updates, STANDING_STILL)
        raise SystemExit(1)

    def unless_done(cfg, trainer, task, epoch_itr):
        """fairseq does another update where all were done when it was stopped."""
        if trainer.get_num_updates() >= (cfg.optimization.max_update or math.inf):
            return [None], True
        return train_epoch(cfg, trainer, task, epoch_itr)

    train.validate_and_save, train.train = and_stop, unless_done
