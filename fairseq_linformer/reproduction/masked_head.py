"""A head of masked language modeling for an encoder that has none, trained on the features of the frozen encoder."""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from omegaconf import OmegaConf

from ..checkpoints.models import build_model
from ..models.state_dicts import OUTPUT_EMBEDDINGS
from ..progress import progress_bar

PREFIX = "encoder.lm_head."
"""Of the names of the head's parameters, of which the output embeddings, tied to those of the input, stay frozen."""
SEED = 1
"""Of the order and masks of the blocks."""
WARMUP = 0.05
"""Share of the updates with learning rate warmup; then it decays linearly to zero."""


def train_head(
    checkpoint: dict[str, Any], text: Path, n: int, updates: int, batch_size: int, lr: float, amp: bool
) -> dict[str, Any]:
    """Train the dense layer, the norm and the bias of the head.

    Args:
        checkpoint: of an encoder with a head, trained or not.
        text: data folder with ``dict.txt`` and the split ``train``.
        n: tokens per block.
        batch_size: blocks per update.
        lr: peak learning rate of Adam.
        amp: compute in bf16.

    Returns:
        The checkpoint with the trained head; all other weights are the same.
    """
    torch.manual_seed(SEED)
    model = build_model(checkpoint).eval().requires_grad_(False)
    trained = {name: p for name, p in model.named_parameters() if name.startswith(PREFIX) and name != OUTPUT_EMBEDDINGS}
    for parameter in trained.values():
        parameter.requires_grad_()
    optimizer = torch.optim.AdamW(trained.values(), lr, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.0)
    warmup = max(1, round(WARMUP * updates))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda update: min((update + 1) / warmup, (updates - update) / max(1, updates - warmup))
    )
    with progress_bar("head", updates, "update") as progress:
        for tokens, is_masked, targets in islice(_batches(text, n, batch_size), updates):
            with torch.autocast("cpu", torch.bfloat16, enabled=amp):
                features, _ = model(tokens, features_only=True)
                logits = model.encoder.output_layer(features, masked_tokens=is_masked)
            optimizer.zero_grad()
            F.cross_entropy(logits.float(), targets).backward()
            optimizer.step()
            schedule.step()
            progress.update(1)
    state = {**checkpoint["model"], **{name: p.detach().clone() for name, p in trained.items()}}
    provenance = checkpoint.get("provenance", {})
    imported = {**provenance.get("imported", {}), "lm_head": f"trained for {updates:,} updates, encoder frozen"}
    return {**checkpoint, "model": state, "provenance": {**provenance, "imported": imported}}


def _batches(text: Path, n: int, batch_size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Masked blocks and where they are masked, (B, n), and the original IDs there, (M,); epoch after epoch."""
    task = MaskedLMTask.setup_task(OmegaConf.structured(MaskedLMConfig(data=str(text), tokens_per_sample=n, seed=SEED)))
    task.load_dataset("train")
    for epoch in count(1):
        iterator = task.get_batch_iterator(task.dataset("train"), max_sentences=batch_size, seed=SEED, epoch=epoch)
        for sample in iterator.next_epoch_itr(shuffle=True):
            is_masked = sample["target"].ne(task.source_dictionary.pad())
            if is_masked.any():
                yield sample["net_input"]["src_tokens"], is_masked, sample["target"][is_masked]
