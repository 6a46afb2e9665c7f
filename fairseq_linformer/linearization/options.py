"""Options of ``linearize``."""

import math
from dataclasses import dataclass
from typing import Any

import torch

from ..training.job import DEVICES

TRAINING_OPTIONS = ("batch_size", "lr", "short_seq_prob", "amp")
"""Options that have no effect without updates."""
SHORT_SEQ_PROB = 0.5
"""Default probability that a batch is split into shorter blocks."""


@dataclass(frozen=True)
class Linearization:
    """Options of ``linearize``: source, text, Linformer and training.

    Attributes:
        source: name on the hub, folder of ``transformers``, or fairseq checkpoint of a RoBERTa.
        text: data folder of ``prepare pretraining`` (``dict.txt``, train and valid), with the source's tokenizer.
        model: options of the Linformer, as for ``to_linformer``.
        tokens_per_sample: tokens per block; None for the model's n.
        batch_size: blocks per update.
        max_update: number of updates; 0 converts without training.
        lr: peak learning rate; it decays linearly to 0.
        short_seq_prob: probability that a batch is split into shorter blocks, see ``distillation/short_blocks.py``.
        seed: seed of new parameters and of the order of the blocks.
        device: ``cpu`` or ``cuda``.
        amp: train in mixed precision, with bf16 on a CPU and fp16 on a GPU.
        measure_at: updates after which the explained variance is measured too, ascending multiples of the first; a
            checkpoint is kept at each multiple and at the end of each epoch.

    Raises:
        ValueError: a value is out of range.
    """

    source: str
    text: str
    model: dict[str, Any]
    tokens_per_sample: int | None = None
    batch_size: int = 16
    max_update: int = 1000
    lr: float = 2e-4
    short_seq_prob: float = SHORT_SEQ_PROB
    seed: int = 1
    device: str = "cpu"
    amp: bool = False
    measure_at: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, lowest in (("batch_size", 1), ("max_update", 0)):
            if getattr(self, name) < lowest:
                raise ValueError(f"{name} must be at least {lowest}, got {getattr(self, name)}")
        if self.measure_at and not self.max_update:
            raise ValueError(f"measure_at must be empty without updates, got {self.measure_at}")
        if list(self.measure_at) != sorted({u for u in self.measure_at if 0 < u < self.max_update}):
            raise ValueError(
                f"measure_at must be ascending and between 1 and {self.max_update - 1}, got {self.measure_at}"
            )
        if any(update % self.measure_at[0] for update in self.measure_at):
            raise ValueError(f"measure_at must be multiples of its first value, got {self.measure_at}")
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr must be a finite number above 0, got {self.lr}")
        if not 0 <= self.short_seq_prob < 1:
            raise ValueError(f"short_seq_prob must be in [0, 1), got {self.short_seq_prob}")
        if not 0 <= self.seed < 1 << 32:
            raise ValueError(f"seed must be between 0 and {(1 << 32) - 1}, got {self.seed}")
        if self.device not in DEVICES:
            raise ValueError(f"device must be one of {', '.join(DEVICES)}, got {self.device}")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device must be cpu if PyTorch sees no GPU, got cuda")
        if self.tokens_per_sample is not None and self.tokens_per_sample < 2:
            raise ValueError(f"tokens_per_sample must be at least 2, got {self.tokens_per_sample}")
