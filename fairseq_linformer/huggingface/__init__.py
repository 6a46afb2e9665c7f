"""Adapter to ``transformers``: configuration, models and tokenizer around ``fairseq_linformer.modules``.

Importing it registers the Linformer with ``AutoModel`` and the other auto classes, without ``trust_remote_code``.
"""

from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from .configuration_linformer import LinformerPreTrainedConfig
from .exported_code import write_code
from .modeling_linformer import (
    LinformerForMaskedLM,
    LinformerForSequenceClassification,
    LinformerModel,
    LinformerPreTrainedModel,
)
from .tokenization_linformer import LinformerTokenizer

# Saved folders hold the code, so that they load without this package.
LinformerPreTrainedModel.write_code = staticmethod(write_code)

AutoConfig.register(LinformerPreTrainedConfig.model_type, LinformerPreTrainedConfig, exist_ok=True)
for _auto, _class in (
    (AutoTokenizer, LinformerTokenizer),
    (AutoModel, LinformerModel),
    (AutoModelForMaskedLM, LinformerForMaskedLM),
    (AutoModelForSequenceClassification, LinformerForSequenceClassification),
):
    _auto.register(LinformerPreTrainedConfig, _class, exist_ok=True)

__all__ = [
    "LinformerForMaskedLM",
    "LinformerForSequenceClassification",
    "LinformerModel",
    "LinformerPreTrainedConfig",
    "LinformerPreTrainedModel",
    "LinformerTokenizer",
    "write_code",
]
