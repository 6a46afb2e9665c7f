"""Two corrections of fairseq's iterator over epochs (``EpochBatchIterator``).

fairseq draws new masks for a sentence in each epoch (``MaskTokensDataset.set_epoch``; RoBERTa's dynamic masking), but
keeps the processes that load data (``--num-workers``, 1 by default) from one epoch to the next. Their copy of the
dataset stays in the first epoch: they repeat its masks, and a resumed run differs from one without a stop.

And a checkpoint records how many batches of an epoch each rank has had, but not how many ranks there were: another
number of ranks would repeat a part of the epoch, or skip it.
"""

from functools import wraps

from fairseq.data.iterators import EpochBatchIterator

SHARDS = "num_shards"
"""The number of ranks, in the state of the iterator that a checkpoint holds."""


def complete_epochs() -> None:
    """Start new data loaders in every epoch, and resume with any number of ranks."""
    construct = EpochBatchIterator.__init__
    state_dict, load_state_dict = EpochBatchIterator.state_dict, EpochBatchIterator.load_state_dict

    @wraps(construct)
    def construct_without_keeping(self, *args, **kwargs):
        construct(self, *args, **kwargs)
        self.reuse_dataloader = self.persistent_workers = False

    @wraps(state_dict)
    def state_with_shards(self):
        return {**state_dict(self), SHARDS: self.num_shards}

    @wraps(load_state_dict)
    def load_for_these_shards(self, state):
        # All batches of an epoch are in one order, and rank i of N has each N-th.
        done = state.get("iterations_in_epoch", 0) * state.get(SHARDS, self.num_shards)
        load_state_dict(self, {**state, "iterations_in_epoch": done // self.num_shards})

    EpochBatchIterator.__init__ = construct_without_keeping
    EpochBatchIterator.state_dict = state_with_shards
    EpochBatchIterator.load_state_dict = load_for_these_shards
