"""Variants of configs/pretrain/base.yaml."""

from functools import lru_cache
from typing import Optional

from fairseq_linformer.planning.configs import Run, read_run

from ..stock import CONFIGS

PRETRAIN = CONFIGS / "pretrain"
BASE = PRETRAIN / "base.yaml"
TOKENS = 1_048_576
"""Of an update: 2,048 sequences of 512 (fairseq's recipe of RoBERTa-base on its 8 GPUs)."""


@lru_cache(maxsize=None)
def at(n: int = 512, sharing: Optional[str] = "layerwise", *overrides: str) -> Run:
    """The base at another n and sharing, of the same tokens per update; with sharing None it is RoBERTa."""
    batch = max(1, 8192 // n)
    words = [f"task.tokens_per_sample={n}", f"dataset.batch_size={batch}",
             f"optimization.update_freq=[{TOKENS // n // batch}]"]  # fmt: skip
    roberta = ["model._name=roberta_base", "model.projected_dim=null", "model.sharing=null"]
    return read_run(BASE, [*words, *([f"model.sharing={sharing}"] if sharing else roberta), *overrides])
