"""A classifier in a folder of ``export --onnx``, run by ``onnxruntime``.

B rows, C classes (1 for regression)
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..checkpoints.files import ONNX_GRAPH
from ..checkpoints.onnx_session import open_session
from ..data.tokenizer_files import TOKENIZER_JSON
from ..errors import first_line
from ..files import read_json
from .classifier import Encoding
from .transformers_classifier import MIN_POSITIONS


class OnnxClassifier:
    """A classifier in ONNX with its tokenizer, on the CPU.

    Args:
        folder: written by ``to_onnx``. Its code is never executed.

    Attributes:
        names: class names; empty for a regression head.
        max_positions: the longest input of the graph.

    Raises:
        ValueError: the folder is damaged, or has no classification head, no ``tokenizer.json`` or too small an n.
    """

    def __init__(self, folder):
        from tokenizers import Tokenizer

        self.path = Path(folder)
        config, file = read_json(self.path / "config.json"), self.path / TOKENIZER_JSON
        if "onnx" not in config:
            raise ValueError(f"{self.path / 'config.json'} has no 'onnx'; expected a folder that `export --onnx` wrote")
        try:
            architectures, self.max_positions = config["architectures"], int(config["onnx"]["max_positions"])
            self._padding = config.get("pad_token_id", config.get("padding_idx", 1))
            names = [name for _, name in sorted(config["id2label"].items(), key=lambda item: int(item[0]))]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError(f"{self.path / 'config.json'} is damaged; export the model again") from None
        if architectures != ["LinformerForSequenceClassification"]:
            raise ValueError(f"{folder} has no classification head; finetune the model before it is exported")
        if self.max_positions < MIN_POSITIONS:  # tokenizers does not truncate a pair to so few
            raise ValueError(f"{folder} must have at least {MIN_POSITIONS} positions, got {self.max_positions}")
        if not file.is_file():
            raise ValueError(f"{folder} has no tokenizer.json, which evaluation of an ONNX folder needs")
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # tokenizers has no other type of errors
            raise ValueError(f"tokenizers cannot load {file}: {first_line(error)}") from None
        self._tokenizer.no_padding()  # batches are padded by ``logits``
        self.is_score = config.get("problem_type") == "regression" or len(names) == 1
        self.names = [] if self.is_score else names
        threads = int(os.environ.get("OMP_NUM_THREADS") or torch.get_num_threads())
        try:
            self._session = open_session(self.path / ONNX_GRAPH, threads)
        except ImportError:
            raise
        except Exception as error:
            raise ValueError(f"onnxruntime cannot load {self.path / ONNX_GRAPH}: {first_line(error)}") from None

    def encode(self, texts: Sequence[tuple[str, ...]], truncated: bool = True) -> list[Encoding]:
        """Encode rows of one or two sentences; of a pair, the longer sentence is truncated first.

        Args:
            truncated: truncate to n.
        """
        if truncated:
            self._tokenizer.enable_truncation(self.max_positions)
        else:
            self._tokenizer.no_truncation()
        inputs = [row if len(row) > 1 else row[0] for row in texts]
        return [{"input_ids": row.ids} for row in self._tokenizer.encode_batch(inputs)]

    def logits(self, batch: Sequence[Encoding]) -> Tensor:
        """(B, C) in float32."""
        lengths = np.array([len(row["input_ids"]) for row in batch])
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
        tokens = np.full(mask.shape, self._padding)
        for row, encoded in zip(tokens, batch):
            row[: len(encoded["input_ids"])] = encoded["input_ids"]
        (logits,) = self._session.run(["logits"], {"input_ids": tokens, "attention_mask": mask})
        return torch.from_numpy(logits)
