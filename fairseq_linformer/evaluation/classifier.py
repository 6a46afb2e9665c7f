"""Classifiers of sentences and sentence pairs: fairseq checkpoints, models of ``transformers``, and ONNX folders.

B rows, n positions, C classes (1 for regression)
"""

import os
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..checkpoints.files import ONNX_GRAPH, find_companions, get_cfg_section, open_session
from ..checkpoints.models import build_model, open_checkpoint
from ..checkpoints.transformers_loading import load_from_transformers, load_weights_from_transformers
from ..data.manifest import MANIFEST
from ..data.tokenizer import Tokenizer, load_tokenizer
from ..data.tokenizer_files import DICTIONARY, FILES_TEXT, TokenizerFiles, find_tokenizer_files
from ..data.truncation import TRUNCATIONS, truncate
from ..errors import silence_transformers
from ..files import read_json
from ..models.dictionaries import check_dictionary, read_labels
from ..models.shapes import EMBEDDINGS, PADDING_IDX, choose_head, max_positions

LABELS = f"label/{DICTIONARY}"
"""The labels, next to a checkpoint."""
MIN_POSITIONS = 5
"""The shortest pair of RoBERTa: <s> a </s></s> b, and of BERT: [CLS] a [SEP] b [SEP]."""
OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "longformer", "mpnet")
"""Models of ``transformers`` whose position embeddings up to the padding index are unused."""
Encoding = dict[str, list[int]]
"""Model inputs of a row: ``input_ids`` and, for some models, other values per token."""


class Classifier:
    """What evaluation needs of a model.

    Attributes:
        path: of the checkpoint or folder.
        names: class names; empty for a regression head.
        max_positions: n.
        num_inputs: sentences per row, 1 or 2; None if unknown.
    """

    path: Path
    names: list[str]
    max_positions: int
    num_inputs: int | None = None

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


