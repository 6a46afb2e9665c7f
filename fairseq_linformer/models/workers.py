"""Other masks in each epoch, also where processes of their own load the data.

fairseq draws the masks of a sentence anew in each epoch (``MaskTokensDataset.set_epoch``; RoBERTa's
dynamic masking), but keeps the processes that load data (``--num-workers``, 1 by default) from one
epoch to the next. Their copy of the dataset never hears of the new epoch: they mask what they masked
in the first, and a run that is stopped and goes on does not do what one without a stop does.
"""

from functools import wraps

from fairseq.data.iterators import EpochBatchIterator


def start_workers_in_each_epoch() -> None:
    """Let every epoch start its own processes, which takes a moment."""
    construct = EpochBatchIterator.__init__

    @wraps(construct)
    def construct_without_keeping(self, *args, **kwargs):
        construct(self, *args, **kwargs)
        self.reuse_dataloader = self.persistent_workers = False

    EpochBatchIterator.__init__ = construct_without_keeping
