"""Any classifier of ``transformers``, from the hub or from a folder: RoBERTa, BERT, DistilBERT, one of our exports.

    B texts, C classes (1 for a score)
"""

from pathlib import Path
from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..errors import first_line
from .classifier import Encoded

LEAST = 5
"""Positions: <s>, a token, the separators of a pair, a token."""


class TransformersClassifier:
    """
    Args:
        name: a folder with ``config.json``, or the name of a model on the hub.
        max_positions: longer texts are cut; None for the limit of model and tokenizer.

    Attributes:
        names: of the classes; empty where the head gives a score.
        max_positions: n.

    Raises:
        ValueError: it cannot be loaded, or has no trained classification head.
    """

    def __init__(self, name: str, device: str = "cpu", max_positions: Optional[int] = None):
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from .. import huggingface  # noqa: F401  AutoModel then knows a Linformer

        quiet()
        self.path, self.device = Path(name), torch.device(device)
        try:
            # No code of the folder is run; what this package knows is loaded without it.
            self._tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            self.model, info = AutoModelForSequenceClassification.from_pretrained(
                name, trust_remote_code=False, output_loading_info=True
            )
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"{name} cannot be loaded by transformers: {first_line(error)}") from None
        if info["missing_keys"]:
            key = min(info["missing_keys"])
            raise ValueError(f"{name} has no {key}: its classification head is not trained; finetune it first")
        self.model.to(self.device).eval()
        config = self.model.config
        self.is_score = config.num_labels == 1 or config.problem_type == "regression"
        multi_label = config.problem_type == "multi_label_classification"
        if multi_label or (self.is_score and config.num_labels > 1):
            outputs = "labels per text" if multi_label else "scores"
            raise ValueError(f"{name} gives {config.num_labels} {outputs}; it must give one class or one score")
        self.names: List[str] = [] if self.is_score else [config.id2label[i] for i in range(config.num_labels)]
        self.max_positions = longest_input(config, self._tokenizer, max_positions)

    def encode(self, texts: Sequence[Tuple[str, ...]]) -> List[Encoded]:
        """Rows of one text or two, each cut to n, of a pair the longer text first."""
        columns = [list(column) for column in zip(*texts)]
        found = self._tokenizer(*columns, truncation="longest_first", max_length=self.max_positions)
        return [{key: found[key][i] for key in found} for i in range(len(texts))]

    @torch.inference_mode()
    def logits(self, batch: Sequence[Encoded]) -> Tensor:
        """(B, C) in float32, on the CPU."""
        inputs = self._tokenizer.pad(list(batch), return_tensors="pt").to(self.device)
        return self.model(**inputs).logits.float().cpu()


def quiet() -> None:
    """Silence transformers: missing weights are an error of ours, or intended."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def longest_input(config, tokenizer, wanted: Optional[int] = None) -> int:
    """n of a model of transformers: its positions, without those below the padding index that RoBERTa does not use.

    Raises:
        ValueError: ``wanted`` is more, or too little for a pair.
    """
    model_type = getattr(config, "model_type", "")
    n = min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length)
    if model_type in ("roberta", "xlm-roberta", "camembert", "longformer", "mpnet"):
        n = min(n, config.max_position_embeddings - config.pad_token_id - 1)
    if n < LEAST:
        raise ValueError(f"the model, {model_type or 'of no type'}, has {n} positions; it must have at least {LEAST}")
    if wanted is not None and not LEAST <= wanted <= n:
        raise ValueError(f"--max-positions is {wanted}; it must be between {LEAST} and the model's {n}")
    return int(n if wanted is None else wanted)
