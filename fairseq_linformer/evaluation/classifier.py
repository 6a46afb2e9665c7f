"""A finetuned fairseq checkpoint as a classifier of sentences and sentence pairs.

B rows, n positions, C classes (1 for regression)
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..checkpoints.files import get_cfg_section
from ..checkpoints.models import build_model, open_checkpoint
from ..data.manifest import MANIFEST
from ..data.tokenizer import Tokenizer, load_tokenizer
from ..data.tokenizer_files import DICTIONARY, FILES_TEXT, FLAGS_TEXT, TokenizerFiles, find_tokenizer_files
from ..data.truncation import TRUNCATIONS, check_truncation, truncate
from ..files import read_json
from ..models.dictionaries import check_dictionary, read_labels
from ..models.shapes import EMBEDDINGS, PADDING_IDX, choose_head, max_positions

LABELS = f"label/{DICTIONARY}"
"""The labels, next to a checkpoint."""
Encoding = dict[str, list[int]]
"""Model inputs of a row: ``input_ids`` and, for some models, other values per token."""


class FairseqClassifier:
    """A fairseq model with a classification head, its labels and its tokenizer.

    Args:
        checkpoint: path of a checkpoint of ``linformer_roberta``, RoBERTa or the authors' code.
        head: name of the classification head; None if there is only one.
        dictionary: ``dict.txt``; None for the one next to the checkpoint.
        labels: ``dict.txt`` of the labels; None for ``label/dict.txt`` next to the checkpoint.
        truncation: ``head`` or ``head+tail``, for inputs longer than n; None for that in the manifest next to the
            checkpoint.

    Attributes:
        names: class names; empty for a regression head.
        has_default_names: whether the names are class indices because there is no label dictionary.
        max_positions: n.

    Raises:
        ValueError: a file is missing, invalid, or does not fit the others.
    """

    def __init__(
        self,
        checkpoint,
        device: str = "cpu",
        head: str | None = None,
        dictionary=None,
        labels=None,
        truncation: str | None = None,
    ):
        self.path, self.device = Path(checkpoint), torch.device(device)
        self._truncation = truncation or _read_truncation(self.path)
        self.checkpoint = open_checkpoint(checkpoint)
        state = self.checkpoint["model"]
        name = choose_head(state, head, self.path)
        if name is None:
            raise ValueError(f"{self.path} has no classification head; train one with `fairseq-linformer finetune`")
        check_truncation(max_positions(state), 1, self._truncation)
        self.max_positions, self._vocab_size = max_positions(state), state[EMBEDDINGS].size(0)
        self._dictionary = Path(dictionary) if dictionary else self.path.parent / DICTIONARY
        if dictionary:
            check_dictionary(self._dictionary, self._vocab_size, self.path)
        self.is_score = bool(get_cfg_section(self.checkpoint, "task").get("regression_target"))
        self.model = build_model(self.checkpoint, name).to(self.device).eval()
        self._head = name
        classes = self.model.classification_heads[name].out_proj.out_features
        if labels and self.is_score:
            raise ValueError(f"--labels {labels} does not apply to {self.path}, whose head predicts a score")
        default_labels = self.path.parent / LABELS
        self.has_default_names = not (self.is_score or labels or default_labels.is_file())
        if self.has_default_names:
            self.names = [str(i) for i in range(classes)]
        else:
            self.names = [] if self.is_score else read_labels(labels or default_labels, classes)
        self._tokenizer: Tokenizer | None = None

    def use_tokenizer(self, files: TokenizerFiles | None = None) -> None:
        """Load the tokenizer, by default from the files next to the checkpoint. Call it before ``encode``.

        Raises:
            ValueError: a file is missing.
        """
        check_dictionary(self._dictionary, self._vocab_size, self.path)
        if not (files := files or find_tokenizer_files(self.path.parent)):
            raise ValueError(f"there is no tokenizer ({FILES_TEXT}) next to {self.path}; pass {FLAGS_TEXT}")
        self._tokenizer = load_tokenizer(files, self._dictionary)

    def check_same_dictionary(self, path) -> None:
        """Raise ValueError if the dictionary ``path`` differs from the model's."""
        check_dictionary(Path(path), self._vocab_size, self.path, same_as=[self._dictionary])

    def encode(self, texts: Sequence[tuple[str, ...]], truncated: bool = True) -> list[Encoding]:
        """Encode rows of one or two sentences; call ``use_tokenizer`` first.

        Args:
            truncated: truncate to n; False only for single sentences.
        """
        assert self._tokenizer is not None
        ids, sizes = zip(*(self._tokenizer.encode([row[i] for row in texts]) for i in range(len(texts[0]))))
        if truncated:
            ids, sizes, _ = truncate(ids, sizes, self.max_positions, self._truncation)
        return self.join_inputs([np.split(text, np.cumsum(size)[:-1]) for text, size in zip(ids, sizes)], truncated)

    def join_inputs(self, inputs: Sequence[Sequence[np.ndarray]], truncated: bool = True) -> list[Encoding]:
        """Join the sentences of each row as fairseq's task does: ``<s> a </s>``, ``<s> a </s> </s> b </s>``.

        Args:
            inputs: token IDs of each row, ending with </s>, for each of one or two sentences.
            truncated: truncate to n.
        """
        task = get_cfg_section(self.checkpoint, "task")
        starts = (task.get("init_token", 0), task.get("separator_token", 2))
        rows, longest = [], self.max_positions if truncated else None
        for row in zip(*inputs):
            tokens = [token for start, text in zip(starts, row) for token in (start, *text.tolist())]
            rows.append({"input_ids": [token for token in tokens if token is not None][:longest]})
        return rows

    @torch.inference_mode()
    def logits(self, batch: Sequence[Encoding]) -> Tensor:
        """(B, C) in float32, on the CPU."""
        longest = max(len(row["input_ids"]) for row in batch)
        tokens = torch.full((len(batch), longest), PADDING_IDX)
        for i, row in enumerate(batch):
            tokens[i, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
        logits, _ = self.model(tokens.to(self.device), features_only=True, classification_head_name=self._head)
        return logits.float().cpu()


def _read_truncation(checkpoint: Path) -> str:
    manifest = checkpoint.parent / MANIFEST
    if not manifest.is_file():
        return TRUNCATIONS[0]
    try:
        return read_json(manifest).get("cut", TRUNCATIONS[0])
    except (ValueError, AttributeError):
        raise ValueError(f"{manifest} cannot be read; set the truncation with --truncation") from None
