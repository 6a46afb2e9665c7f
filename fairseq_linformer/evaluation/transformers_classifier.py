"""Any classifier of ``transformers``, from the hub or from a folder, judged as ours are: RoBERTa, BERT, DistilBERT, an export.

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
        device: ``cpu``, ``cuda``, ...
        max_positions: longer texts are cut; None for what model and tokenizer say.

    Attributes:
        names: of the classes; empty where the head gives a score.
        max_positions: n.

    Raises:
        ValueError: it cannot be loaded, or has no classification head that was trained; one sentence.
    """

    def __init__(self, name: str, device: str = "cpu", max_positions: Optional[int] = None):
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from .. import huggingface  # noqa: F401  AutoModel then knows a Linformer

        quiet()
        self.path, self.device = Path(name), torch.device(device)
        try:
            # No code of the folder is run; what this package knows is loaded without it.
            self._tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            self.model, info = AutoModelForSequenceClassification.from_pretrained(name, trust_remote_code=False, output_loading_info=True)
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"{name} cannot be loaded by transformers: {first_line(error)}") from None
        if info["missing_keys"]:
            raise ValueError(f"{name} has no {sorted(info['missing_keys'])[0]}: its classification head is not trained; `fairseq-linformer finetune` does it")
        self.model.to(self.device).eval()
        config = self.model.config
        if config.problem_type == "multi_label_classification" or (config.problem_type == "regression" and config.num_labels > 1):
            raise ValueError(f"{name} gives {config.num_labels} {'labels a text' if 'multi' in config.problem_type else 'scores'}; a class or one score is wanted")
        self.is_score = config.num_labels == 1 or config.problem_type == "regression"
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
    """What transformers has to say of weights that are missing comes as an error here, or is meant."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def longest_input(config, tokenizer, wanted: Optional[int] = None) -> int:
    """n of a model of transformers: positions that it has, less those that RoBERTa's numbering from the padding index on leaves out.

    Raises:
        ValueError: more are wanted, or fewer than a pair needs.
    """
    n = min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length)
    if getattr(config, "model_type", "") in ("roberta", "xlm-roberta", "camembert", "longformer", "mpnet"):
        n = min(n, config.max_position_embeddings - config.pad_token_id - 1)
    if n < LEAST:
        raise ValueError(f"the model, {getattr(config, 'model_type', 'which has no type')}, says that it has {n} positions; one with at least {LEAST} is wanted")
    if wanted is not None and not LEAST <= wanted <= n:
        raise ValueError(f"--max-positions is {wanted}; it must be between {LEAST} and {n}, which the model has")
    return int(n if wanted is None else wanted)
