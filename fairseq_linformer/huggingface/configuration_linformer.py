"""The shape of a Linformer as a configuration of ``transformers``.

This file is copied into exported folders: it needs ``transformers`` and the files beside it.
"""

from dataclasses import MISSING, asdict, fields
from typing import Any, Dict, Optional

from transformers import PreTrainedConfig

from ..config import HeadConfig, LinformerConfig, check_values

AUTO_MAP = {
    "AutoConfig": "configuration_linformer.LinformerPreTrainedConfig",
    "AutoModel": "modeling_linformer.LinformerModel",
    "AutoModelForMaskedLM": "modeling_linformer.LinformerForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_linformer.LinformerForSequenceClassification",
}
"""Which class of which file in an exported folder ``transformers`` takes for what."""

_FIELDS = (*fields(LinformerConfig), *fields(HeadConfig))
# The dictionary of the GPT-2 pieces that fairseq's RoBERTa was trained with, <mask> included.
_DEFAULT_VOCABULARY = 50265


class LinformerPreTrainedConfig(PreTrainedConfig):
    """Every field of ``LinformerConfig`` and ``HeadConfig`` under its own name, and what the models need besides.

    Args:
        tie_word_embeddings: the output embeddings of the language model are its input embeddings.
        classifier_inner_dim: width between the two maps of the classification head; None for d.
        classification_head_name: what fairseq calls the head.
        fairseq: what a fairseq checkpoint says besides its weights; None if this never was one.
        kwargs: fields of ``LinformerConfig`` and ``HeadConfig``, also by the names of ``transformers`` in
            ``attribute_map``, and the common arguments of a configuration (``id2label``, ...).

    Raises:
        ValueError: a value that cannot be built; the sentence names it and what is allowed.
    """

    model_type = "linformer"
    attribute_map = {f.metadata["transformers"]: f.name for f in _FIELDS if "transformers" in f.metadata}

    def __init__(
        self,
        tie_word_embeddings: bool = True,
        classifier_inner_dim: Optional[int] = None,
        classification_head_name: str = "sentence_classification_head",
        fairseq: Optional[Dict[str, Any]] = None,
        bos_token_id: int = 0,
        eos_token_id: int = 2,
        **kwargs,
    ):
        kwargs = {self.attribute_map.get(name, name): value for name, value in kwargs.items()}
        for field in _FIELDS:
            default = _DEFAULT_VOCABULARY if field.default is MISSING else field.default
            setattr(self, field.name, kwargs.pop(field.name, default))
        self.shape()  # refuses what cannot be built
        check_values(HeadConfig, self)
        if classifier_inner_dim is not None and classifier_inner_dim < 1:
            raise ValueError(f"classifier_inner_dim is {classifier_inner_dim}; it must be at least 1")
        self.classifier_inner_dim = classifier_inner_dim
        self.classification_head_name = classification_head_name
        self.fairseq = fairseq
        kwargs.setdefault("auto_map", dict(AUTO_MAP))
        super().__init__(**kwargs)
        self.tie_word_embeddings = tie_word_embeddings
        self.bos_token_id, self.eos_token_id = bos_token_id, eos_token_id

    @classmethod
    def of_shape(cls, shape: LinformerConfig, **kwargs) -> "LinformerPreTrainedConfig":
        """The configuration of a model whose encoder has this shape."""
        return cls(**asdict(shape), **kwargs)

    def shape(self) -> LinformerConfig:
        """The shape of the encoder."""
        return LinformerConfig(**{field.name: getattr(self, field.name) for field in fields(LinformerConfig)})
