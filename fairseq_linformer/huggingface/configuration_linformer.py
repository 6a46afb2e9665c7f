"""Configuration of a Linformer for ``transformers``.

This file is copied into exported folders: it imports only ``transformers`` and the files next to it.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

from transformers import PreTrainedConfig

from ..config import HeadConfig, LinformerConfig, check_values

AUTO_MAP = {
    "AutoConfig": "configuration_linformer.LinformerPreTrainedConfig",
    "AutoModel": "modeling_linformer.LinformerModel",
    "AutoModelForMaskedLM": "modeling_linformer.LinformerForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_linformer.LinformerForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_linformer.LinformerForTokenClassification",
    "AutoModelForQuestionAnswering": "modeling_linformer.LinformerForQuestionAnswering",
}
"""Auto class of ``transformers`` -> file and class in an exported folder."""

_FIELDS = (*fields(LinformerConfig), *fields(HeadConfig))
# fairseq's RoBERTa with GPT-2 BPE, including <mask>.
_DEFAULT_VOCAB_SIZE = 50265
_OF_A_RUN = ("checkpoint_activations", "offload_activations")


class LinformerPreTrainedConfig(PreTrainedConfig):
    """The fields of ``LinformerConfig`` and ``HeadConfig``, and options of the heads.

    Args:
        tie_word_embeddings: tie the output embeddings to the input embeddings.
        classifier_inner_dim: hidden width of the classification head; None for d.
        classification_head_name: name of the head in fairseq.
        fairseq: configuration and metadata of the fairseq checkpoint; None if there is none.
        kwargs: fields of ``LinformerConfig`` and ``HeadConfig``, also under their names in ``attribute_map``, and the
            common arguments of configurations (``id2label``, ...).
    """

    model_type = "linformer"
    write_code: Callable[[str], None] | None = None
    """Writes the source files to a folder (``__init__.py``). None in an exported folder, whose files ``transformers``
    copies."""
    attribute_map = {f.metadata["transformers"]: f.name for f in _FIELDS if "transformers" in f.metadata}

    def __init__(
        self,
        tie_word_embeddings: bool = True,
        classifier_inner_dim: int | None = None,
        classification_head_name: str = "sentence_classification_head",
        fairseq: dict[str, Any] | None = None,
        bos_token_id: int = 0,
        eos_token_id: int = 2,
        **kwargs: Any,
    ):
        kwargs = {self.attribute_map.get(name, name): value for name, value in kwargs.items()}
        kwargs.pop("window_sizes", None)  # an option of earlier versions; the weights record it
        for field in _FIELDS:
            default = _DEFAULT_VOCAB_SIZE if field.default is MISSING else field.default
            setattr(self, field.name, kwargs.pop(field.name, default))
        shape = self.to_linformer_config()  # checks the values
        self.projected_dim, self.sharing = shape.projected_dim, shape.sharing
        check_values(HeadConfig, self)
        self.classifier_inner_dim = classifier_inner_dim
        self.classification_head_name = classification_head_name
        self.fairseq = fairseq
        kwargs.setdefault("auto_map", dict(AUTO_MAP))
        super().__init__(**kwargs)
        self.tie_word_embeddings = tie_word_embeddings
        self.bos_token_id, self.eos_token_id = bos_token_id, eos_token_id

    def save_pretrained(self, save_directory, *args, **kwargs):
        """Save the configuration and the code. Saving or uploading a model saves its configuration."""
        super().save_pretrained(save_directory, *args, **kwargs)
        if self.write_code is not None:
            type(self).write_code(save_directory)

    def to_dict(self) -> dict[str, Any]:
        """The content of ``config.json``, without options of a training run."""
        return {name: value for name, value in super().to_dict().items() if name not in _OF_A_RUN}

    def to_linformer_config(self) -> LinformerConfig:
        """Shape of the encoder."""
        return LinformerConfig(**{field.name: getattr(self, field.name) for field in fields(LinformerConfig)})
