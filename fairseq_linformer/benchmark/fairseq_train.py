"""``fairseq-train`` as the benchmark runs it: ``--bf16`` is a precision and not for a TPU, and a stopwatch can time its
parts.

    python -P fairseq_train.py ARGUMENTS...                    as fairseq-train
    python -P fairseq_train.py --parts OUT.json ARGUMENTS...   seconds of the parts of every update, to OUT.json

It runs as a file, and imports PyTorch and fairseq only: the authors' plugin registers the same names as this one.
Timers stand around the calls of fairseq's training loop, no profiler; a part inside another is subtracted from it, so
each moment counts once. A GPU is synchronized at each of their ends, which makes the parts true and the whole a little
longer.
"""

import functools
import json
import sys
import time
from contextlib import ExitStack
from typing import Callable, Dict, List
from unittest import mock

import torch

PARTS = ("data", "forward", "criterion", "backward", "clipping", "optimizer", "logging")
REST = "rest"
"""Time of an update in none of ``PARTS``."""


def train(arguments: List[str]) -> None:
    """``fairseq-train`` in this process, with ``arguments``."""
    import fairseq_cli.train

    as_configuration = fairseq_cli.train.convert_namespace_to_omegaconf

    def without_tpu(args):
        args.tpu = False  # fairseq's parser sets it with --bf16
        return as_configuration(args)

    with mock.patch.object(fairseq_cli.train, "convert_namespace_to_omegaconf", without_tpu), \
         mock.patch.object(sys, "argv", ["fairseq-train", *arguments]):  # fmt: skip
        fairseq_cli.train.cli_main()


class Stopwatch:
    """Collects seconds of parts, update by update.

    Attributes:
        updates: for each, the seconds of its parts, and ``whole`` from its request for data until that of the next one.
    """

    def __init__(self):
        self.updates: List[Dict[str, float]] = []
        self._within: List[float] = []  # for each part that is open, the seconds of parts inside it
        self._begun = None

    def part(self, name: str, run: Callable) -> Callable:
        """``run``, timed as that part of the update."""

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
        """A method that iterates over the batches of updates; an update begins where its batch is requested."""

        @functools.wraps(iterator)
        def iterate(*args, **kwargs):
            batches = iter(iterator(*args, **kwargs))
            next_batch = self.part("data", lambda: next(batches, None))
            while True:
                self.updates.append(dict.fromkeys(PARTS, 0.0))
                self._begun = self._now()
                if (batch := next_batch()) is None:
                    self.updates.pop()
                    self._begun = None
                    return
                try:
                    yield batch
                finally:  # the next one is requested, or the loop ends early
                    self.updates[-1]["whole"] = self._now() - self._begun
                    self._begun = None

        return iterate

    @staticmethod
    def _now() -> float:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.perf_counter()


def seconds_of_updates(arguments: List[str]) -> List[Dict[str, float]]:
    """Train in this process: the seconds of ``PARTS`` and the ``whole`` of each update."""
    from fairseq.logging.progress_bar import JsonProgressBar
    from fairseq.tasks.fairseq_task import FairseqTask
    from fairseq.trainer import Trainer

    watch = Stopwatch()
    build_optimizer = Trainer._build_optimizer

    def build_and_time(trainer):
        build_optimizer(trainer)
        for owner, name, part in ((trainer.model, "forward", "forward"), (trainer.criterion, "forward", "criterion"),
                                  (trainer.optimizer, "backward", "backward"),
                                  (trainer.optimizer, "multiply_grads", "optimizer")):  # fmt: skip
            setattr(owner, name, watch.part(part, getattr(owner, name)))

    with ExitStack() as stack:
        for owner, name, part in (
            (Trainer, "_prepare_sample", "data"), (Trainer, "zero_grad", "optimizer"),
            (FairseqTask, "optimizer_step", "optimizer"),
            (Trainer, "clip_grad_norm", "clipping"), (Trainer, "_reduce_and_log_stats", "logging"),
            (JsonProgressBar, "log", "logging"),
        ):  # fmt: skip
            stack.enter_context(mock.patch.object(owner, name, watch.part(part, getattr(owner, name))))
        stack.enter_context(mock.patch.object(Trainer, "_build_optimizer", build_and_time))
        stack.enter_context(mock.patch.object(JsonProgressBar, "__iter__", watch.batches(JsonProgressBar.__iter__)))
        train([*arguments, "--log-format", "json", "--log-interval", "1"])
    return watch.updates


if __name__ == "__main__":
    if sys.argv[1:2] == ["--parts"]:
        with open(sys.argv[2], "w") as file:
            json.dump(seconds_of_updates(sys.argv[3:]), file)
    else:
        train(sys.argv[1:])
