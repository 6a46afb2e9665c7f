"""An encoder of ``transformers``, its head of masked language modeling, and Linformers distilled from it.

FOLDER/starts/NAME-CHECKSUM/            of one encoder:
FOLDER/starts/NAME-CHECKSUM/model.pt    the encoder as a fairseq checkpoint, with dictionary and tokenizer
FOLDER/starts/NAME-CHECKSUM/MODEL/      a distilled Linformer, see ``training/linearize.py``
"""

from collections.abc import Iterator, Mapping
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from omegaconf import OmegaConf

from ..checkpoints.identify import identify
from ..checkpoints.models import build_model
from ..models.state_dicts import OUTPUT_EMBEDDINGS
from ..progress import progress_bar
from ..training.initial_checkpoint import open_initial_checkpoint
from ..training.linearize import Linearization, linearize
from .result import find_shards
from .run import Model


def open_encoder(encoder: str | None, n: int, folder: Path) -> Path:
    """The checkpoint of an encoder, converted unless it is in the folder; ValueError if it has fewer than n
    positions."""
    torch.manual_seed(1)  # of a new head of masked language modeling
    start = open_initial_checkpoint(identify(encoder), folder)
    if start.max_positions < n:
        raise ValueError(f"--encoder must have at least {n} positions, got {start.max_positions}")
    return start.path


def distill(
    model: Model, training: Mapping[str, Any], text: Path, encoder: Path, name: str = ""
) -> tuple[Path, dict[str, Any]]:
    """Distill a Linformer from the checkpoint of an encoder, unless it is next to it; its folder and report.

    Args:
        training: options of ``Linearization``.
        name: of the folder; by default the model's.
    """
    shard, out = find_shards(text, single=True)[0], encoder.parent / (name or model.name)
    return out, linearize(Linearization(str(encoder), str(shard), model.options, **training), out)


# A head of masked language modeling, trained on the features of the frozen encoder


PREFIX = "encoder.lm_head."
"""Names of the head's parameters begin with it; the output embeddings, tied to those of the input, stay frozen."""
SEED = 1
"""Seed of the order and masks of the blocks."""
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
