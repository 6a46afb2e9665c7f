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
for _auto, _class in (
    (AutoTokenizer, LinformerTokenizer),
    (AutoModel, LinformerModel),
    (AutoModelForMaskedLM, LinformerForMaskedLM),
    (AutoModelForSequenceClassification, LinformerForSequenceClassification),
):
    _auto.register(LinformerPreTrainedConfig, _class, exist_ok=True)

__all__ = [
    "LinformerForMaskedLM", "LinformerForSequenceClassification", "LinformerModel", "LinformerPreTrainedConfig",
    "LinformerPreTrainedModel", "LinformerTokenizer", "write_code",
]  # fmt: skip
