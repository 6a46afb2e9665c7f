"""Two things that fairseq's iterator over epochs (``EpochBatchIterator``) leaves out.

fairseq draws the masks of a sentence anew in each epoch (``MaskTokensDataset.set_epoch``; RoBERTa's dynamic masking),
but keeps the processes that load data (``--num-workers``, 1 by default) from one epoch to the next. Their copy of the
dataset never hears of the new epoch: they mask what they masked in the first, and a run that is stopped and goes on
does not do what one without a stop does.

And a checkpoint says how many batches of an epoch each process has had, but not how many processes there were: another
number of them would repeat a part of the epoch, or leave it out.
"""

from functools import wraps

from fairseq.data.iterators import EpochBatchIterator

SHARDS = "num_shards"
"""The processes, in the state of the iterator that a checkpoint holds."""


def complete_epochs() -> None:
    """Let every epoch start its own processes, which takes a moment, and let other processes go on where these were."""
    construct, state_dict, load_state_dict = (
        getattr(EpochBatchIterator, name) for name in ("__init__", "state_dict", "load_state_dict")
    )

    @wraps(construct)
    def construct_without_keeping(self, *args, **kwargs):
        construct(self, *args, **kwargs)
        self.reuse_dataloader = self.persistent_workers = False

    @wraps(state_dict)
    def state_with_shards(self):
        return {**state_dict(self), SHARDS: self.num_shards}

    @wraps(load_state_dict)
    def load_for_these_shards(self, state):
        # All batches of an epoch are in one order, and process i of N has each N-th: so many times N are done.
        done = state.get("iterations_in_epoch", 0) * state.get(SHARDS, self.num_shards)
        load_state_dict(self, {**state, "iterations_in_epoch": done // self.num_shards})

    EpochBatchIterator.__init__ = construct_without_keeping
    EpochBatchIterator.state_dict = state_with_shards
    EpochBatchIterator.load_state_dict = load_for_these_shards
