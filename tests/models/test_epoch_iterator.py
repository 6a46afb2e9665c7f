"""Masks differ between epochs, with and without data loader workers."""

import pytest
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
