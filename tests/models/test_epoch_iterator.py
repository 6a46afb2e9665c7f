"""Masks differ between epochs, with and without data loader workers; a split without a batch has a reason."""

import pytest
from fairseq.data import EpochBatchIterator, ListDataset, data_utils
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

import fairseq_linformer.models  # noqa: F401  (what --user-dir imports)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_masks_differ_between_epochs(mlm_data, workers):
    task = MaskedLMTask.setup_task(
        MaskedLMConfig(
            data=mlm_data, tokens_per_sample=16, sample_break_mode="complete", seed=1, shorten_data_split_list=""
        )
    )
    task.load_dataset("train")
    batches = task.get_batch_iterator(task.datasets["train"], max_sentences=8, num_workers=workers, data_buffer_size=0)
    masked = [
        {
            int(i): tuple(row.tolist())
            for batch in batches.next_epoch_itr(shuffle=False)
            for i, row in zip(batch["id"], batch["net_input"]["src_tokens"])
        }
        for _ in range(2)
    ]
    assert masked[0].keys() == masked[1].keys() and len(masked[0]) > 50
    assert sum(masked[0][i] != masked[1][i] for i in masked[0]) > 0.9 * len(masked[0])


@pytest.mark.parametrize("samples, batches", [(0, 0), (7, 0), (8, 1)])
def test_split_without_a_batch_is_explained(samples, batches):
    """fairseq drops a batch of 7 if its size must be a multiple of 8."""
    options = dict(max_sentences=8, required_batch_size_multiple=8)
    sampler = data_utils.batch_by_size(range(samples), lambda i: 4, **options)
    iterator = EpochBatchIterator(ListDataset(range(samples)), list, sampler)
    assert len(iterator) == batches
    if batches:
        assert len(iterator.first_batch) == samples
    else:
        with pytest.raises(ValueError, match=f"no batch can be formed from {samples} samples: all are"):
            iterator.first_batch
