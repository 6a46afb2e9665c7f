"""The fairseq adapter: ``linformer_roberta`` around ``fairseq_linformer.modules``."""

import torch

from .distillation import DistillationConfig, DistillationCriterion
from .fairseq_fixes import replace_eval
from .linformer_roberta import LinformerRobertaEncoder, LinformerRobertaModel
from .optimizer import FusedAdam
from .options import ARCHITECTURES, LinformerRobertaConfig

if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 9):
    raise ImportError(f"fairseq-linformer needs PyTorch 2.9 or newer, got {torch.__version__}")

replace_eval()  # in all modules of fairseq, which are imported now

__all__ = [
    "ARCHITECTURES",
    "DistillationConfig",
    "DistillationCriterion",
    "FusedAdam",
    "LinformerRobertaConfig",
    "LinformerRobertaEncoder",
    "LinformerRobertaModel",
]
