"""``fairseq-train`` as the benchmark runs it: ``--bf16`` does not imply a TPU, and a stopwatch can time its parts.

    python -P fairseq_train.py ARGUMENTS...                    as fairseq-train
    python -P fairseq_train.py --parts OUT.json ARGUMENTS...   also write the seconds of each update's parts

It runs as a file and imports only PyTorch and fairseq, because the authors' plugin registers the same names as this
one. Calls in fairseq's training loop are timed without a profiler. A nested part is subtracted from the part around it,
so each moment counts once. A GPU is synchronized around each part, which makes the parts exact and the whole slightly
longer.
"""

import functools
import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from unittest import mock

import torch

PARTS = ("data", "forward", "criterion", "backward", "clipping", "optimizer", "logging")
REST = "rest"
"""The time of an update outside all ``PARTS``."""


def train(arguments: list[str]) -> None:
    """Run ``fairseq-train`` in this process."""
    import fairseq_cli.train

    convert = fairseq_cli.train.convert_namespace_to_omegaconf

    def convert_without_tpu(args):
        args.tpu = False  # fairseq's parser sets it with --bf16
        return convert(args)

    with (
        mock.patch.object(fairseq_cli.train, "convert_namespace_to_omegaconf", convert_without_tpu),
        mock.patch.object(sys, "argv", ["fairseq-train", *arguments]),
    ):
        fairseq_cli.train.cli_main()


class Stopwatch:
    """Collects the seconds of each part of each update.

    Attributes:
        updates: seconds by part, and ``whole``, from the request of an update's batch to the request of the next.
    """

    def __init__(self) -> None:
        self.updates: list[dict[str, float]] = []
        self._nested: list[float] = []  # for each running part, the seconds of its nested parts
        self._start: float | None = None  # start of the running update

    def part(self, name: str, run: Callable) -> Callable:
        """Wrap ``run`` to time its calls as part ``name``."""

        @functools.wraps(run)
        def timed(*args, **kwargs):
            self._nested.append(0.0)
            start = self._now()
            try:
                return run(*args, **kwargs)
            finally:
                seconds = self._now() - start
                nested = self._nested.pop()
                if self._nested:
                    self._nested[-1] += seconds
                if self._start is not None:
                    self.updates[-1][name] += seconds - nested

        return timed

    def batches(self, iterator: Callable) -> Callable:
        """Wrap a method that iterates over batches. An update starts when its batch is requested."""

        @functools.wraps(iterator)
        def iterate(*args, **kwargs):
            batches = iter(iterator(*args, **kwargs))
            next_batch = self.part("data", lambda: next(batches, None))
            while True:
                self.updates.append(dict.fromkeys(PARTS, 0.0))
                self._start = self._now()
                if (batch := next_batch()) is None:
                    self.updates.pop()
                    self._start = None
                    return
                try:
                    yield batch
                finally:  # the next batch is requested, or the loop ends early
                    self.updates[-1]["whole"] = self._now() - self._start
                    self._start = None

        return iterate

    @staticmethod
    def _now() -> float:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.perf_counter()


def time_updates(arguments: list[str]) -> list[dict[str, float]]:
    """Train in this process; return the seconds of ``PARTS`` and of the ``whole`` of each update."""
    from fairseq.logging.progress_bar import JsonProgressBar
    from fairseq.tasks.fairseq_task import FairseqTask
    from fairseq.trainer import Trainer

    watch = Stopwatch()
    build_optimizer = Trainer._build_optimizer

    def build_and_time(trainer):
        build_optimizer(trainer)
        for owner, name, part in (
            (trainer.model, "forward", "forward"),
            (trainer.criterion, "forward", "criterion"),
            (trainer.optimizer, "backward", "backward"),
            (trainer.optimizer, "multiply_grads", "optimizer"),
        ):
            setattr(owner, name, watch.part(part, getattr(owner, name)))

    with ExitStack() as stack:
        for owner, name, part in (
            (Trainer, "_prepare_sample", "data"),
            (Trainer, "zero_grad", "optimizer"),
            (FairseqTask, "optimizer_step", "optimizer"),
            (Trainer, "clip_grad_norm", "clipping"),
            (Trainer, "_reduce_and_log_stats", "logging"),
            (JsonProgressBar, "log", "logging"),
        ):
            stack.enter_context(mock.patch.object(owner, name, watch.part(part, getattr(owner, name))))
        stack.enter_context(mock.patch.object(Trainer, "_build_optimizer", build_and_time))
        stack.enter_context(mock.patch.object(JsonProgressBar, "__iter__", watch.batches(JsonProgressBar.__iter__)))
        train([*arguments, "--log-format", "json", "--log-interval", "1"])
    return watch.updates


if __name__ == "__main__":
    if sys.argv[1:2] == ["--parts"]:
        with open(sys.argv[2], "w") as file:
            json.dump(time_updates(sys.argv[3:]), file)
    else:
        train(sys.argv[1:])
