"""Training that runs out of memory ends with one sentence."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.masked_lm import MaskedLmLoss
from fairseq.trainer import Trainer
from fairseq_linformer.training.out_of_memory import OutOfMemory, end_when_out_of_memory

from fairseq_linformer.training.compose import compose_config

from ..fairseq_commands import train

CUDA_ERROR = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 15.77 GiB of which ..."


def raise_error(*_, **__):
    raise torch.OutOfMemoryError(CUDA_ERROR)


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


def test_message_has_the_plan_for_this_gpu(monkeypatch):
    device = SimpleNamespace(name="Tesla V100", total_memory=16 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: device)
    cfg = compose_config("configs/pretrain/base.yaml", ["+run=n512-k256-layerwise", "task.data=nowhere"])
    trainer = SimpleNamespace(cuda=True, device="cuda:0", cfg=cfg, get_num_updates=lambda: 7)
    samples = [{"net_input": {"src_tokens": torch.zeros(64, 512)}}, {}, "DUMMY"]
    with pytest.raises(OutOfMemory, match="update 8: .* of 64 sequences of 512 tokens") as caught:
        end_when_out_of_memory(raise_error)(trainer, samples)
    assert "; on Tesla V100 (16 GiB) the planner expects " in str(caught.value)
    assert "out of memory" not in str(caught.value)
    trainer.cfg.common.amp = True  # which the planner does not cover
    with pytest.raises(OutOfMemory) as caught:
        end_when_out_of_memory(raise_error)(trainer, samples)
    assert "planner" not in str(caught.value)


def test_other_errors_pass():
    def fail(*_, **__):
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        end_when_out_of_memory(fail)(None, [])
