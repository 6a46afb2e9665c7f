"""A head of masked language modeling for an encoder that has none, trained on the features of the frozen encoder."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from omegaconf import OmegaConf

from ..checkpoints.models import build_model
from ..models.shapes import OUTPUT_EMBEDDINGS
from ..progress import progress_bar

PREFIX = "encoder.lm_head."
"""Prefix of the names of the head's parameters."""
TIED = OUTPUT_EMBEDDINGS
"""Name of the output embeddings, which are tied to those of the input, and frozen with the encoder."""
WARMUP = 0.05
"""Share of the updates with learning rate warmup; then it decays linearly to zero."""


@dataclass(frozen=True)
class HeadTraining:
    """
    Attributes:
        n: tokens per block.
        updates: number of updates.
        batch_size: blocks per update.
        lr: peak learning rate of Adam.
        amp: compute in bf16.
        seed: of the blocks' order and masks.
    """

    n: int
    updates: int
    batch_size: int
    lr: float
    amp: bool
    seed: int = 1


def train_head(checkpoint: dict[str, Any], text: Path, options: HeadTraining) -> dict[str, Any]:
    """Train the dense layer, the norm and the bias of the head.

    Args:
        checkpoint: of ``roberta`` or ``roberta_eps``, with a head, trained or not.
        text: data folder with ``dict.txt`` and the split ``train``.

    Returns:
        The checkpoint with the trained head; all other weights are the same.

    Raises:
        ValueError: the text has no masked token.
    """
    torch.manual_seed(options.seed)
    model = build_model(checkpoint).eval().requires_grad_(False)
    trained = {name: p for name, p in model.named_parameters() if name.startswith(PREFIX) and name != TIED}
    for parameter in trained.values():
        parameter.requires_grad_()
    optimizer = torch.optim.AdamW(trained.values(), options.lr, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.0)
    warmup = max(1, round(WARMUP * options.updates))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda update: min((update + 1) / warmup, (options.updates - update) / max(1, options.updates - warmup)),
    )
    with progress_bar("head", options.updates, "update") as progress:
        for tokens, is_masked, targets in islice(_batches(text, options), options.updates):
            with torch.autocast("cpu", torch.bfloat16, enabled=options.amp):
                features, _ = model(tokens, features_only=True)
                logits = model.encoder.output_layer(features, masked_tokens=is_masked)
            optimizer.zero_grad()
            F.cross_entropy(logits.float(), targets).backward()
            optimizer.step()
            schedule.step()
            progress.update(1)
    state = {**checkpoint["model"], **{name: p.detach().clone() for name, p in trained.items()}}
    provenance = checkpoint.get("provenance", {})
    imported = {**provenance.get("imported", {}), "lm_head": f"trained for {options.updates:,} updates, encoder frozen"}
    return {**checkpoint, "model": state, "provenance": {**provenance, "imported": imported}}


def _batches(text: Path, options: HeadTraining) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Masked blocks and where they are masked, (B, n), and the original IDs there, (M,); epoch after epoch."""
    config = MaskedLMConfig(data=str(text), tokens_per_sample=options.n, seed=options.seed)
    task = MaskedLMTask.setup_task(OmegaConf.structured(config))
    task.load_dataset("train")
    for epoch in count(1):
        iterator = task.get_batch_iterator(
            task.dataset("train"), max_sentences=options.batch_size, seed=options.seed, epoch=epoch
        )
        has_masked = False
        for sample in iterator.next_epoch_itr(shuffle=True):
            is_masked = sample["target"].ne(task.source_dictionary.pad())
            if is_masked.any():
                has_masked = True
                yield sample["net_input"]["src_tokens"], is_masked, sample["target"][is_masked]
        if not has_masked:
            raise ValueError(f"train of {text} is too short: none of its tokens is masked")
