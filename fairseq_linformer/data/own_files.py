"""A user's own task: files with classes or scores."""

import hashlib
import math
import sys
from collections.abc import Collection, Sequence
from decimal import Decimal
from pathlib import Path

from ..files import sha256
from .columns import choose_columns
from .tables import FORMATS, Example, build_example, find_format, open_table, suffix_of
from .task_sources import TaskFiles, check_unusable
from .tasks import Task, TaskTable, label_key, own_task, parse_score
from .tokenizer_json import SYMBOLS

VALID_NAMES = ("valid", "validation", "dev")
"""Names of the validation file of a user's folder."""
HELD_OUT_SHARE = 0.1
"""Share of a user's rows that is held out if there is no validation file."""
SHOWN_CLASSES = 10
MAX_NUMBERED_CLASSES = 20
"""More different numbers may be scores; ``--regression`` says whether they are."""


def open_own(
    train, valid=None, text_column: Sequence[str] = (), label_column: str | None = None, regression: bool | None = None
) -> tuple[Task, TaskFiles]:
    """A user's own task: its classes are the labels of ``train``, sorted, or its labels are scores.

    Args:
        train: tabular file, or a folder with ``train`` and maybe ``valid``, ``validation`` or ``dev`` in any format.
        valid: tabular file; None to hold out ``HELD_OUT_SHARE`` of the rows of ``train`` by the hash of their texts, so
            that equal texts are in the same split.
        text_column: columns of one or two texts; empty to recognize them by name, as ``label_column`` if it is None.
        regression: whether labels are scores; None if they are where some are numbers with a fraction, and all numbers.
    """
    train, valid = _find_own(Path(train), valid)
    known, read = open_table(train)
    if not known:
        raise ValueError(f"{train} has no rows")
    texts, label = choose_columns(train, known, tuple(text_column), label_column)
    if label is None:
        raise ValueError(f"{train} needs --label-column; choose from {', '.join(known)}")
    paths = {"train": train, "valid": valid} if valid else {"train": train}
    checksums = {split: sha256(path) for split, path in paths.items()}
    records = read([*texts, label])
    examples = [build_example(f"{train.name}:{number}", record, texts, label) for number, record in records]
    if not examples:
        raise ValueError(f"{train} has no rows")
    rows = {"train": examples} if valid else _hold_out(examples)
    check_unusable("train", [each for each in rows["train"] if each.problem], len(rows["train"]))
    if valid is None and not rows["valid"]:
        raise ValueError(f"{train} has only {len(examples):,} rows, too few to hold some out; pass --valid")
    labels = [str(each.label) for each in examples if not each.problem]
    if is_score := are_scores(labels, regression, f"{label} of {train}"):
        task = _own_regression(train, labels, len(texts))
    else:
        kept = {str(each.label) for each in rows["train"] if not each.problem}
        task = _own_classification(train, label, labels, kept, len(texts))
    description = {
        "kind": "own files" if valid else f"own file, {100 * HELD_OUT_SHARE:g} % held out by the hash of the text",
        "text_columns": list(texts),
        "label_column": label,
        "sha256": checksums,
        **({"labels": "scores"} if is_score else {}),
    }
    files = {split: {path.name: path} for split, path in paths.items()}
    return task, TaskFiles(files, TaskTable({}, texts, label), description, rows)


def _find_own(train: Path, valid) -> tuple[Path, Path | None]:
    """The training file, and the validation file if there is one."""
    folder = train
    if folder.is_dir():
        found, valid = _find_split(folder, "train"), valid or _find_split(folder, *VALID_NAMES)
        if found is None:
            raise ValueError(
                f"{folder} must be a folder that `prepare` wrote, or have a file train{', train'.join(FORMATS)}"
            )
        train = found
    if valid:
        find_format(valid)
    return train, Path(valid) if valid else None


