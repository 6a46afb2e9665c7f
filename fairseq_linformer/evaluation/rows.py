"""What is to be judged, encoded: from a file, from a task's own source, or from a folder that ``prepare`` wrote."""

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
        classifier: what has ``encode``.
        target: of a label, ``targets_of`` makes it.

    Raises:
        ValueError: a label that the head does not know, with its place; or as ``read_examples``.
    """
    examples = iter(examples)
    while batch := list(islice(examples, _AT_ONCE)):
        for example, encoded in zip(batch, classifier.encode([example.texts for example in batch])):
            try:
                yield Row(example.place, encoded, None if example.label is None else target(example.label))
            except KeyError:
                raise ValueError(f"{example.place} has the label {example.label!r}; the model's classes are {', '.join(classifier.names)}") from None
            except ValueError:
                raise ValueError(f"{example.place} has the label {example.label!r}; the model gives a score, and a number is wanted") from None


def targets_of(classifier) -> Callable[[str], float]:
    """From what a source calls a label to the number of the class.

    It may be the class's name, its number where names are no numbers, or what the sources of a task with these names call it.
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
    """Are the classes called by the numbers that their task gives them? Not all dictionaries of labels have them in this order."""
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
    """Texts of a row, where what lies beside the model says its task, or the names of the classes tell: those of one or of several that agree."""
    if isinstance(classifier, FairseqClassifier) and (task := prepared_task(classifier.path.parent)):
        return task.inputs
    found = {task.inputs for task in TASKS.values() if task.classes and classifier.names and sorted(task.names) == sorted(plain_names(classifier.names))}
    return found.pop() if len(found) == 1 else None


def task_examples(task: Task, source: str, split: str, max_skipped: float = MAX_SKIPPED) -> List[Example]:
    """The rows of a task as published; those that cannot be used are left out, as ``prepare`` does.

    Raises:
        ValueError: no such split, the source is missing or damaged, or too many rows cannot be used.
    """
    if split not in task.splits:
        raise ValueError(f"--split is {split}; {task.name} has {', '.join(task.splits)}")
    rows = [checked(task, row) for row in open_source(task, source).rows(split)]
    bad = [row for row in rows if row.reason]
    if len(bad) > max_skipped * len(rows) or len(bad) == len(rows):
        raise ValueError(f"{source}: {len(bad):,} of {len(rows):,} rows of {split} cannot be used" + (f"; the first is {bad[0]}" if bad else ""))
    if bad:
        print(f"{source}: {len(bad):,} of {len(rows):,} rows of {split} cannot be used and are left out; the first is {bad[0]}", file=sys.stderr)
    return [Example(row.place, row.texts, row.label if task.classes else str(score(task, row.label))) for row in rows if not row.reason]


def is_prepared(path) -> bool:
    """Is this a folder for fairseq's ``sentence_prediction``?"""
    return all((Path(path) / "input0" / name).is_file() for name in ("dict.txt", "train.idx", "train.bin"))


def prepared_task(folder) -> Optional[Task]:
    """Of which task a folder is; None if it does not say.

    Raises:
        ValueError: its manifest cannot be read.
    """
    path = Path(folder) / MANIFEST
    if not path.is_file():
        return None
    try:
        return TASKS.get(json.loads(path.read_text(encoding="utf-8")).get("task"))
    except (ValueError, AttributeError):
        raise ValueError(f"{path} cannot be read; prepare the data anew") from None


