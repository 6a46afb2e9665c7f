"""Encoded rows to evaluate on: from a file, from a task's own source, or from a folder that ``prepare`` wrote."""

import json
import math
import struct
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
from fairseq.data.indexed_dataset import MMapIndexedDataset

from ..corpus.options import MAX_SKIPPED
from ..corpus.tokenizer import FIRST
from ..task_data.read import open_source
from ..task_data.rows import checked, score
from ..task_data.table import TASKS, Task
from .classifier import MANIFEST, Encoded, FairseqClassifier, label_names
from .texts import Example

_AT_ONCE = 1000


@dataclass(frozen=True)
class Row:
    """
    Attributes:
        place: in its source, for messages.
        encoded: as the model reads it.
        target: number of the class, or the score; None if it has no label.
    """

    place: str
    encoded: Encoded
    target: Optional[float] = None


def encode_rows(classifier, examples: Iterable[Example], target: Callable[[str], float]) -> Iterator[Row]:
    """
    Args:
        classifier: an object with ``encode``.
        target: from a label to its number, of ``targets_of``.

    Raises:
        ValueError: the head does not know a label, or as ``read_examples``.
    """
    examples = iter(examples)
    while batch := list(islice(examples, _AT_ONCE)):
        for example, encoded in zip(batch, classifier.encode([example.texts for example in batch])):
            try:
                yield Row(example.place, encoded, None if example.label is None else target(example.label))
            except (KeyError, ValueError) as error:
                expected = f"the model's classes are {', '.join(classifier.names)}"
                if isinstance(error, ValueError):
                    expected = "the model gives a score, and the label must be a number"
                raise ValueError(f"{example.place} has the label {example.label!r}; {expected}") from None


def targets_of(classifier) -> Callable[[str], float]:
    """From a source's label to the number of the class.

    A label may be the name of the class, its number where names are no numbers, or what the sources of a task with
    these names call it.
    """
    if classifier.is_score:
        return _finite
    names = plain_names(classifier.names)
    known: Dict[str, int] = {} if numbered(names) else {str(i): i for i in range(len(names))}
    for task in TASKS.values():
        if task.classes and sorted(task.names) == sorted(names):
            known.update({label: names.index(name) for label, name in task.classes.items()})
    known.update({name: i for i, name in [*enumerate(names), *enumerate(classifier.names)]})
    return known.__getitem__


def numbered(names: Sequence[str]) -> bool:
    """Whether classes are named by their task's numbers. Not every dictionary of labels has them in this order."""
    return sorted(names) == sorted(map(str, range(len(names))))


def plain_names(names: Sequence[str]) -> List[str]:
    """Classes as the tasks name them: a model of the hub may have them in capitals, or number them LABEL_0."""
    plain = [name.removeprefix("LABEL_").lower() for name in names]
    return plain if len(set(plain)) == len(plain) else list(names)


def _finite(label: str) -> float:
    if not math.isfinite(value := float(label)):
        raise ValueError(label)
    return value


def inputs_of(classifier) -> Optional[int]:
    """Texts per row, if the manifest beside the model names its task, or if all tasks with its classes agree on it."""
    if isinstance(classifier, FairseqClassifier) and (task := prepared_task(classifier.path.parent)):
        return task.inputs
    names = sorted(plain_names(classifier.names))
    inputs = {task.inputs for task in TASKS.values() if task.classes and sorted(task.names) == names}
    return inputs.pop() if len(inputs) == 1 else None


def task_examples(task: Task, source: str, split: str, max_skipped: float = MAX_SKIPPED) -> List[Example]:
    """The rows of a task as published; those that cannot be used are left out, as ``prepare`` does.

    Raises:
        ValueError: no such split, the source is missing or damaged, or too many rows cannot be used.
    """
    if split not in task.splits:
        raise ValueError(f"--split is {split}; {task.name} has {', '.join(task.splits)}")
    rows = [checked(task, row) for row in open_source(task, source).rows(split)]
    bad = [row for row in rows if row.reason]
    unused = f"{source}: {len(bad):,} of {len(rows):,} rows of {split} cannot be used"
    first = f"; the first is {bad[0]}" if bad else ""
    if len(bad) > max_skipped * len(rows) or len(bad) == len(rows):
        raise ValueError(unused + first)
    if bad:
        print(f"{unused} and are left out{first}", file=sys.stderr)
    good = [row for row in rows if not row.reason]
    return [Example(row.place, row.texts, row.label if task.classes else str(score(task, row.label))) for row in good]


def is_prepared(path) -> bool:
    """Whether this is a folder for fairseq's ``sentence_prediction``."""
    return all((Path(path) / "input0" / name).is_file() for name in ("dict.txt", "train.idx", "train.bin"))


