"""Adapter to ``transformers``: configuration, models and tokenizer around ``fairseq_linformer.modules``.

Importing it registers the Linformer with ``AutoModel`` and the other auto classes, without ``trust_remote_code``.
"""

import transformers
from transformers import AutoConfig, AutoTokenizer

from . import modeling_linformer
from .configuration_linformer import AUTO_MAP, LinformerPreTrainedConfig
from .exported_code import write_code
from .modeling_linformer import (
    LinformerForMaskedLM,
    LinformerForQuestionAnswering,
    LinformerForSequenceClassification,
    LinformerForTokenClassification,
    LinformerModel,
    LinformerPreTrainedModel,
)
from .tokenization_linformer import LinformerByteLevelTokenizer, LinformerTokenizer

# Saved folders hold the code, so that they load without this package.
LinformerPreTrainedConfig.write_code = staticmethod(write_code)

AutoConfig.register(LinformerPreTrainedConfig.model_type, LinformerPreTrainedConfig, exist_ok=True)
AutoTokenizer.register(LinformerPreTrainedConfig, LinformerTokenizer, LinformerByteLevelTokenizer, exist_ok=True)
for _auto, _path in AUTO_MAP.items():
    if _auto != "AutoConfig":
        _class = getattr(modeling_linformer, _path.rpartition(".")[2])
        getattr(transformers, _auto).register(LinformerPreTrainedConfig, _class, exist_ok=True)

__all__ = [
    "LinformerByteLevelTokenizer",
    "LinformerForMaskedLM",
    "LinformerForQuestionAnswering",
    "LinformerForSequenceClassification",
    "LinformerForTokenClassification",
    "LinformerModel",
    "LinformerPreTrainedConfig",
    "LinformerPreTrainedModel",
    "LinformerTokenizer",
]
