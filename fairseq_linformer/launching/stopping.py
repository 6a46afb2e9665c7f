"""On a signal, a job saves a checkpoint after the current update and ends, so that it can be queued again.

Slurm sends USR1 some minutes before the time limit (``--signal``), and TERM when it preempts the job; torchrun forwards
TERM and INT. The processes do not receive it during the same update, so all of them agree after each. They end with
status 0, because Slurm kills the others as soon as one ends with another; a file in the run folder says that training
is not finished.
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

from .run_folder import MAX_STOPS_AT_ONE_UPDATE, mark_stopped

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Whether this process has received a signal to stop."""

    def __init__(self):
        self.received = False

    def listen(self) -> None:
        """From now on. Data loaders ignore the signals: if TERM ended one, it would end the training."""
        for number in SIGNALS:
            signal.signal(number, self._receive)
        os.register_at_fork(
            before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS),
            after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS),
        )

    def _receive(self, number: int, frame) -> None:
        self.received = True

    def received_by_any(self, device: torch.device) -> bool:
        """Whether any process has received one. A collective operation: all processes must call it."""
        received = torch.tensor(float(self.received), device=device)
        dist.all_reduce(received, op=dist.ReduceOp.MAX)
        return bool(received)


def stop_after_update(request: StopRequest, folder: Path) -> None:
    """Patch fairseq's training loop: after an update it obeys ``request``, saves, marks the run folder and exits, with
    status 0, or 1 if the last stops were all at this update."""
    validate_and_save, train_epoch = train.validate_and_save, train.train

    def validate_save_and_stop(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch):
        losses, done = validate_and_save(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
        if done or not request.received_by_any(trainer.device):
            return losses, done
        updates = trainer.get_num_updates()
        logger.info("received a signal to stop: saving at update %d", updates)
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
        progress = torch.ones((), device=trainer.device)
        if dist.get_rank() == 0 and not mark_stopped(folder, updates):
            progress.zero_()
        dist.broadcast(progress, 0)  # no process leaves before the checkpoint is written
        if progress:
            raise SystemExit(0)
        logger.error("stopped at update %d for the %dth time in a row: the time limit is too short for an update",
                     updates, MAX_STOPS_AT_ONE_UPDATE)  # fmt: skip
        raise SystemExit(1)

    def train_unless_done(cfg, trainer, task, epoch_itr):
        """A run that was stopped after its last update is done; fairseq would make one more update."""
        if trainer.get_num_updates() >= (cfg.optimization.max_update or math.inf):
            return [None], True
        return train_epoch(cfg, trainer, task, epoch_itr)

    train.validate_and_save, train.train = validate_save_and_stop, train_unless_done