def prepared_task(folder) -> Optional[Task]:
    """The task of a folder, None if it does not name one; ValueError if its manifest cannot be read."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        return None
    try:
        return TASKS.get(json.loads(path.read_text(encoding="utf-8")).get("task"))
    except (ValueError, AttributeError):
        raise ValueError(f"{path} cannot be read; prepare the data again") from None


def prepared_rows(classifier: FairseqClassifier, folder, split: str) -> Tuple[int, Iterator[Row]]:
    """The rows of a folder that ``prepare`` or fairseq's own scripts wrote, and their number.

    Raises:
        ValueError: the split is missing, its parts differ in their number of rows, or the dictionary or the labels are
            not those of the model.
    """
    folder = Path(folder)
    classifier.check_same_dictionary(folder / "input0" / "dict.txt")
    inputs = [open_dataset(path / split) for path in sorted(folder.glob("input[01]"))]
    for dataset in inputs[1:]:
        _check_count(folder / "input1" / split, len(dataset), len(inputs[0]))
    read_targets = _scores if classifier.is_score else _classes
    targets = read_targets(classifier, folder, split, len(inputs[0]))

    def rows() -> Iterator[Row]:
        for start in range(0, len(targets), _AT_ONCE):
            places = range(start, min(start + _AT_ONCE, len(targets)))
            encoded = classifier.joined([[dataset[i].numpy() for i in places] for dataset in inputs])
            for i, row in zip(places, encoded):
                yield Row(f"{folder} {split}:{i + 1}", row, targets[i])

    return len(targets), rows()


def _check_count(path: Path, found: int, rows: int) -> None:
    if found != rows:
        raise ValueError(f"{path} has {found:,} rows and input0 of the same split {rows:,}; prepare the data again")


def open_dataset(prefix: Path) -> MMapIndexedDataset:
    """Rows of token numbers, as fairseq has them; ValueError if they are missing, or a file of them is cut off."""
    if not MMapIndexedDataset.exists(str(prefix)):
        splits = sorted(path.stem for path in prefix.parent.glob("*.idx"))
        raise ValueError(f"there is no {prefix}.idx; {prefix.parent} has {', '.join(splits) or 'no split'}")
    try:
        dataset = MMapIndexedDataset(str(prefix))
    except (ValueError, AssertionError, EOFError, struct.error):
        raise ValueError(f"{prefix}.idx is cut off, or none of fairseq's; prepare the data again") from None
    expected = int(dataset.sizes.sum()) * np.dtype(dataset._index.dtype).itemsize
    found = Path(f"{prefix}.bin").stat().st_size
    if expected != found:
        sizes = f"{found:,} bytes instead of the {expected:,} of {prefix.name}.idx"
        raise ValueError(f"{prefix}.bin has {sizes}; it is cut off, prepare the data again")
    return dataset


def _scores(classifier: FairseqClassifier, folder: Path, split: str, rows: int) -> List[float]:
    path = folder / "label" / f"{split}.label"
    if not path.is_file():
        raise ValueError(f"{folder} has classes for labels, the model's head gives a score")
    lines = path.read_text().splitlines()
    _check_count(path, len(lines), rows)
    scores = []
    for i, line in enumerate(lines, 1):
        try:
            scores.append(_finite(line))
        except ValueError:
            raise ValueError(f"{path}:{i} is {line!r}; it must be a score") from None
    return scores


def _classes(classifier: FairseqClassifier, folder: Path, split: str, rows: int) -> List[int]:
    if (folder / "label" / f"{split}.label").is_file():
        raise ValueError(f"{folder} has scores for labels, the model's head gives classes")
    path = folder / "label" / "dict.txt"
    names = label_names(path)
    first = names[: len(classifier.names)]
    if classifier.names_assumed and numbered(first) and first != classifier.names:
        raise ValueError(
            f"{folder} has its labels in the order {', '.join(first)}, and nothing beside {classifier.path} gives "
            "the order of the model's classes; --labels FILE names them"
        )
    labels = open_dataset(folder / "label" / split)
    _check_count(folder / "label" / split, len(labels), rows)
    classes = np.array([int(labels[i][0]) for i in range(rows)]) - FIRST
    if (bad := (classes < 0) | (classes >= len(names))).any():
        raise ValueError(f"{folder} {split}:{int(np.argmax(bad)) + 1} has no label of {path}; prepare the data again")
    number, numbers = targets_of(classifier), {}
    for c in np.unique(classes):
        try:
            numbers[c] = number(names[c])
        except KeyError:
            hint = "; --labels FILE names them" if all(name.isdigit() for name in classifier.names) else ""
            known = ", ".join(classifier.names)
            raise ValueError(f"{folder} has the label {names[c]!r}; the model's classes are {known}{hint}") from None
    return [numbers[c] for c in classes]
