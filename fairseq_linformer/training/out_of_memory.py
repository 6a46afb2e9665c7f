"""Training that runs out of GPU memory ends with one sentence. fairseq would skip every batch that does not fit, and
never end. (A CPU's allocator fails with other words, which fairseq does not catch.)
"""

import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

_REQUEST = re.compile(r"Tried to allocate ([\d.]+ \w+)")


class OutOfMemory(RuntimeError):
    """A batch does not fit. The message has no ``out of memory``, which fairseq would catch."""


def end_when_out_of_memory(train_step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Trainer.train_step`` to raise ``OutOfMemory`` instead of skipping the batch."""

    @wraps(train_step)
    def wrapped(trainer: Any, samples: Sequence[Any], raise_oom: bool = False) -> Any:
        try:
            return train_step(trainer, samples, raise_oom=True)
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            if "out of memory" not in str(error):
                raise
            raise OutOfMemory(_explain(trainer, samples, str(error))) from None

    return wrapped


def _explain(trainer: Any, samples: Sequence[Any], error: str) -> str:
    """The message: the allocation that failed, its batch, and which options help."""
    found = _REQUEST.search(error)
    request = f"allocating {found[1]} failed" if found else "an allocation failed"
    shapes = [
        tuple(sample["net_input"]["src_tokens"].shape) for sample in samples if isinstance(sample, dict) and sample
    ]
    batch = ""
    if shapes:
        sequences, length = max(shapes, key=lambda shape: shape[0] * shape[1])
        batch = f" for a micro-batch of {sequences} sequences of {length:,} tokens"
    return (
        f"update {trainer.get_num_updates() + 1}: the memory is full: {request}{batch}; lower "
        "dataset.batch_size and raise optimization.update_freq by the same factor, or set "
        "++model.checkpoint_activations=true"
    )
