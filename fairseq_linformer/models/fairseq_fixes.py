"""Fixes of fairseq, for all models, while this plugin is loaded."""

import atexit
import math
import os
import queue
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from typing import Any
from weakref import WeakSet

import torch
from fairseq import checkpoint_utils
from fairseq.data.iterators import BackgroundConsumer, BufferedIterator
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer
from fairseq_cli import train

HALF_PRECISION = ("fp16", "bf16", "memory_efficient_fp16", "memory_efficient_bf16")


def fix_half_precision() -> None:
    """``--bf16`` means bf16 on a GPU: fairseq takes it for a TPU and fails without one, and ``fairseq-validate``
    ignores it. Without a GPU ``--fp16`` and ``--bf16`` are rejected: fairseq fails in the first update."""
    call_main, init = distributed_utils.call_main, Trainer.__init__

    @wraps(call_main)
    def call_main_without_tpu(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        cfg.common.tpu = cfg.common.tpu and "--tpu" in sys.argv
        check_half_precision(cfg.common)
        is_validation = "override_args" in kwargs  # only fairseq-validate passes it
        if is_validation and cfg.common.bf16:
            main = partial(_run_in_bf16, main)
        return call_main(cfg, main, **kwargs)

    @wraps(init)
    def init_after_check(self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
        check_half_precision(cfg.common)  # fairseq-hydra-train loads the plugin after call_main
        init(self, cfg, *args, **kwargs)

    distributed_utils.call_main = call_main_without_tpu
    Trainer.__init__ = init_after_check


def check_half_precision(common: Any) -> None:
    """
    Args:
        common: fairseq's configuration group ``common``.

    Raises:
        ValueError: half precision, which fairseq supports on GPUs only, without a GPU.
    """
    if common.tpu or (torch.cuda.is_available() and not common.cpu):
        return
    if chosen := [name for name in HALF_PRECISION if common[name]]:
        flag = chosen[-1].replace("_", "-")  # --memory-efficient-fp16 sets fp16, too
        reason = "PyTorch finds none" if not torch.cuda.is_available() else "--cpu is set"
        raise ValueError(
            f"--{flag} needs a GPU, but {reason}; on a CPU use --amp instead, which computes in bf16 "
            f"(YAML: common.{chosen[-1]}=false common.amp=true)"
        )


def _run_in_bf16(main: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with torch.autocast("cuda", torch.bfloat16):
        return main(*args, **kwargs)


def fix_copies() -> None:
    """fairseq copies a checkpoint to ``checkpoint_best.pt`` and ``checkpoint_last.pt`` in place; a process that is
    killed meanwhile would leave a damaged one."""
    copy = PathManager.copy

    def copy_and_rename(source: str, target: str, overwrite: bool = False) -> Any:
        copied = copy(source, f"{target}.tmp", overwrite=True)
        os.replace(f"{target}.tmp", target)
        return copied

    PathManager.copy = staticmethod(copy_and_rename)


def fix_best_metric() -> None:
    """NaN never becomes the best metric: with it any later validation would replace ``checkpoint_best.pt``, and none
    would count as better for ``--patience``."""
    save_checkpoint, should_stop_early = checkpoint_utils.save_checkpoint, train.should_stop_early

    @wraps(save_checkpoint)
    def save_without_nan_as_best(cfg: Any, trainer: Any, epoch_itr: Any, metric: float | None, *args: Any) -> Any:
        is_usable = metric is not None and math.isfinite(metric)
        return save_checkpoint(cfg, trainer, epoch_itr, metric if is_usable else None, *args)

    @wraps(should_stop_early)
    def stop_with_nan_as_worst(cfg: Any, metric: float | None) -> bool:
        if metric is not None and not math.isfinite(metric):
            metric = -math.inf if cfg.checkpoint.maximize_best_checkpoint_metric else math.inf
        return bool(should_stop_early(cfg, metric))

    checkpoint_utils.save_checkpoint, train.should_stop_early = save_without_nan_as_best, stop_with_nan_as_worst


def fix_end_of_loading() -> None:
    """The thread that loads batches ahead ends before the interpreter: PyTorch aborts a thread that still works then
    ("terminate called without an active exception"), so that training that is complete would end with an error."""
    create, consumers = BufferedIterator._create_consumer, WeakSet[BackgroundConsumer]()

    @wraps(create)
    def create_and_remember(self: Any) -> None:
        create(self)
        consumers.add(self._consumer)

    def stop() -> None:
        for consumer in consumers:
            consumer._max_len = 0  # the batch that it is loading is its last
            while consumer.is_alive():
                with suppress(queue.Empty):  # it waits until there is room for the batch
                    consumer._queue.get_nowait()
                consumer.join(0.01)

    BufferedIterator._create_consumer = create_and_remember
    atexit.register(stop)
