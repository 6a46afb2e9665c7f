"""Graceful stops: on a signal, a job finishes its update, saves a checkpoint and exits, so that it can be resumed.

Slurm sends USR1 minutes before the time limit (``--signal``) and TERM on preemption; a closed terminal sends HUP;
torchrun forwards TERM and INT. Signals can reach processes during different updates, so the processes agree after each
update.
"""

import logging
import math
import os
import signal
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from fairseq import checkpoint_utils
from fairseq_cli import train

from .signals import hangup_signals

logger = logging.getLogger(__name__)

STOPPED = 75
"""Exit status of a process that was stopped by a signal and saved: EX_TEMPFAIL of sysexits.h."""
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
        received = torch.tensor(float(self.received), device=device)
        if dist.is_initialized():
            dist.all_reduce(received, op=dist.ReduceOp.MAX)
        return bool(received)


def stop_after_update(request: StopRequest) -> None:
    """Patch fairseq's training loop to check ``request`` after each update; to stop, it saves and exits."""
    validate_and_save, train_epoch = train.validate_and_save, train.train

    def validate_save_and_stop(
        cfg: Any, trainer: Any, task: Any, epoch_itr: Any, valid_subsets: Any, end_of_epoch: bool
    ) -> Any:
        losses, done = validate_and_save(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
        if done or not request.received_by_any(trainer.device):
            return losses, done
        logger.info("received a signal to stop; saving at update %d", trainer.get_num_updates())
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
        if dist.is_initialized():
            dist.barrier()  # no process exits before the checkpoint is written
        raise SystemExit(STOPPED)

    def train_unless_done(cfg: Any, trainer: Any, task: Any, epoch_itr: Any) -> Any:
        """A run that was killed after its last update is complete; fairseq would train one more update."""
        if trainer.get_num_updates() >= (cfg.optimization.max_update or math.inf):
            return [None], True
        return train_epoch(cfg, trainer, task, epoch_itr)

    train.validate_and_save, train.train = validate_save_and_stop, train_unless_done
