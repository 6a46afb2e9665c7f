"""Classifiers that are fairseq checkpoints, and the rows of folders in fairseq's layout, which only these can read."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..checkpoints.files import LABELS, find_companions, find_labels, get_cfg_section
from ..checkpoints.models import build_model, open_checkpoint
from ..data.columns import read_columns
from ..data.manifest import read_manifest
from ..data.tasks import TRUNCATIONS
from ..data.tokenizer import Tokenizer, load_tokenizer
from ..data.tokenizer_files import DICTIONARY, FILES_TEXT, find_tokenizer_files
from ..data.truncation import truncate
from ..models.datasets import open_dataset
from ..models.dictionaries import check_dictionary, read_dictionary, read_labels
from ..models.state_dicts import EMBEDDINGS, PADDING_IDX, choose_head, max_positions
from .classifier import Classifier, Encoding
from .encoded_rows import EncodedExample, build_target_lookup, check_split


class FairseqClassifier(Classifier):
    """A fairseq model with a classification head, its labels and its tokenizer.

    Args:
        checkpoint: path of a checkpoint of ``linformer_roberta``, RoBERTa or the authors' code.
        head: name of the classification head; None if there is only one.
        dictionary: ``dict.txt``; None for the one next to the checkpoint.
        labels: ``dict.txt`` of the labels; None for those of ``find_labels``.
        truncation: ``head`` or ``head+tail``, for inputs longer than n; None for that in the manifest next to the
            checkpoint.
        tokenizer: path of the tokenizer, which only ``encode`` needs; None for the one next to the checkpoint.

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
        tokenizer: Path | None = None,
    ):
        self.path, self.device = Path(checkpoint), torch.device(device)
        opened = open_checkpoint(checkpoint)
        state, self._task = opened["model"], get_cfg_section(opened, "task")
        name = choose_head(state, head, self.path)
        if name is None:
            raise ValueError(f"{self.path} has no classification head; train one with `fairseq-linformer finetune`")
        self._head, self._tokenizer_path = name, tokenizer
        self.max_positions, self._vocab_size = max_positions(state), state[EMBEDDINGS].size(0)
        manifest = read_manifest(self.path.parent)
        self._truncation = truncation or manifest.get("cut", TRUNCATIONS[0])
        self.num_inputs = manifest.get("num_inputs")
        self.columns = read_columns(manifest.get("source", {}))
        self._companions = find_companions(self.path, opened)
        self.dictionary = Path(dictionary) if dictionary else self._companions / DICTIONARY
        if dictionary:
            self.check_dictionary(self.dictionary)
        self.model = build_model(opened, name).to(self.device).eval()
        classes = self.model.classification_heads[name].out_proj.out_features
        is_score = bool(self._task.get("regression_target"))
        if labels and is_score:
            raise ValueError(f"--labels {labels} does not apply to {self.path}, whose head predicts a score")
        labels = labels or find_labels(self.path, opened, classes)
        self.has_default_names = not (is_score or labels)
        if self.has_default_names:
            self.names = [str(i) for i in range(classes)]
            print(f"no {LABELS} next to {self.path}; --labels FILE names its classes", file=sys.stderr)
        else:
            self.names = [] if is_score else read_labels(labels, classes)

    def check_dictionary(self, path: Path) -> None:
        """Raise ValueError if ``dict.txt`` is missing or is not the model's."""
        check_dictionary(path, self._vocab_size, self.path, same_as=[self.dictionary])

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        self.check_dictionary(self.dictionary)
        if not (path := self._tokenizer_path or find_tokenizer_files(self._companions)):
            raise ValueError(f"there is no tokenizer ({FILES_TEXT}) next to {self.path}; pass --tokenizer")
        return load_tokenizer(path, self.dictionary)

    def encode(self, rows: Sequence[tuple[str, ...]], truncated: bool) -> list[Encoding]:
        ids, sizes = zip(*(self._tokenizer.encode(column) for column in zip(*rows)))
        if truncated:
            ids, sizes, _ = truncate(ids, sizes, self.max_positions, self._truncation)
        inputs = [np.split(text, np.cumsum(size)[:-1]) for text, size in zip(ids, sizes)]
        return [self.join_inputs(row) for row in zip(*inputs)]

    def join_inputs(self, row: Iterable[np.ndarray]) -> Encoding:
        """Join the IDs of one or two texts, which end with </s>, as fairseq's task does: ``<s> a </s>``, or
        ``<s> a </s> </s> b </s>``."""
        starts = self._task.get("init_token", 0), self._task.get("separator_token", 2)
        tokens = [token for start, text in zip(starts, row) for token in (start, *text.tolist())]
        return {"input_ids": [token for token in tokens if token is not None]}

    @torch.inference_mode()
    def logits(self, batch: Sequence[Encoding]) -> Tensor:
        rows = [torch.tensor(row["input_ids"]) for row in batch]
        tokens = pad_sequence(rows, batch_first=True, padding_value=PADDING_IDX)
        logits, _ = self.model(tokens.to(self.device), features_only=True, classification_head_name=self._head)
        return logits.float().cpu()


def read_prepared_rows(
    classifier: FairseqClassifier, folder, split: str = "valid", truncated: bool = True
) -> tuple[int, Iterator[EncodedExample]]:
    """The number of rows, and the rows, truncated to n or whole, of a folder written by ``prepare`` or fairseq's own
    scripts.

    The classes of a model without label names get the names of the folder, which is assumed to be that of its training.
    """
    folder, manifest, n = Path(folder), read_manifest(folder), classifier.max_positions
    if truncated and (longer := manifest.get("max_positions", n)) > n:
        other = f"{folder} was prepared for n = {longer:,}, but the model has n = {n:,}"
        raise ValueError(f"{other}; prepare the data again, or pass the task with --source, or a file")
    check_split(folder / "input0", split)
    classifier.check_dictionary(folder / "input0" / DICTIONARY)
    inputs = [open_dataset(path / split) for path in sorted(folder.glob("input[01]"))]
    scores = folder / "label" / f"{split}.label"
    if ((folder / LABELS).is_file(), scores.is_file()) == (classifier.is_score, not classifier.is_score):
        kind, head = ("classes", "a score") if classifier.is_score else ("scores", "classes")
        raise ValueError(f"the labels of {folder} are {kind}, but the model's head predicts {head}")
    if classifier.is_score:
        labels = scores.read_text().splitlines()
    else:
        if classifier.has_default_names:
            classifier.names = read_labels(folder / LABELS, len(classifier.names))
        dictionary = read_dictionary(folder / LABELS)
        classes = open_dataset(folder / "label" / split)
        labels = [dictionary[int(classes[i][0])] for i in range(len(classes))]
    if len({len(labels), *map(len, inputs)}) > 1:
        raise ValueError(
            f"the inputs and labels of {split} in {folder} must have equally many rows, got "
            f"{', '.join(f'{len(part):,}' for part in (*inputs, labels))}; prepare the data again"
        )
    if prepared := manifest.get("splits", {}).get(split, {}).get("cut"):
        print(f"{prepared:,} of {len(labels):,} rows were truncated when they were prepared", file=sys.stderr)
    target_of, end = build_target_lookup(classifier), n if truncated else None

    def rows() -> Iterator[EncodedExample]:
        for i, label in enumerate(labels):
            ids = classifier.join_inputs(dataset[i].numpy() for dataset in inputs)["input_ids"]
            location = f"{folder} {split}:{i + 1}"
            read = {"input_ids": ids[:end]}
            yield EncodedExample(location, read, target_of(location, label), len(ids) - len(ids[:end]))

    return len(labels), rows()
