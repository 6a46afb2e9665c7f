"""Classifiers of sentences and sentence pairs: the interface, models of ``transformers``, and ONNX folders.

Nothing here needs fairseq; ``fairseq_classifier.py`` is for its checkpoints.

B rows, n positions, C classes (1 for regression)
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..checkpoints.files import open_session
from ..checkpoints.identify import find_graph
from ..checkpoints.transformers_loading import (
    find_max_positions,
    load_config,
    load_from_transformers,
    load_weights_from_transformers,
)
from ..config import POSITIONS_LIMIT
from ..data.columns import Columns, read_columns

MIN_POSITIONS = 5
"""The shortest pair of RoBERTa: <s> a </s></s> b, and of BERT: [CLS] a [SEP] b [SEP]."""
Encoding = dict[str, list[int]]
"""Model inputs of a row: ``input_ids`` and, for some models, other values per token."""


class Classifier:
    """What evaluation needs of a model.

    Attributes:
        model: None for a graph.
        names: class names; empty for a regression head.
        num_inputs: sentences per row, 1 or 2; None if unknown.
        columns: of the user's own files that it was trained on; None for other data.
    """

    path: Path
    model: Any = None
    names: list[str]
    max_positions: int
    num_inputs: int | None = None
    columns: Columns | None = None

    @property
    def is_score(self) -> bool:
        """Whether the head predicts a score."""
        return not self.names

    def encode(self, rows: Sequence[tuple[str, ...]], truncated: bool) -> list[Encoding]:
        """Encode rows of one or two sentences, truncated to n or whole."""
        raise NotImplementedError

    def logits(self, batch: Sequence[Encoding]) -> Tensor:
        """(B, C) in float32, on the CPU."""
        raise NotImplementedError


class TransformersClassifier(Classifier):
    """A sequence classification model of ``transformers`` with its tokenizer: RoBERTa, BERT, an exported Linformer, ...

    Args:
        name: folder with ``config.json``, or name of a model on the hub. Its code is never executed.
        max_positions: n, the length to which longer inputs are truncated; None for the limit of model and tokenizer.
    """

    def __init__(self, name: str, device: str = "cpu", max_positions: int | None = None):
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        self.path, self.device = Path(name), torch.device(device)
        model, info = load_weights_from_transformers(AutoModelForSequenceClassification, name, output_loading_info=True)
        self._tokenizer = load_from_transformers(AutoTokenizer, name)
        if info["missing_keys"]:
            raise ValueError(f"{name} has no trained head for classes of texts; finetune it for them first")
        self.model, config = model.to(self.device).eval(), model.config
        self._read_config(config)
        n = min(self._tokenizer.model_max_length, find_max_positions(model) or POSITIONS_LIMIT)
        if max_positions is not None and not MIN_POSITIONS <= max_positions <= n:
            raise ValueError(
                f"--max-positions must be between {MIN_POSITIONS} and the model's {n}, got {max_positions}"
            )
        self.max_positions = max_positions or n

    def _read_config(self, config: Any) -> None:
        """Set names and columns; ValueError unless there is one output per row."""
        is_multi_label = config.problem_type == "multi_label_classification"
        is_score = config.num_labels == 1 or config.problem_type == "regression"
        if is_multi_label or (is_score and config.num_labels > 1):
            outputs = f"{config.num_labels} {'labels per row' if is_multi_label else 'scores'}"
            raise ValueError(f"{self.path} must predict one class or one score per row, got {outputs}")
        self.names = [] if is_score else [str(config.id2label[i]) for i in range(config.num_labels)]
        self.columns = read_columns((getattr(config, "fairseq", None) or {}).get("columns", {}))

    def encode(self, rows: Sequence[tuple[str, ...]], truncated: bool) -> list[Encoding]:
        limit: dict[str, Any] = {"truncation": "longest_first", "max_length": self.max_positions} if truncated else {}
        batch = self._tokenizer(*([*column] for column in zip(*rows)), verbose=False, **limit)
        return [dict(zip(batch.keys(), values)) for values in zip(*batch.values())]

    @torch.inference_mode()
    def logits(self, batch: Sequence[Encoding]) -> Tensor:
        inputs = self._tokenizer.pad(list(batch), return_tensors="pt").to(self.device)
        return self.model(**inputs).logits.float().cpu()


class OnnxClassifier(TransformersClassifier):
    """A classifier in ONNX with its fast tokenizer, run by ``onnxruntime`` on the CPU.

    Args:
        folder: written by ``export --onnx``. Its code is never executed.
    """

    def __init__(self, folder):
        from transformers import PreTrainedTokenizerFast

        self.path, config = Path(folder), load_config(str(folder))
        if not hasattr(config, "onnx") or config.architectures != ["LinformerForSequenceClassification"]:
            raise ValueError(f"{folder} must be an exported classifier; finetune the model before you export it")
        self._read_config(config)
        self.max_positions = config.onnx["max_positions"]
        self._tokenizer = load_from_transformers(PreTrainedTokenizerFast, str(folder), pad_token="<pad>")
        graph = find_graph(self.path)
        assert graph is not None, f"{folder} is no ONNX folder"
        self._session = open_session(graph, torch.get_num_threads())

    def logits(self, batch: Sequence[Encoding]) -> Tensor:
        inputs = self._tokenizer.pad(list(batch), return_tensors="np")
        names = ("input_ids", "attention_mask")
        (logits,) = self._session.run(["logits"], {name: inputs[name].astype(np.int64) for name in names})
        return torch.from_numpy(logits)
