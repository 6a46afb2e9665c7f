"""The fairseq adapter: ``linformer_roberta`` around ``fairseq_linformer.modules``."""

from .linformer_roberta import LinformerRobertaEncoder, LinformerRobertaModel
from .options import ARCHITECTURES, LinformerRobertaConfig

__all__ = [
    "ARCHITECTURES",
    "LinformerRobertaConfig",
    "LinformerRobertaEncoder",
    "LinformerRobertaModel",
]
