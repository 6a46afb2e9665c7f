"""Training that runs out of memory ends with one sentence."""

import pytest
import torch
from fairseq.criterions.masked_lm import MaskedLmLoss
from fairseq.trainer import Trainer

from fairseq_linformer.training.out_of_memory import OutOfMemory, end_when_out_of_memory

from ..fairseq_commands import train

CUDA_ERROR = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 15.77 GiB of which ..."


@pytest.mark.slow
def test_training_ends_at_the_first_batch(mlm_data, tmp_path, monkeypatch):
    """Without the wrapper fairseq skips every batch, in one epoch after another."""
    batches = []

    def fail(self, model, sample, reduce=True):
        batches.append(sample)
        if len(batches) > 20:  # fairseq goes on
            raise KeyboardInterrupt
        raise torch.OutOfMemoryError(CUDA_ERROR)

    monkeypatch.setattr(MaskedLmLoss, "forward", fail)
    monkeypatch.setattr(Trainer, "train_step", end_when_out_of_memory(Trainer.train_step))
    with pytest.raises(OutOfMemory) as caught:
        train(mlm_data, tmp_path)
    assert str(caught.value) == (
        "update 1: the memory is full: allocating 2.50 GiB failed for a micro-batch of 8 sequences of 16 tokens; lower "
        "dataset.batch_size and raise optimization.update_freq by the same factor, or set "
        "++model.checkpoint_activations=true"
    )
    assert len(batches) == 1


def test_other_errors_pass():
    def fail(*_, **__):
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        end_when_out_of_memory(fail)(None, [])
