"""Variants of configs/pretrain/base.yaml."""

from functools import cache

from fairseq_linformer.training.planned_run import PlannedRun, read_run

from ..fairseq_commands import CONFIGS

PRETRAIN = CONFIGS / "pretrain"
BASE = PRETRAIN / "base.yaml"
TOKENS = 1_048_576
"""Tokens per update: 2,048 sequences of 512 (fairseq's recipe of RoBERTa-base on its 8 GPUs)."""


@cache
def base_run(n: int = 512, sharing: str | None = "layerwise", *overrides: str) -> PlannedRun:
    """The base at another n and sharing, with the same tokens per update; RoBERTa if sharing is None."""
    batch = max(1, 8192 // n)
    words = [
        f"task.tokens_per_sample={n}",
        f"dataset.batch_size={batch}",
        f"optimization.update_freq=[{TOKENS // n // batch}]",
    ]
    roberta = ["model._name=roberta_base", "model.projected_dim=null", "model.sharing=null"]
    return read_run(BASE, [*words, *([f"model.sharing={sharing}"] if sharing else roberta), *overrides])
