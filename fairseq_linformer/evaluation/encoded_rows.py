"""Encoded rows: examples of a file or a task as model inputs. Those of a prepared folder need fairseq."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..data.manifest import read_manifest
from ..data.tables import Example
from ..data.task_sources import check_unusable, open_source, read_task_rows
from ..data.tasks import OWN, TASKS, Task, own_task
from ..data.tokenizer_files import DICTIONARY
from .classifier import Classifier, Encoding

T = TypeVar("T")
_CHUNK_ROWS = 1000
_CHUNK_CHARACTERS = 1 << 22
"""Characters tokenized together; their offsets and pieces take far more memory."""


@dataclass(frozen=True)
class EncodedExample:
    """An example as model input.

    Attributes:
        location: position in the source, for messages.
        encoded: model inputs.
        target: class index or score; None for an unlabeled row.
        dropped: number of tokens that truncation dropped.
    """

    location: str
    encoded: Encoding
    target: float | None = None
    dropped: int = 0


def encode_examples(
    classifier: Classifier, rows: Iterable[Example], task: Task | None = None, truncated: bool = True
) -> Iterator[EncodedExample]:
    """Tokenize rows.

    Args:
        task: the task of the rows, if known, for their labels.
        truncated: truncate to n; False for single sentences of any length, between two special tokens.
    """
    target_of = build_target_lookup(classifier, task)
    for batch in split_rows(rows, _CHUNK_ROWS, _CHUNK_CHARACTERS, lambda row: sum(map(len, row.texts))):
        texts = [row.texts for row in batch]
        if not truncated and (len(texts[0]) > 1 or len(classifier.encode([("",)], False)[0]["input_ids"]) != 2):
            raise ValueError("--stride needs one text per row, and a tokenizer that adds a token at both ends")
        encoded = classifier.encode(texts, truncated=False)
        lengths = [len(row["input_ids"]) for row in encoded]
        if long := [i for i, length in enumerate(lengths) if truncated and length > classifier.max_positions]:
            for i, row in zip(long, classifier.encode([texts[i] for i in long], truncated=True)):
                encoded[i] = row
        for example, row, length in zip(batch, encoded, lengths):
            target = None if example.label is None else target_of(example.location, example.label)
            yield EncodedExample(example.location, row, target, length - len(row["input_ids"]))


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


def build_target_lookup(classifier: Classifier, task: Task | None = None) -> Callable[[str, str], float]:
    """A function from the location and the label of a row to its score or class index.

    A label may be the class name, or the source's label for a task with these class names; numbers are equal in every
    spelling, see ``Task.target``. An index is a label only for a known ``task``, since files and models may number
    classes differently. Other labels raise ValueError.
    """
    if task and bool(task.score_range) != classifier.is_score:
        labels, head = ("scores", "classes") if task.score_range else ("classes", "a score")
        raise ValueError(f"the labels of {task.name} are {labels}, but the model's head predicts {head}")
    expected = f"the model's classes are {', '.join(classifier.names)}"
    names = normalize_names(classifier.names)
    if classifier.is_score:
        known, indices = task or own_task((), 1, (0, 1)), None  # which is not scaled
        expected = "the model predicts a score, so labels must be finite numbers"
    else:
        known = Task(OWN, _known_labels(names, task) | dict(zip(classifier.names, names)))
        indices = [names.index(name) for name in known.class_names]

    def target_of(location: str, label: str) -> float:
        try:
            target = known.target(label)
        except ValueError:
            raise ValueError(f"{location}: unknown label {label!r}; {expected}") from None
        return target if indices is None else indices[int(target)]

    return target_of


def _known_labels(names: list[str], task: Task | None) -> dict[str, str]:
    """The names by the labels that sources use for them."""
    if task and sorted(names) == [str(i) for i in range(len(task.class_names))]:  # in any order
        return {label: str(int(task.target(label))) for label in [*task.classes, *task.class_names]}
    matching = [each for each in ([task] if task else TASKS.values()) if sorted(each.class_names) == sorted(names)]
    return {label: name for each in matching for label, name in each.classes.items()}


def normalize_names(names: list[str]) -> list[str]:
    """Class names in the spelling of the tasks: models on the hub may use capitals, or LABEL_0."""
    normalized = [name.removeprefix("LABEL_").lower() for name in names]
    return normalized if len(set(normalized)) == len(normalized) else names


def read_task(
    classifier: Classifier, name: str, source: str = "hub", split: str = "valid", truncated: bool = True
) -> tuple[int, Iterator[EncodedExample]]:
    """The number of published rows of a task, and the rows, truncated to n or whole; unusable ones are skipped, as in
    ``prepare``."""
    task = TASKS[name]
    if split not in task.splits:
        raise ValueError(f"unknown --split {split!r} of {task.name}; choose from {', '.join(task.splits)}")
    rows = read_task_rows(task, open_source(task, source), split)
    unusable = [row for row in rows if row.problem]
    check_unusable(split, unusable, len(rows))
    if unusable:
        print(f"{len(unusable):,} of {len(rows):,} rows are skipped; the first is {unusable[0]}", file=sys.stderr)
    usable = [row for row in rows if not row.problem]
    return len(usable), encode_examples(classifier, usable, task, truncated)


def is_prepared(path) -> bool:
    """Whether a path is a folder for fairseq's ``sentence_prediction``."""
    return all((Path(path) / "input0" / name).is_file() for name in (DICTIONARY, "train.idx", "train.bin"))


def check_split(folder: Path, split: str) -> None:
    """Raise ValueError unless a folder has the binarized files of a split."""
    known = sorted(path.stem for path in folder.glob("*.idx"))
    if split not in known:
        raise ValueError(f"unknown --split {split!r} of {folder}; choose from {', '.join(known)}")


def read_prepared_task(folder) -> Task | None:
    """The task named by a folder's manifest, or None. Raises ValueError if the manifest is damaged."""
    manifest = read_manifest(folder)
    if manifest.get("task") == OWN:
        return own_task(manifest["classes"], manifest["num_inputs"], manifest.get("score_range"))
    return TASKS.get(manifest.get("task", ""))