class FairseqClassifier(Classifier):
    """A fairseq model with a classification head, its labels and its tokenizer.

    Args:
        checkpoint: path of a checkpoint of ``linformer_roberta``, RoBERTa or the authors' code.
        head: name of the classification head; None if there is only one.
        dictionary: ``dict.txt``; None for the one next to the checkpoint.
        labels: ``dict.txt`` of the labels; None for ``label/dict.txt`` next to the checkpoint.
        truncation: ``head`` or ``head+tail``, for inputs longer than n; None for that in the manifest next to the
            checkpoint.
        tokenizer: files of the tokenizer, which only ``encode`` needs; None for those next to the checkpoint.

    Attributes:
        dictionary: path of the model's ``dict.txt``.
        has_default_names: whether the names are class indices because there is no label dictionary.
    """

    def __init__(
        self,
        checkpoint,
        device: str = "cpu",
        head: str | None = None,
        dictionary=None,
        labels=None,
        truncation: str | None = None,
        tokenizer: TokenizerFiles | None = None,
    ):
        self.path, self.device = Path(checkpoint), torch.device(device)
        opened = open_checkpoint(checkpoint)
        state, self._task = opened["model"], get_cfg_section(opened, "task")
        name = choose_head(state, head, self.path)
        if name is None:
            raise ValueError(f"{self.path} has no classification head; train one with `fairseq-linformer finetune`")
        self._head, self._tokenizer_files = name, tokenizer
        self.max_positions, self._vocab_size = max_positions(state), state[EMBEDDINGS].size(0)
        manifest = read_manifest(self.path.parent)
        self._truncation = truncation or manifest.get("cut", TRUNCATIONS[0])
        self.num_inputs = manifest.get("num_inputs")
        self._companions = find_companions(self.path, opened)
        self.dictionary = Path(dictionary) if dictionary else self._companions / DICTIONARY
        if dictionary:
            self.check_dictionary(self.dictionary)
        self.model = build_model(opened, name).to(self.device).eval()
        classes = self.model.classification_heads[name].out_proj.out_features
        is_score = bool(self._task.get("regression_target"))
        if labels and is_score:
            raise ValueError(f"--labels {labels} does not apply to {self.path}, whose head predicts a score")
        default_labels = self.path.parent / LABELS
        self.has_default_names = not (is_score or labels or default_labels.is_file())
        if self.has_default_names:
            self.names = [str(i) for i in range(classes)]
            print(f"no {LABELS} next to {self.path}; --labels FILE names its classes", file=sys.stderr)
        else:
            self.names = [] if is_score else read_labels(labels or default_labels, classes)

    def check_dictionary(self, path: Path) -> None:
        """Raise ValueError if ``dict.txt`` is missing or is not the model's."""
        check_dictionary(path, self._vocab_size, self.path, same_as=[self.dictionary])

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        self.check_dictionary(self.dictionary)
        if not (files := self._tokenizer_files or find_tokenizer_files(self._companions)):
            raise ValueError(f"there is no tokenizer ({FILES_TEXT}) next to {self.path}; pass --tokenizer")
        return load_tokenizer(files, self.dictionary)

    def encode(self, rows: Sequence[tuple[str, ...]], truncated: bool) -> list[Encoding]:
        ids, sizes = zip(*(self._tokenizer.encode(column) for column in zip(*rows)))
        if truncated:
            ids, sizes, _ = truncate(ids, sizes, self.max_positions, self._truncation)
        return self.join_inputs([np.split(text, np.cumsum(size)[:-1]) for text, size in zip(ids, sizes)])

    def join_inputs(self, inputs: Sequence[Sequence[np.ndarray]]) -> list[Encoding]:
        """Join the sentences of each row as fairseq's task does: ``<s> a </s>``, ``<s> a </s> </s> b </s>``.

        Args:
            inputs: token IDs of each row, ending with </s>, for each of one or two sentences.
        """
        starts, rows = (self._task.get("init_token", 0), self._task.get("separator_token", 2)), []
        for row in zip(*inputs):
            tokens = [token for start, text in zip(starts, row) for token in (start, *text.tolist())]
            rows.append({"input_ids": [token for token in tokens if token is not None]})
        return rows

    @torch.inference_mode()
    def logits(self, batch: Sequence[Encoding]) -> Tensor:
        longest = max(len(row["input_ids"]) for row in batch)
        tokens = torch.full((len(batch), longest), PADDING_IDX)
        for i, row in enumerate(batch):
            tokens[i, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
        logits, _ = self.model(tokens.to(self.device), features_only=True, classification_head_name=self._head)
        return logits.float().cpu()


class TransformersClassifier(Classifier):
    """A sequence classification model of ``transformers`` with its tokenizer: RoBERTa, BERT, an exported Linformer, ...

    Args:
        name: folder with ``config.json``, or name of a model on the hub. Its code is never executed.
        max_positions: n, the length to which longer inputs are truncated; None for the limit of model and tokenizer.
    """

    def __init__(self, name: str, device: str = "cpu", max_positions: int | None = None):
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from .. import huggingface  # noqa: F401  registers the Linformer with AutoModel

        silence_transformers()
        self.path, self.device = Path(name), torch.device(device)
        self._tokenizer = load_from_transformers(AutoTokenizer, name)
        model, info = load_weights_from_transformers(AutoModelForSequenceClassification, name, output_loading_info=True)
        if info["missing_keys"]:
            key = min(info["missing_keys"])
            raise ValueError(f"{name} must have a trained classification head, but it has no {key}; finetune it first")
        self.model, config = model.to(self.device).eval(), model.config
        self.names = _class_names(config, name)
        n = self._tokenizer.model_max_length
        if limit := getattr(config, "max_position_embeddings", None):
            n = min(n, limit - (config.pad_token_id + 1 if config.model_type in OFFSET_POSITIONS else 0))
        if max_positions is not None and not MIN_POSITIONS <= max_positions <= n:
            raise ValueError(
                f"--max-positions must be between {MIN_POSITIONS} and the model's {n}, got {max_positions}"
            )
        self.max_positions = max_positions or n

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
        folder: written by ``to_onnx``. Its code is never executed.
    """

    def __init__(self, folder):
        from transformers import AutoConfig, PreTrainedTokenizerFast

        from .. import huggingface  # noqa: F401  registers the Linformer with AutoConfig

        silence_transformers()
        self.path = Path(folder)
        config = load_from_transformers(AutoConfig, str(folder))
        if not hasattr(config, "onnx") or config.architectures != ["LinformerForSequenceClassification"]:
            raise ValueError(f"{folder} must be an exported classifier; finetune the model before you export it")
        self.names, self.max_positions = _class_names(config, folder), config.onnx["max_positions"]
        self._tokenizer = load_from_transformers(PreTrainedTokenizerFast, str(folder), pad_token="<pad>")
        threads = int(os.environ.get("OMP_NUM_THREADS") or torch.get_num_threads())
        self._session = open_session(self.path / ONNX_GRAPH, threads)

    def logits(self, batch: Sequence[Encoding]) -> Tensor:
        inputs = self._tokenizer.pad(list(batch), return_tensors="np")
        names = ("input_ids", "attention_mask")
        (logits,) = self._session.run(["logits"], {name: inputs[name].astype(np.int64) for name in names})
        return torch.from_numpy(logits)


def _class_names(config: Any, name) -> list[str]:
    """Class names of a model of ``transformers``, which must have one output per row; empty for regression."""
    is_multi_label = config.problem_type == "multi_label_classification"
    is_score = config.num_labels == 1 or config.problem_type == "regression"
    if is_multi_label or (is_score and config.num_labels > 1):
        outputs = "labels per row" if is_multi_label else "scores"
        raise ValueError(f"{name} must predict one class or one score per row, got {config.num_labels} {outputs}")
    return [] if is_score else [config.id2label[i] for i in range(config.num_labels)]


def read_manifest(folder) -> dict[str, Any]:
    """The manifest in a folder; empty if there is none. Raises ValueError if it is damaged."""
    path = Path(folder) / MANIFEST
    manifest = read_json(path) if path.is_file() else {}
    if not isinstance(manifest, dict):
        raise ValueError(f"{path} must be a dictionary")
    return manifest