def prepared_rows(classifier: FairseqClassifier, folder, split: str) -> Tuple[int, Iterator[Row]]:
    """The rows of a folder that ``prepare`` or fairseq's own scripts wrote, and how many there are.

    Raises:
        ValueError: the split is missing, or its parts have not the same number of rows; or the dictionary or the labels are not those of the model.
    """
    folder = Path(folder)
    classifier.check_same_dictionary(folder / "input0" / "dict.txt")
    inputs = [open_dataset(path / split) for path in sorted(folder.glob("input[01]"))]
    for dataset in inputs[1:]:
        _check_rows(folder / "input1" / split, len(dataset), len(inputs[0]))
    targets = _targets(classifier, folder, split, len(inputs[0]))

    def rows() -> Iterator[Row]:
        for start in range(0, len(targets), _AT_ONCE):
            places = range(start, min(start + _AT_ONCE, len(targets)))
            encoded = classifier.joined([[dataset[i].numpy() for i in places] for dataset in inputs])
            for i, row in zip(places, encoded):
                yield Row(f"{folder} {split}:{i + 1}", row, targets[i])

    return len(targets), rows()


def _check_rows(path: Path, there: int, rows: int) -> None:
    if there != rows:
        raise ValueError(f"{path} has {there:,} rows and input0 of the same split {rows:,}; prepare the data anew")


def _score(text: str, place: str) -> float:
    try:
        return _finite(text)
    except ValueError:
        raise ValueError(f"{place} is {text!r}; a score is wanted") from None


def open_dataset(prefix: Path) -> MMapIndexedDataset:
    """Rows of numbers, as fairseq has them.

    Raises:
        ValueError: they are not there, or a file of them is cut off.
    """
    if not MMapIndexedDataset.exists(str(prefix)):
        there = sorted(path.stem for path in prefix.parent.glob("*.idx"))
        raise ValueError(f"there is no {prefix}.idx; {prefix.parent} has {', '.join(there) or 'no split'}")
    try:
        dataset = MMapIndexedDataset(str(prefix))
    except (ValueError, AssertionError, EOFError, struct.error):
        raise ValueError(f"{prefix}.idx cannot be read; it is cut off, or none of fairseq's: prepare the data anew") from None
    wanted, there = int(dataset.sizes.sum()) * np.dtype(dataset._index.dtype).itemsize, prefix.with_name(prefix.name + ".bin").stat().st_size
    if wanted != there:
        raise ValueError(f"{prefix}.bin has {there:,} bytes and {prefix.name}.idx speaks of {wanted:,}; it is cut off, prepare the data anew")
    return dataset


def _targets(classifier: FairseqClassifier, folder: Path, split: str, rows: int) -> Sequence[Optional[float]]:
    scores = folder / "label" / f"{split}.label"
    if classifier.is_score != scores.is_file():
        raise ValueError(f"{folder} has {'classes' if classifier.is_score else 'scores'} for labels, the model's head gives {'a score' if classifier.is_score else 'classes'}")
    if classifier.is_score:
        found = scores.read_text().splitlines()
        _check_rows(scores, len(found), rows)
        return [_score(line, f"{scores}:{i}") for i, line in enumerate(found, 1)]
    names = label_names(folder / "label" / "dict.txt")
    there = names[: len(classifier.names)]
    if classifier.names_assumed and numbered(there) and there != classifier.names:
        raise ValueError(f"{folder} has its labels in the order {', '.join(there)}, and nothing beside {classifier.path} says in which "
                         "the model has its classes; --labels FILE names them")  # fmt: skip
    number = targets_of(classifier)
    labels = open_dataset(folder / "label" / split)
    _check_rows(folder / "label" / split, len(labels), rows)
    classes = np.array([int(labels[i][0]) for i in range(rows)]) - FIRST
    found = {}
    for c in np.unique(classes):
        if not 0 <= c < len(names):
            raise ValueError(f"{folder} {split}:{int(np.argmax(classes == c)) + 1} has no label of {folder / 'label' / 'dict.txt'}; prepare the data anew")
        name = names[c]
        try:
            found[c] = number(name)
        except KeyError:
            hint = "; --labels FILE names them" if all(known.isdigit() for known in classifier.names) else ""
            raise ValueError(f"{folder} has the label {name!r}; the model's classes are {', '.join(classifier.names)}{hint}") from None
    return [found[c] for c in classes]
