"""A finetuned checkpoint of fairseq as a classifier of texts.

    B texts, n positions of the longest of them, C classes (1 for a score)
"""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaModel
from torch import Tensor

from ..checkpoints.authors import from_authors
from ..checkpoints.files import node, read_checkpoint
from ..corpus.tokenizer import FIRST, GPT2_FILES, SENTENCEPIECE, Tokenizer, load_tokenizer, tokenizer_beside
from ..models import LinformerRobertaModel
from ..models.bare_task import BareTask
from ..models.shapes import (
    CLASSIFICATION_HEADS, EMBEDDINGS, PADDING_IDX, current_names, head_names, max_positions, projections,
)  # fmt: skip
from ..task_data import cut as cutting
from ..task_data.manifest import NAME as MANIFEST

DICTIONARY, LABELS = "dict.txt", "label/dict.txt"
"""Beside a checkpoint, with the files of its tokenizer and ``MANIFEST``, which says how its training texts were cut."""
Encoded = Dict[str, List[int]]
"""A row as its model reads it: ``input_ids`` and, for some models, further values for each of them."""


class FairseqClassifier:
    """
    Args:
        checkpoint: path, of ``linformer_roberta``, of RoBERTa or of the authors, with a classification head.
        head: which of its heads; None for the only one.
        dictionary: ``dict.txt``; None for the one beside the checkpoint.
        labels: ``dict.txt`` of the labels; None for ``label/dict.txt`` beside the checkpoint.
        cut: of texts longer than n, ``head`` or ``head+tail``; None for that of the manifest beside the checkpoint.

    Attributes:
        names: of the classes; empty where the head gives a score.
        names_assumed: there is no dictionary of labels, so that they are numbers.
        max_positions: n.

    Raises:
        ValueError: a file is missing, is not what it should be, or does not fit the others.
    """

    def __init__(
        self, checkpoint, device: str = "cpu", head: Optional[str] = None, dictionary=None, labels=None,
        cut: Optional[str] = None,
    ):  # fmt: skip
        self.path, self.device = Path(checkpoint), torch.device(device)
        self._cut = cut or _cut_beside(self.path)
        self.checkpoint = open_checkpoint(checkpoint)
        state = self.checkpoint["model"]
        name = _choose(self.path, state, head)
        cutting.check(max_positions(state), 1, self._cut)
        self.max_positions, self._entries = max_positions(state), state[EMBEDDINGS].size(0)
        self._dictionary = Path(dictionary) if dictionary else self.path.parent / DICTIONARY
        if dictionary:
            check_dictionary(self._dictionary, self._entries, self.path)
        self.is_score = bool(node(self.checkpoint, "task").get("regression_target"))
        self.model = build_model(self.checkpoint, name).to(self.device).eval()
        self._name = name
        classes = self.model.classification_heads[name].out_proj.out_features
        if labels and self.is_score:
            raise ValueError(f"--labels is {labels}; the head of {self.path} gives a score, which has none")
        beside = self.path.parent / LABELS
        self.names_assumed = not (self.is_score or labels or beside.is_file())
        if self.names_assumed:
            self.names = [str(i) for i in range(classes)]
        else:
            self.names = [] if self.is_score else _class_names(Path(labels or beside), classes)
        self._tokenizer: Optional[Tokenizer] = None

    def use_tokenizer(self, gpt2=None, sentencepiece=None) -> None:
        """Needed before ``encode``; by default its files lie beside the checkpoint. ValueError if one is missing."""
        check_dictionary(self._dictionary, self._entries, self.path)
        files = {"gpt2": gpt2, "sentencepiece": sentencepiece} if gpt2 or sentencepiece else None
        if not (files := files or tokenizer_beside(self.path.parent)):
            names = f"{SENTENCEPIECE}, nor {' and '.join(GPT2_FILES)}"
            raise ValueError(f"there is no {names}, beside {self.path}; --sentencepiece or --gpt2 names the tokenizer")
        self._tokenizer = load_tokenizer(**files, dictionary=self._dictionary)

    def check_same_dictionary(self, path) -> None:
        """Raise ValueError if the token numbers of ``path`` would mean something else to this model."""
        check_dictionary(Path(path), self._entries, self.path, same_as=[self._dictionary])

    def encode(self, texts: Sequence[Tuple[str, ...]]) -> List[Encoded]:
        """Rows of one text or two, each cut to n."""
        ids, sizes = zip(*(self._tokenizer.encode([row[i] for row in texts]) for i in range(len(texts[0]))))
        ids, sizes, _ = cutting.cut(ids, sizes, self.max_positions, self._cut)
        return self.joined([np.split(text, np.cumsum(size)[:-1]) for text, size in zip(ids, sizes)])

    def joined(self, inputs: Sequence[Sequence[np.ndarray]]) -> List[Encoded]:
        """Rows as fairseq's task reads them: ``<s> a </s>``, ``<s> a </s> </s> b </s>``.

        Args:
            inputs: for one text or two, the tokens of each row, each with </s> at its end.
        """
        task = node(self.checkpoint, "task")
        starts = (task.get("init_token", 0), task.get("separator_token", 2))
        rows = []
        for row in zip(*inputs):
            tokens = [token for start, text in zip(starts, row) for token in (start, *text.tolist())]
            rows.append({"input_ids": [token for token in tokens if token is not None][: self.max_positions]})
        return rows

    @torch.inference_mode()
    def logits(self, batch: Sequence[Encoded]) -> Tensor:
        """(B, C) in float32, on the CPU."""
        longest = max(len(row["input_ids"]) for row in batch)
        tokens = torch.full((len(batch), longest), PADDING_IDX)
        for i, row in enumerate(batch):
            tokens[i, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
        logits, _ = self.model(tokens.to(self.device), features_only=True, classification_head_name=self._name)
        return logits.float().cpu()


def open_checkpoint(path) -> Dict[str, Any]:
    """A checkpoint of ours, of RoBERTa or of the authors, under today's names; ValueError as ``read_checkpoint``."""
    checkpoint = from_authors(read_checkpoint(path))
    return {**checkpoint, "model": current_names(checkpoint["model"])}


def build_model(checkpoint: Dict[str, Any], head: Optional[str] = None) -> RobertaModel:
    """The model of a checkpoint, with its weights; without data.

    Args:
        checkpoint: as ``open_checkpoint`` gives it.
        head: a classification head that comes with it; None for none.

    Raises:
        ValueError: the weights do not fit the checkpoint's own options.
    """
    state, n = checkpoint["model"], max_positions(checkpoint["model"])
    if head is None:
        state = {key: value for key, value in state.items() if not key.startswith(CLASSIFICATION_HEADS)}
    args = Namespace(**{**node(checkpoint, "model"), "max_positions": n, "load_checkpoint_heads": False})
    architecture = LinformerRobertaModel if projections(state) else RobertaModel
    try:
        model = architecture.build_model(args, BareTask(state[EMBEDDINGS].size(0), n))
        if head is not None:
            prefix = f"{CLASSIFICATION_HEADS}{head}"
            # By prefix: with fairseq's spectral normalisation the key is weight_orig.
            dense, out = (
                next(value for key, value in state.items() if key.startswith(f"{prefix}.{part}.weight"))
                for part in ("dense", "out_proj")
            )
            model.register_classification_head(head, num_classes=out.size(0), inner_dim=dense.size(0))
        model.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"the weights do not fit the cfg of the checkpoint: {reason}") from None
    return model


