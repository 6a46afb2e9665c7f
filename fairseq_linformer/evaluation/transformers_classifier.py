"""A sequence classifier of ``transformers``, from the hub or a folder: RoBERTa, BERT, an exported Linformer, ...

B rows, C classes (1 for regression)
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..checkpoints.transformers_loading import load_from_transformers, load_weights_from_transformers
from ..errors import silence_transformers
from .classifier import Encoding

MIN_POSITIONS = 5
"""The shortest pair of RoBERTa: <s> a </s></s> b, and of BERT: [CLS] a [SEP] b [SEP]."""


class TransformersClassifier:
    """A sequence classification model of ``transformers`` with its tokenizer.

    Args:
        name: folder with ``config.json``, or name of a model on the hub. Its code is never executed.
        max_positions: n, the length to which longer inputs are truncated; None for the limit of model and tokenizer.

    Attributes:
        names: class names; empty for a regression head.

    Raises:
        ValueError: the model cannot be loaded, or has no trained classification head.
    """

    def __init__(self, name: str, device: str = "cpu", max_positions: int | None = None):
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from .. import huggingface  # noqa: F401  registers the Linformer with AutoModel

        silence_transformers()
        self.path, self.device = Path(name), torch.device(device)
        self._tokenizer = load_from_transformers(AutoTokenizer, name)
        self.model, info = load_weights_from_transformers(
            AutoModelForSequenceClassification, name, output_loading_info=True
        )
        if info["missing_keys"]:
            key = min(info["missing_keys"])
            raise ValueError(f"{name} must have a trained classification head, but it has no {key}; finetune it first")
        self.model.to(self.device).eval()
        config = self.model.config
        self.is_score = config.num_labels == 1 or config.problem_type == "regression"
        multi_label = config.problem_type == "multi_label_classification"
        if multi_label or (self.is_score and config.num_labels > 1):
            outputs = "labels per row" if multi_label else "scores"
            raise ValueError(f"{name} must predict one class or one score per row, got {config.num_labels} {outputs}")
        self.names: list[str] = [] if self.is_score else [config.id2label[i] for i in range(config.num_labels)]
        self.max_positions = resolve_max_positions(config, self._tokenizer, max_positions)

    def encode(self, texts: Sequence[tuple[str, ...]], truncated: bool = True) -> list[Encoding]:
        """Encode rows of one or two sentences; of a pair, the longer sentence is truncated first.

        Args:
            truncated: truncate to n; False only for tokenizers that add one token on each side.

        Raises:
            ValueError: the tokenizer adds other tokens, and ``truncated`` is False.
        """
        columns = [list(column) for column in zip(*texts)]
        if truncated:
            batch = self._tokenizer(*columns, truncation="longest_first", max_length=self.max_positions)
        elif (num_special := self._tokenizer.num_special_tokens_to_add()) != 2:
            raise ValueError(f"the tokenizer of {self.path} must add 2 tokens to score spans, got {num_special}")
        else:
            batch = self._tokenizer(*columns, truncation=False, verbose=False)
        return [{key: batch[key][i] for key in batch} for i in range(len(texts))]

    @torch.inference_mode()
    def logits(self, batch: Sequence[Encoding]) -> Tensor:
        """(B, C) in float32, on the CPU."""
        inputs = self._tokenizer.pad(list(batch), return_tensors="pt").to(self.device)
        return self.model(**inputs).logits.float().cpu()


def resolve_max_positions(config, tokenizer, max_positions: int | None = None) -> int:
    """n: ``max_positions``, or the limit of a transformers model and its tokenizer for None.

    RoBERTa's position embeddings up to the padding index are unused and do not count.

    Raises:
        ValueError: ``max_positions`` is above the limit, or too small for a pair.
    """
    model_type = getattr(config, "model_type", "")
    n = min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length)
    if model_type in ("roberta", "xlm-roberta", "camembert", "longformer", "mpnet"):
        n = min(n, config.max_position_embeddings - config.pad_token_id - 1)
    if n < MIN_POSITIONS:
        raise ValueError(f"{model_type or 'the model'} must have at least {MIN_POSITIONS} positions, got {n}")
    if max_positions is not None and not MIN_POSITIONS <= max_positions <= n:
        raise ValueError(f"--max-positions must be between {MIN_POSITIONS} and the model's {n}, got {max_positions}")
    return int(n if max_positions is None else max_positions)