def _find_split(folder: Path, *names: str) -> Path | None:
    """The file of a split in a folder; None if there is none."""
    found = [
        path for path in sorted(folder.iterdir()) if path.name.split(".")[0] in names and suffix_of(path) in FORMATS
    ]
    if len(found) > 1:
        raise ValueError(f"{folder} must have one file of {names[0]}, got {', '.join(path.name for path in found)}")
    return found[0] if found else None


def _hold_out(examples: Sequence[Example]) -> dict[str, list[Example]]:
    """The rows of ``train`` and ``valid``, by the hash of their texts; unusable ones are not held out."""
    splits: dict[str, list[Example]] = {"train": [], "valid": []}
    for each in examples:
        digest = hashlib.blake2b("\t".join(each.texts).encode(), digest_size=8).digest()
        is_held_out = not each.problem and int.from_bytes(digest, "big") < HELD_OUT_SHARE * 2.0**64
        splits["valid" if is_held_out else "train"].append(each)
    return splits


def are_scores(labels: Collection[str], regression: bool | None, column: str) -> bool:
    """Whether labels are scores: if ``regression`` says so, or if it is None and all are numbers, some with a fraction.

    Args:
        column: name of the column and its file, for the ValueError if scores are not numbers, or if it is uncertain
            whether many different numbers are classes.
    """
    scores = {label: parse_score(label) for label in set(labels)}
    words = sorted(label for label, score in scores.items() if not math.isfinite(score))
    if regression and words:
        raise ValueError(f"{column} must be numbers for --regression, got {words[0]!r}")
    numbers = set(filter(math.isfinite, scores.values()))
    has_scores = not words and any(number % 1 for number in numbers)
    if regression is None and not has_scores and len(numbers) > MAX_NUMBERED_CLASSES:
        others = f", and {words[0]!r}" if words else ""
        raise ValueError(
            f"{column} has {len(numbers):,} different numbers{others}: classes or a score? pass --no-regression or "
            "--regression"
        )
    return has_scores if regression is None else regression


def _own_regression(train: Path, labels: Sequence[str], num_inputs: int) -> Task:
    scores = [*map(parse_score, labels)]
    low, high = min(scores), max(scores)
    if low == high:
        raise ValueError(f"{train} must have at least two different scores, got {low:g}")
    scaled = f"scores from {low:g} to {high:g}, scaled to 0 to 1"
    print(f"{train}: {scaled}, in {len(labels):,} rows (--no-regression for classes)", file=sys.stderr)
    return own_task((), num_inputs, (low, high))


def _own_classification(train: Path, column: str, labels: Sequence[str], kept: set[str], num_inputs: int) -> Task:
    """The task, whose class of a number has its first spelling.

    Args:
        kept: the labels of rows that are not held out.
    """
    spellings: dict[str | Decimal, str] = {}
    for label in sorted({*labels}):
        spellings.setdefault(label_key(label), label)
    classes = sorted(spellings.values())
    if len(classes) < 2:
        raise ValueError(f"{train} must have at least two labels in {column}, got {classes[0]}")
    if reserved := sorted({*SYMBOLS} & {*classes}):
        raise ValueError(
            f"labels of {train} must not be {', '.join(SYMBOLS)}, which fairseq reserves, got {reserved[0]}"
        )
    shown = ", ".join(classes[:SHOWN_CLASSES]) + ", ..." * (len(classes) > SHOWN_CLASSES)
    are_numbers = all(isinstance(key, Decimal) for key in spellings)
    hint = " (--regression for scores)" if len(classes) > 2 and are_numbers else ""
    print(f"{train}: {len(classes):,} classes in {len(labels):,} rows: {shown}{hint}", file=sys.stderr)
    if unseen := sorted(spellings[key] for key in spellings.keys() - {*map(label_key, kept)}):
        print(f"warning: the held-out rows alone have {len(unseen):,} classes, such as {unseen[0]}", file=sys.stderr)
    return own_task(classes, num_inputs)