def check_dictionary(
    path: Path, entries: int, checkpoint, hint: str = "--dictionary says where it is", same_as: Iterable[Path] = ()
) -> None:
    """Raise ValueError if a dictionary is missing or is not that of a model.

    Args:
        entries: of the model's embeddings.
        checkpoint: of the model.
        same_as: other dictionaries of the model; those that exist must be the same.
    """
    if not path.is_file():
        raise ValueError(f"there is no {path}, the dictionary of {checkpoint}; {hint}")
    dictionary = read_dictionary(path)
    found = len(dictionary) + ("<mask>" not in dictionary.symbols)  # which fairseq's task adds
    if found != entries:
        raise ValueError(
            f"{path} has {found:,} entries, with fairseq's own symbols; {checkpoint} has embeddings for {entries:,}: "
            "it is another dictionary"
        )
    for other in same_as:
        if other.is_file() and (at := difference(read_dictionary(other), dictionary)):
            raise ValueError(f"{path} is not the dictionary of {checkpoint}: {at}, as in {other}")


def difference(ours: Dictionary, theirs: Dictionary) -> Optional[str]:
    """Where two dictionaries first differ, in words; None if they are the same."""
    for i, (our, their) in enumerate(zip(ours.symbols, theirs.symbols)):
        if our != their:
            return f"entry {i} is {their!r} and should be {our!r}"
    return None if len(ours) == len(theirs) else f"it has {len(theirs):,} entries and should have {len(ours):,}"


def read_dictionary(path: Path) -> Dictionary:
    """A ``dict.txt``; ValueError if it is none of fairseq's."""
    try:
        return Dictionary.load(str(path))
    except (ValueError, RuntimeError, UnicodeDecodeError):
        raise ValueError(f"{path} is no dictionary of fairseq") from None


def label_names(path) -> List[str]:
    """The labels of a dictionary, in order, with fairseq's padding to a multiple of 8; ValueError if it is missing."""
    if not Path(path).is_file():
        raise ValueError(f"there is no {path}; it must be a dictionary of labels")
    return read_dictionary(Path(path)).symbols[FIRST:]


def _cut_beside(checkpoint: Path) -> str:
    manifest = checkpoint.parent / MANIFEST
    if not manifest.is_file():
        return cutting.HOW[0]
    try:
        return json.loads(manifest.read_text(encoding="utf-8")).get("cut", cutting.HOW[0])
    except (ValueError, AttributeError):
        raise ValueError(f"{manifest} cannot be read; --cut says how texts are cut") from None


def _choose(path, state, head: Optional[str]) -> str:
    names = head_names(state)
    if not names:
        raise ValueError(f"{path} has no classification head; `fairseq-linformer finetune` makes one")
    if head is None and len(names) > 1:
        raise ValueError(f"{path} has the heads {', '.join(names)}; --head names one")
    if head is not None and head not in names:
        raise ValueError(f"--head is {head}; {path} has {', '.join(names)}")
    return head or names[0]


def _class_names(path: Path, classes: int) -> List[str]:
    names = label_names(path)
    if len(names) < classes:
        raise ValueError(f"{path} names {len(names)} labels; the head has {classes} classes")
    return names[:classes]
