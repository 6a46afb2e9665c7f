"""``fairseq-train`` with a stopwatch: into which parts the time of each update goes.

    python -P stopwatch.py OUT.json ARGUMENTS...      those of fairseq-train; every update is logged

It is run as a file, and imports PyTorch and fairseq only: the authors' plugin registers the same names as this one. Timers
stand around the calls of fairseq's training loop, no profiler; what is called within a part is taken out of it, so each
moment counts once. A GPU is waited for at each of their ends, which makes the parts true and the whole a little longer than
it is without.
"""

import functools
import json
import runpy
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Callable, Dict, List
from unittest import mock

import torch

PARTS = ("data", "forward", "criterion", "backward", "clipping", "optimizer", "logging")
"""What is in none of them is the rest of an update."""


class Stopwatch:
    """Collects seconds of parts, update by update.

    Attributes:
        updates: of each, the seconds of its parts, and ``whole`` from the moment it asks for data until the next one does.
    """

    def __init__(self):
        self.updates: List[Dict[str, float]] = []
        self._within: List[float] = []  # of each part that is open, the seconds of parts inside it
        self._begun = None

    def part(self, name: str, run: Callable) -> Callable:
        """``run``, whose time counts as that part of the update."""

        @functools.wraps(run)
        def timed(*args, **kwargs):
            self._within.append(0.0)
            begun = self._now()
            try:
                return run(*args, **kwargs)
            finally:
                taken = self._now() - begun
                inside = self._within.pop()
                if self._within:
                    self._within[-1] += taken
                if self.updates and self._begun is not None:
                    self.updates[-1][name] += taken - inside

        return timed

    def batches(self, iterator: Callable) -> Callable:
        """``iterator`` is a method that begins to iterate over updates; each begins where it is asked for its batch."""

        @functools.wraps(iterator)
        def iterate(*args, **kwargs):
            batches = iter(iterator(*args, **kwargs))
            following = self.part("data", lambda: next(batches, None))
            while True:
                self.updates.append(dict.fromkeys(PARTS, 0.0))
                self._begun = self._now()
                if (batch := following()) is None:
                    self.updates.pop()
                    self._begun = None
                    return
                try:
                    yield batch
                finally:  # the next one is asked for, or the loop is left
                    self.updates[-1]["whole"] = self._now() - self._begun
                    self._begun = None

        return iterate

    @staticmethod
    def _now() -> float:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.perf_counter()


def seconds_of_updates(arguments: List[str]) -> List[Dict[str, float]]:
    """Train in this process, and tell the seconds of ``PARTS`` and the ``whole`` of each update.

    Args:
        arguments: of ``fairseq-train``.
    """
    from fairseq.logging.progress_bar import JsonProgressBar
    from fairseq.tasks.fairseq_task import FairseqTask
    from fairseq.trainer import Trainer

    watch = Stopwatch()
    build_optimizer = Trainer._build_optimizer

    def build_and_time(trainer):
        build_optimizer(trainer)
        for owner, name, part in ((trainer.model, "forward", "forward"), (trainer.criterion, "forward", "criterion"),
                                  (trainer.optimizer, "backward", "backward"), (trainer.optimizer, "multiply_grads", "optimizer")):  # fmt: skip
            setattr(owner, name, watch.part(part, getattr(owner, name)))

    with ExitStack() as stack:
        for owner, name, part in (
            (Trainer, "_prepare_sample", "data"), (Trainer, "zero_grad", "optimizer"), (FairseqTask, "optimizer_step", "optimizer"),
            (Trainer, "clip_grad_norm", "clipping"), (Trainer, "_reduce_and_log_stats", "logging"), (JsonProgressBar, "log", "logging"),
        ):  # fmt: skip
            stack.enter_context(mock.patch.object(owner, name, watch.part(part, getattr(owner, name))))
        stack.enter_context(mock.patch.object(Trainer, "_build_optimizer", build_and_time))
        stack.enter_context(mock.patch.object(JsonProgressBar, "__iter__", watch.batches(JsonProgressBar.__iter__)))
        stack.enter_context(mock.patch.object(sys, "argv", ["fairseq-train", *arguments, "--log-format", "json", "--log-interval", "1"]))
        runpy.run_path(str(Path(__file__).with_name("fairseq_train.py")))["cli_main"]()
    return watch.updates


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(seconds_of_updates(sys.argv[2:]), file)
