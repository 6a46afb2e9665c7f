"""Non-finite gradients: the error, or the log of a skipped update, names the update and its data.

fairseq stops, or skips the update and lowers the loss scale (``--fp16``, until ``--min-loss-scale``; ``--amp`` on a
GPU, after ``--amp-batch-retries``), and names neither.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any

import torch
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
        run, losses, updates = task.train_step, [], trainer.get_num_updates()

        def run_and_remember(*args: Any, **kwargs: Any) -> Any:
            result = run(*args, **kwargs)
            losses.append(result[0].detach())
            return result

        task.train_step = run_and_remember
        try:
            output = train_step(trainer, samples, *args, **kwargs)
        except FloatingPointError as error:
            data = describe_data(trainer, samples, losses)
            raise FloatingPointError(f"update {updates + 1}: {error}; {data}") from None
        finally:
            del task.train_step
        if trainer.get_num_updates() == updates:
            logger.warning("update %d is skipped; %s", updates + 1, describe_data(trainer, samples, losses))
        return output

    Trainer.get_train_iterator, Trainer.train_step = get_and_remember, step_or_describe


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
    described = [sample for _, sample in bad or numbered if isinstance(sample, Mapping) and "id" in sample]
    ids = [int(each) for sample in described for each in sample["id"].flatten()]
    listed = f" (samples {_join(ids)})" if ids else ""
    return f"epoch {itr.epoch}, iterations {numbered[0][0]} to {last}: {loss}{listed}"


def _join(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - MAX_IDS} more" if len(numbers) > MAX_IDS else ""
    return ", ".join(map(str, numbers[:MAX_IDS])) + more
