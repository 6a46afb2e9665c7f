"""Non-finite gradients and validation losses: the error or the log names the update and its data.

With non-finite gradients fairseq stops, or skips the update and lowers the loss scale (``--fp16``, until
``--min-loss-scale``; ``--amp`` on a GPU, after ``--amp-batch-retries``), without naming the update or its samples. A
non-finite validation loss passes unnoticed, and NaN as the best metric lets any later validation replace
``checkpoint_best.pt``.
"""

import logging
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

logger = logging.getLogger(__name__)

MAX_IDS = 64
"""Number of samples that are listed."""


def patch_training_step() -> None:
    """Let ``Trainer.train_step`` describe the update that it rejects or skips."""
    get_train_iterator, train_step = Trainer.get_train_iterator, Trainer.train_step

    @wraps(get_train_iterator)
    def get_and_remember(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        trainer.linformer_epoch_itr = get_train_iterator(trainer, *args, **kwargs)
        return trainer.linformer_epoch_itr

    @wraps(train_step)
    def step_or_describe(trainer: Any, samples: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        task = trainer.task
        if "train_step" in vars(task):  # --amp repeats the update from within
            return train_step(trainer, samples, *args, **kwargs)
        updates = trainer.get_num_updates()
        with _recorded_losses(task, "train_step") as losses:
            try:
                output = train_step(trainer, samples, *args, **kwargs)
            except FloatingPointError as error:
                data = describe_data(trainer, samples, losses)
                raise FloatingPointError(f"update {updates + 1}: {error}; {data}") from None
        if trainer.get_num_updates() == updates:
            logger.warning("update %d is skipped; %s", updates + 1, describe_data(trainer, samples, losses))
        return output

    Trainer.get_train_iterator, Trainer.train_step = get_and_remember, step_or_describe


def patch_validation() -> None:
    """Warn of the first non-finite loss of each validation subset, and choose no best checkpoint by such a subset.

    For ``--patience``, its metric is worse than any other; fairseq takes a first NaN as the best metric, and then stops
    although later validations are better. A loss is that of all ranks, so they agree; the ranks whose own loss is
    non-finite warn.
    """
    begin_valid_epoch, get_valid_iterator = Trainer.begin_valid_epoch, Trainer.get_valid_iterator
    valid_step, save_checkpoint = Trainer.valid_step, checkpoint_utils.save_checkpoint
    init = Trainer.__init__

    @wraps(init)
    def init_and_patch(trainer: Any, *args: Any, **kwargs: Any) -> None:
        init(trainer, *args, **kwargs)
        for name in ("fairseq_cli.train", "__main__"):  # imported before this module or after it
            if hasattr(sys.modules.get(name), "should_stop_early"):
                _patch_validate(sys.modules[name])

    @wraps(begin_valid_epoch)
    def begin_and_forget(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        trainer.linformer_valid = {}
        return begin_valid_epoch(trainer, *args, **kwargs)

    @wraps(get_valid_iterator)
    def get_and_remember(trainer: Any, subset: str, *args: Any, **kwargs: Any) -> Any:
        vars(trainer).setdefault("linformer_valid", {})[subset] = True  # fairseq-train also calls it before training
        return get_valid_iterator(trainer, subset, *args, **kwargs)

    @wraps(valid_step)
    def step_and_warn(trainer: Any, sample: Any, *args: Any, **kwargs: Any) -> Any:
        task = trainer.task
        if "valid_step" in vars(task):  # fairseq repeats the step from within, after running out of memory
            return valid_step(trainer, sample, *args, **kwargs)
        with _recorded_losses(task, "valid_step") as losses:
            output = valid_step(trainer, sample, *args, **kwargs)
        is_finite = vars(trainer).setdefault("linformer_valid", {})
        subset = next(reversed(is_finite), "")
        # Without samples (no token is masked) fairseq computes 0 / 0, which it ignores.
        if is_finite.get(subset, True) and output.get("sample_size", 0) and not math.isfinite(output.get("loss", 0)):
            is_finite[subset] = False
            if sample and not bool(losses[-1].isfinite().all()):
                where = f"update {trainer.get_num_updates()}: non-finite validation loss in {subset}"
                chosen = "; no best checkpoint is chosen" if len(is_finite) == 1 else ""
                logger.warning("%s%s%s", where, _list_ids([sample]), chosen)
        return output

    @wraps(save_checkpoint)
    def save_without_nan_as_best(cfg: Any, trainer: Any, epoch_itr: Any, val_loss: Any, *args: Any) -> Any:
        is_usable = val_loss is not None and _is_usable(trainer, val_loss)
        return save_checkpoint(cfg, trainer, epoch_itr, val_loss if is_usable else None, *args)

    Trainer.__init__ = init_and_patch
    Trainer.begin_valid_epoch, Trainer.get_valid_iterator = begin_and_forget, get_and_remember
    Trainer.valid_step, checkpoint_utils.save_checkpoint = step_and_warn, save_without_nan_as_best


def _patch_validate(program: Any) -> None:
    """Let ``validate`` of fairseq-train return the worst metric of a first subset whose loss is non-finite."""
    validate = program.validate
    if getattr(validate, "returns_worst", False):  # patched for an earlier trainer
        return

    @wraps(validate)
    def validate_or_worst(cfg: Any, trainer: Any, *args: Any, **kwargs: Any) -> list[float]:
        first, *others = validate(cfg, trainer, *args, **kwargs)
        worst = -math.inf if cfg.checkpoint.maximize_best_checkpoint_metric else math.inf
        return [first if _is_usable(trainer, first) else worst, *others]

    validate_or_worst.returns_worst = True  # type: ignore[attr-defined]
    program.validate = validate_or_worst


def _is_usable(trainer: Any, metric: float) -> bool:
    """Whether the metric of the first subset may select a checkpoint; the accuracy of NaN logits is finite, too."""
    return math.isfinite(metric) and next(iter(getattr(trainer, "linformer_valid", {}).values()), True)


@contextmanager
def _recorded_losses(task: Any, step: str) -> Iterator[list[torch.Tensor]]:
    """The losses that ``task.train_step`` or ``task.valid_step`` returns in the block."""
    run, losses = getattr(task, step), []

    def run_and_remember(*args: Any, **kwargs: Any) -> Any:
        result = run(*args, **kwargs)
        losses.append(result[0].detach())
        return result

    setattr(task, step, run_and_remember)
    try:
        yield losses
    finally:
        delattr(task, step)


def describe_data(trainer: Any, samples: Sequence[Any], losses: Sequence[torch.Tensor]) -> str:
    """Epoch, iterations and sample IDs of this rank's micro-batches: of those with a non-finite loss, if any.

    Args:
        samples: the micro-batches of an update, just read.
        losses: a loss for each, then any of repetitions; shorter if one failed.
    """
    itr = trainer.linformer_epoch_itr
    last = itr.iterations_in_epoch
    numbered = list(enumerate(samples, last - len(samples) + 1))
    is_finite = [bool(loss.isfinite().all()) for loss in losses[: len(samples)]]
    # A dummy batch, of a rank that has no more data, has no effect.
    bad = [pair for pair, finite in zip(numbered, is_finite, strict=False) if pair[1] and not finite]
    loss = f"non-finite loss in {_join([number for number, _ in bad])}" if bad else "finite loss"
    listed = _list_ids([sample for _, sample in bad or numbered])
    return f"epoch {itr.epoch}, iterations {numbered[0][0]} to {last}: {loss}{listed}"


def _list_ids(samples: Sequence[Any]) -> str:
    described = [sample for sample in samples if isinstance(sample, Mapping) and "id" in sample]
    ids = [int(each) for sample in described for each in sample["id"].flatten()]
    return f" (samples {_join(ids)})" if ids else ""


def _join(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - MAX_IDS} more" if len(numbers) > MAX_IDS else ""
    return ", ".join(map(str, numbers[:MAX_IDS])) + more
