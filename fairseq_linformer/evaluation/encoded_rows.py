"""Encoded rows: from examples of a file or a task, or from a folder written by ``prepare``."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from ..data.manifest import MANIFEST
from ..data.tables import Row
from ..data.task_sources import check_unusable, open_source, read_task_rows
from ..data.tasks import OWN, TASKS, Task, own_task
from ..data.tokenizer import FIRST_ID
from ..files import read_json
from ..models.datasets import open_dataset
from ..models.dictionaries import read_labels
from .classifier import Encoding, FairseqClassifier
from .strided import StridedClassifier

T = TypeVar("T")
_CHUNK_ROWS = 1000
_CHUNK_CHARACTERS = 1 << 22
"""Characters tokenized together; their offsets and pieces take far more memory."""


@dataclass(frozen=True)
class EncodedRow:
    """A row as model input.

    Attributes:
        location: position in the source, for messages.
        encoded: model inputs.
        target: class index or score; None for an unlabeled row.
    """

    location: str
    encoded: Encoding
    target: float | None = None


def encode_rows(classifier, rows: Iterable[Row], target: Callable[[str], float]) -> Iterator[EncodedRow]:
    """Tokenize rows.

    Args:
        classifier: an object with ``encode``.
        target: maps a label to its target, see ``build_target_lookup``.

    Raises:
        ValueError: a label is not one of the head's, or as ``rows``.
    """
    for batch in split_rows(rows, _CHUNK_ROWS, _CHUNK_CHARACTERS, lambda row: sum(map(len, row.texts))):
        for row, encoded in zip(batch, classifier.encode([row.texts for row in batch])):
            try:
                yield EncodedRow(row.location, encoded, None if row.label is None else target(row.label))
            except (KeyError, ValueError) as error:
                expected = f"the model's classes are {', '.join(classifier.names)}"
                if isinstance(error, ValueError):
                    expected = "the model predicts a score, so labels must be finite numbers"
                raise ValueError(f"{row.location}: unknown label {row.label!r}; {expected}") from None


def split_rows(rows: Iterable[T], max_rows: int, max_size: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Split rows into batches; a batch ends when it has ``max_rows`` rows, or a size of at least ``max_size``."""
    batch: list[T] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += size_of(row)
        if len(batch) == max_rows or size >= max_size:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def build_target_lookup(classifier) -> Callable[[str], float]:
    """A function from a label to its score or class index; it raises ValueError or KeyError for an unknown label.

    A label may be the class name, or the source's label for a task with these class names. An index is no label: files
    and models may number classes differently.
    """
    if classifier.is_score:
        return _parse_score
    names = normalize_names(classifier.names)
    known: dict[str, int] = {}
    for task in TASKS.values():
        if task.classes and sorted(task.class_names) == sorted(names):
            known.update({label: names.index(name) for label, name in task.classes.items()})
    known.update({name: i for i, name in [*enumerate(names), *enumerate(classifier.names)]})
    return known.__getitem__


def is_numbered(names: Sequence[str]) -> bool:
    """Whether the class names are 0, 1, ..., in any order, because not all label dictionaries are sorted."""
    return sorted(names) == sorted(map(str, range(len(names))))


def normalize_names(names: Sequence[str]) -> list[str]:
    """Class names in the spelling of the tasks: models on the hub may use capitals, or LABEL_0."""
    normalized = [name.removeprefix("LABEL_").lower() for name in names]
    return normalized if len(set(normalized)) == len(normalized) else list(names)


def _parse_score(label: str) -> float:
    if not math.isfinite(value := float(label)):
        raise ValueError(label)
    return value


def num_inputs(classifier) -> int | None:
    """Sentences per row, if the manifest next to the model names its task, or if all tasks with its classes agree."""
    if isinstance(classifier, StridedClassifier):
        return 1
    if isinstance(classifier, FairseqClassifier) and (task := read_prepared_task(classifier.path.parent)):
        return task.num_inputs
    names = sorted(normalize_names(classifier.names))
    inputs = {task.num_inputs for task in TASKS.values() if task.classes and sorted(task.class_names) == names}
    return inputs.pop() if len(inputs) == 1 else None


def read_published_rows(task: Task, source: str, split: str) -> list[Row]:
    """The published rows of a task; unusable ones are skipped, as in ``prepare``. Scores are scaled.

    Raises:
        ValueError: the split is unknown, the source is missing or damaged, or too many rows are unusable.
    """
    if split not in task.splits:
        raise ValueError(f"unknown --split {split!r} of {task.name}; choose from {', '.join(task.splits)}")
    opened = open_source(task, source)
    rows = read_task_rows(task, opened, split)
    unusable = [row for row in rows if row.problem]
    check_unusable(opened, split, unusable, len(rows))
    if unusable:
        print(f"{len(unusable):,} of {len(rows):,} rows are skipped; the first is {unusable[0]}", file=sys.stderr)
    usable = [row for row in rows if not row.problem]
    if task.score_range:
        return [replace(row, label=str(task.target(str(row.label)))) for row in usable]
    return usable


