"""Three fixes for fairseq's iterator over epochs (``EpochBatchIterator``).

fairseq draws new masks for a sentence in each epoch (``MaskTokensDataset.set_epoch``; RoBERTa's dynamic masking), but
reuses the data loader's workers (``--num-workers``, 1 by default) across epochs. Their copy of the dataset stays in the
first epoch: they repeat its masks, and a resumed run differs from an uninterrupted one.

A checkpoint records how many batches of the epoch each rank has read, but not the number of ranks: resuming with a
different number would repeat or skip a part of the epoch.

fairseq drops the last batch of an epoch unless its size is a multiple of ``--required-batch-size-multiple``, 8 by
default. If no batch is left, or no sample is short enough, it fails with a traceback.
"""

from functools import wraps
from typing import Any

import numpy as np
from fairseq.data import data_utils
from fairseq.data.iterators import EpochBatchIterator

NUM_RANKS_KEY = "num_shards"
"""Key of the number of ranks in the iterator's state, in checkpoints."""


def patch_epoch_iterator() -> None:
    """Start new data loader workers in each epoch, allow resuming with any number of ranks, and explain a missing
    batch."""
    init = EpochBatchIterator.__init__
    state_dict, load_state_dict = EpochBatchIterator.state_dict, EpochBatchIterator.load_state_dict
    first_batch, batch_by_size = EpochBatchIterator.first_batch.fget, data_utils.batch_by_size

    @wraps(init)
    def init_without_reuse(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.reuse_dataloader = self.persistent_workers = False

    @wraps(state_dict)
    def state_dict_with_ranks(self: Any) -> dict[str, Any]:
        return {**state_dict(self), NUM_RANKS_KEY: self.num_shards}

    @wraps(load_state_dict)
    def load_state_dict_with_ranks(self: Any, state: dict[str, Any]) -> None:
        # The batches of an epoch have one order, and each of N ranks takes every N-th.
        num_batches = state.get("iterations_in_epoch", 0) * state.get(NUM_RANKS_KEY, self.num_shards)
        load_state_dict(self, {**state, "iterations_in_epoch": num_batches // self.num_shards})

    def first_batch_or_reason(self: Any) -> Any:
        if not self.frozen_batches:
            raise ValueError(
                f"no batch can be formed from {len(self.dataset)} samples: all are too long, or there are fewer than "
                "--required-batch-size-multiple"
            )
        return first_batch(self)

    @wraps(batch_by_size)
    def batch_any_number(indices: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, np.int64)  # an iterator has no length
        return batch_by_size(indices, *args, **kwargs) if len(indices) else []

    EpochBatchIterator.__init__ = init_without_reuse
    EpochBatchIterator.state_dict = state_dict_with_ranks
    EpochBatchIterator.load_state_dict = load_state_dict_with_ranks
    EpochBatchIterator.first_batch = property(first_batch_or_reason)
    data_utils.batch_by_size = batch_any_number
