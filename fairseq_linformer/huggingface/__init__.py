"""The adapter to ``transformers``: configuration, models and tokenizer around ``fairseq_linformer.modules``.

Importing this makes ``AutoModel`` and the others know a Linformer, without ``trust_remote_code``.
"""

from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from .code import write_code
from .configuration_linformer import LinformerPreTrainedConfig
from .modeling_linformer import (
    LinformerForMaskedLM, LinformerForSequenceClassification, LinformerModel, LinformerPreTrainedModel,
)  # fmt: skip
from .tokenization_linformer import LinformerTokenizer

# What these classes save can be loaded where this package is not installed.
LinformerPreTrainedModel.write_code = staticmethod(write_code)

AutoConfig.register(LinformerPreTrainedConfig.model_type, LinformerPreTrainedConfig, exist_ok=True)
AutoTokenizer.register(LinformerPreTrainedConfig, LinformerTokenizer, exist_ok=True)
AutoModel.register(LinformerPreTrainedConfig, LinformerModel, exist_ok=True)
AutoModelForMaskedLM.register(LinformerPreTrainedConfig, LinformerForMaskedLM, exist_ok=True)
AutoModelForSequenceClassification.register(
    LinformerPreTrainedConfig, LinformerForSequenceClassification, exist_ok=True
)

__all__ = [
    "LinformerForMaskedLM",
    "LinformerForSequenceClassification",
    "LinformerModel",
    "LinformerPreTrainedConfig",
    "LinformerPreTrainedModel",
    "LinformerTokenizer",
    "write_code",
]