def is_prepared(path) -> bool:
    """Whether a path is a folder for fairseq's ``sentence_prediction``."""
    return all((Path(path) / "input0" / name).is_file() for name in ("dict.txt", "train.idx", "train.bin"))


def read_prepared_task(folder) -> Task | None:
    """The task named by a folder's manifest, or None. Raises ValueError if the manifest cannot be read."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest = read_json(path)
        if manifest.get("task") == OWN:
            return own_task(manifest["classes"], manifest["num_inputs"])
        return TASKS.get(manifest.get("task"))
    except (ValueError, KeyError, AttributeError, TypeError):
        raise ValueError(f"{path} cannot be read; prepare the data again") from None


def read_prepared_rows(classifier: FairseqClassifier, folder, split: str) -> tuple[int, Iterator[EncodedRow]]:
    """The number of rows, and the rows, of a folder written by ``prepare`` or fairseq's own scripts.

    Raises:
        ValueError: the split is missing, its files have different numbers of rows, or dictionary or labels differ from
            the model's.
    """
    folder = Path(folder)
    classifier.check_same_dictionary(folder / "input0" / "dict.txt")
    inputs = [open_dataset(path / split) for path in sorted(folder.glob("input[01]"))]
    for dataset in inputs[1:]:
        _check_count(folder / "input1" / split, len(dataset), len(inputs[0]))
    read_targets = _read_scores if classifier.is_score else _read_classes
    targets = read_targets(classifier, folder, split, len(inputs[0]))

    def rows() -> Iterator[EncodedRow]:
        for start in range(0, len(targets), _CHUNK_ROWS):
            indices = range(start, min(start + _CHUNK_ROWS, len(targets)))
            encoded = classifier.join_inputs([[dataset[i].numpy() for i in indices] for dataset in inputs])
            for i, row in zip(indices, encoded):
                yield EncodedRow(f"{folder} {split}:{i + 1}", row, targets[i])

    return len(targets), rows()


def _check_count(path: Path, rows: int, expected: int) -> None:
    if rows != expected:
        raise ValueError(f"{path} must have {expected:,} rows, like input0, got {rows:,}; prepare the data again")


def _read_scores(classifier: FairseqClassifier, folder: Path, split: str, rows: int) -> list[float]:
    path = folder / "label" / f"{split}.label"
    if not path.is_file():
        raise ValueError(f"the labels of {folder} are classes, but the model's head predicts a score")
    lines = path.read_text().splitlines()
    _check_count(path, len(lines), rows)
    scores = []
    for i, line in enumerate(lines, 1):
        try:
            scores.append(_parse_score(line))
        except ValueError:
            raise ValueError(f"{path}:{i} must be a finite number, got {line!r}") from None
    return scores


def _read_classes(classifier: FairseqClassifier, folder: Path, split: str, rows: int) -> list[float]:
    if (folder / "label" / f"{split}.label").is_file():
        raise ValueError(f"the labels of {folder} are scores, but the model's head predicts classes")
    path = folder / "label" / "dict.txt"
    names = read_labels(path)
    first = names[: len(classifier.names)]
    if classifier.has_default_names and is_numbered(first) and first != classifier.names:
        raise ValueError(
            f"{folder} has its labels in the order {', '.join(first)}, and no file next to {classifier.path} gives "
            "the order of the model's classes; set it with --labels FILE"
        )
    labels = open_dataset(folder / "label" / split)
    _check_count(folder / "label" / split, len(labels), rows)
    classes = np.array([int(labels[i][0]) for i in range(rows)]) - FIRST_ID
    if (bad := (classes < 0) | (classes >= len(names))).any():
        raise ValueError(
            f"{folder} {split}:{int(np.argmax(bad)) + 1} has a label that is not in {path}; prepare the data again"
        )
    target_of = build_target_lookup(classifier)
    targets: dict[int, float] = {}
    for c in np.unique(classes):
        try:
            targets[c] = target_of(names[c])
        except KeyError:
            hint = "; name them with --labels FILE" if all(name.isdigit() for name in classifier.names) else ""
            known = ", ".join(classifier.names)
            raise ValueError(f"{folder} has the label {names[c]!r}; the model's classes are {known}{hint}") from None
    return [targets[c] for c in classes]
