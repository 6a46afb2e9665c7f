"""Where the rows of a task come from: the hub, a folder with its files or with the official ones, or a user's files."""

import hashlib
import math
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import first_line
from ..files import sha256
from .tables import FORMATS, Example, build_example, check_columns, find_format, open_table, suffix_of
from .tasks import OWN, TASKS, Task, TaskTable, label_key, own_task, parse_score
from .tokenizer_json import SYMBOLS

ACL_IMDB = "aclImdb"
"""The folder of IMDB's official texts."""
MAX_UNUSABLE = 0.01
"""Largest share of a split's rows that may be unusable; official files have a few."""
VALID_NAMES = ("valid", "validation", "dev")
"""Names of the validation file of a user's folder."""
HELD_OUT_SHARE = 0.1
"""Share of a user's rows that is held out if there is no validation file."""
SHOWN_CLASSES = 10
MAX_NUMBERED_CLASSES = 20
"""More different numbers may be scores; ``--regression`` says whether they are."""
Columns = tuple[tuple[str, ...], str]
"""One or two text columns and their label column."""
_COLUMNS: set[Columns] = {
    (tuple(task.tsv.texts), task.tsv.label) for task in TASKS.values() if task.tsv and task.tsv.columns is None
}
_USUAL = sorted({(("text",), "label"), *_COLUMNS}, key=lambda usual: (-len(usual[0]), usual))
"""Columns to look for, those of pairs before those of single texts."""


@dataclass(frozen=True)
class TaskFiles:
    """Files with the rows of a task.

    Attributes:
        files: those of each split, in the order of their rows, by the name for messages.
        table: their columns.
        description: JSON that identifies the data, without local paths.
        valid_share: share of the rows that are ``valid``, if both splits are of the same file.
    """

    files: Mapping[str, Mapping[str, Path]]
    table: TaskTable
    description: Mapping[str, Any]
    valid_share: float = 0.0

    def read_rows(self, split: str) -> Iterator[Example]:
        """All rows of a split; unusable ones are not held out."""
        for row in self.read_files(split):
            if not self.valid_share or (split == "valid") == self.is_held_out(row):
                yield row

    def is_held_out(self, row: Example) -> bool:
        """Whether a row is ``valid``, if both splits are of the same file."""
        digest = hashlib.blake2b("\t".join(row.texts).encode(), digest_size=8).digest()
        return not row.problem and int.from_bytes(digest, "big") < self.valid_share * 2.0**64

    def read_files(self, split: str) -> Iterator[Example]:
        """All rows of the files of a split."""
        texts, label = self.table.texts, self.table.label
        for name, path in self.files[split].items():
            if path.suffix == ".txt":
                text = path.read_bytes().decode("utf-8", "surrogateescape")
                yield build_example(name, {texts[0]: text, label: path.parent.name}, texts, label)
                continue
            columns = (*texts, label)
            known, read = open_table(path, header=self.table.columns)
            check_columns(path, known, columns if known else ())
            for number, record in read(columns):
                yield build_example(f"{name}:{number}", record, texts, label)


def read_columns(source: Mapping[str, Any]) -> Columns | None:
    """The columns in the ``description`` of a user's own files; None for other data."""
    return (tuple(source["text_columns"]), source["label_column"]) if "label_column" in source else None


def open_source(task: Task, source) -> TaskFiles:
    """Open a source of a task.

    Args:
        source: ``hub``, or the path of a folder with the official TSV files, with the texts of aclImdb, or with the
            hub's parquet files. The official files may also be in a subfolder with their published name.
    """
    assert task.tsv and task.hub
    if str(source) == "hub":
        return _open_hub(task, task.hub)
    path = Path(source)
    forms = (
        ("TSV files", task.folder, task.tsv),
        ("folder of texts", ACL_IMDB, task.reviews),
        ("parquet", "", task.hub),
    )
    for kind, folder, table in forms:
        for root in (path, path / folder):
            if table and any(next(root.glob(pattern), None) for pattern in table.files.values()):
                files = _list_files(task, root, table)
                checksums = {name: sha256(file) for split in files.values() for name, file in split.items()}
                if table is task.reviews:  # 50,000 files: the checksum of the output of ``sha256sum``
                    listing = "".join(f"{checksums[name]}  {name}\n" for name in sorted(checksums))
                    checksums = {ACL_IMDB: hashlib.sha256(listing.encode()).hexdigest()}
                return TaskFiles(files, table, {"kind": kind, "sha256": checksums})
    expected = ", ".join([*task.tsv.files.values()] + [f"or with {ACL_IMDB}"] * bool(task.reviews))
    expected = f"--source must be hub, or a folder with {expected}, or with the hub's {task.hub.files['train']}"
    if path.is_dir():
        raise ValueError(f"{path} has no files of {task.name}; {expected}")
    problem = "is not a folder; unpack archives first" if path.exists() else "does not exist"
    raise ValueError(f"{path} {problem}; {expected}")


def _open_hub(task: Task, table: TaskTable) -> TaskFiles:
    from huggingface_hub import snapshot_download

    name, revision = task.hub_name
    try:
        folder = snapshot_download(
            name, repo_type="dataset", revision=revision, allow_patterns=list(table.files.values())
        )
    except OSError as error:
        raise ValueError(f"the dataset {name} of the hub cannot be read: {first_line(error)}") from None
    return TaskFiles(_list_files(task, Path(folder), table), table, {"kind": "hub", "name": name, "revision": revision})


def _list_files(task: Task, root: Path, table: TaskTable) -> dict[str, dict[str, Path]]:
    """The files of each split by their path relative to ``root``, ordered by folder, then by number, then by name."""
    files = {}
    for split, pattern in table.files.items():
        if not (paths := list(root.glob(pattern))):
            raise ValueError(f"{root / pattern} does not exist; {task.name} needs it")
        files[split] = {path.relative_to(root).as_posix(): path for path in sorted(paths, key=_order)}
    return files


def _order(path: Path) -> tuple[Path, int, str]:
    number = re.match(r"\d+", path.name)
    return path.parent, int(number[0]) if number else 0, path.name


def open_own(
    train, valid=None, texts: Sequence[str] = (), label: str | None = None, regression: bool | None = None
) -> tuple[Task, TaskFiles]:
    """A user's own task: its classes are the labels of ``train``, sorted, or its labels are scores.

    Args:
        train: tabular file, or a folder with ``train`` and maybe ``valid``, ``validation`` or ``dev`` in any format.
        valid: tabular file; None to hold out ``HELD_OUT_SHARE`` of the rows of ``train`` by the hash of their texts, so
            that equal texts are in the same split.
        texts: columns of one or two texts; empty to recognize them by name, as ``label`` if it is None.
        regression: whether labels are scores; None if they are where some are numbers with a fraction, and all numbers.
    """
    train, valid = _find_own(Path(train), valid)
    known, _ = open_table(train)
    if not known:
        raise ValueError(f"{train} has no rows")
    texts, label = choose_columns(train, known, tuple(texts), label)
    if label is None:
        raise ValueError(f"{train} needs --label-column; choose from {', '.join(known)}")
    source = _own_files(train, valid, texts, label)
    examples = list(source.read_files("train"))
    check_unusable(source, "train", [each for each in examples if each.problem], len(examples))
    labels = [str(each.label) for each in examples if not each.problem]
    kept = {str(each.label) for each in examples if not (each.problem or source.is_held_out(each))}
    if valid is None and not any(map(source.is_held_out, examples)):
        raise ValueError(f"{train} has only {len(examples):,} rows, too few to hold some out; pass --valid")
    if are_scores(labels, regression, f"{label} of {train}"):
        source = replace(source, description={**source.description, "labels": "scores"})
        return _own_regression(train, labels, len(texts)), source
    return _own_classification(train, label, labels, kept, len(texts)), source


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
    for path in filter(None, (train, valid)):
        find_format(path)
    return train, Path(valid) if valid else None


def _find_split(folder: Path, *names: str) -> Path | None:
    """The file of a split in a folder; None if there is none."""
    found = [
        path for path in sorted(folder.iterdir()) if path.name.split(".")[0] in names and suffix_of(path) in FORMATS
    ]
    if len(found) > 1:
        raise ValueError(f"{folder} must have one file of {names[0]}, got {', '.join(path.name for path in found)}")
    return found[0] if found else None


def _own_files(train: Path, valid: Path | None, texts: Sequence[str], label: str) -> TaskFiles:
    """The files of a user's own task; without ``valid`` some rows of ``train`` are held out."""
    paths, kind = {"train": train, "valid": valid or train}, "own files"
    if valid is None:
        kind = f"own file, {100 * HELD_OUT_SHARE:g} % held out by the hash of the text"
    checksums = {split: sha256(path) for split, path in paths.items() if valid or split == "train"}
    description = {"kind": kind, "text_columns": list(texts), "label_column": label, "sha256": checksums}
    files = {split: {path.name: path} for split, path in paths.items()}
    return TaskFiles(files, TaskTable({}, texts, label), description, 0.0 if valid else HELD_OUT_SHARE)


def are_scores(labels: Collection[str], regression: bool | None, column: str) -> bool:
    """Whether labels are scores: if ``regression`` says so, or if it is None and all are numbers, some with a fraction.

    Args:
        column: name of the column and its file, for the ValueError if scores are not numbers, or if it is uncertain
            whether many different numbers are classes.
    """
    distinct = set(labels)
    words = sorted(label for label in distinct if not math.isfinite(parse_score(label)))
    if regression and words:
        raise ValueError(f"{column} must be numbers for --regression, got {words[0]!r}")
    numbers = {key for key in map(label_key, distinct) if isinstance(key, float)}
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
    spellings: dict[str | float, str] = {}
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
    hint = " (--regression for scores)" if len(classes) > 2 and all(type(key) is float for key in spellings) else ""
    print(f"{train}: {len(classes):,} classes in {len(labels):,} rows: {shown}{hint}", file=sys.stderr)
    if unseen := sorted(spellings[key] for key in spellings.keys() - {*map(label_key, kept)}):
        print(f"warning: the held-out rows alone have {len(unseen):,} classes, such as {unseen[0]}", file=sys.stderr)
    return own_task(classes, num_inputs)


def choose_columns(
    name,
    known: Collection[str],
    texts: tuple[str, ...],
    label: str | None,
    inputs: int | None = None,
    trained: Columns | None = None,
) -> tuple[tuple[str, ...], str | None]:
    """The text columns of a file, and its label column or None, which are printed.

    Args:
        name: of the file, for messages.
        known: its columns.
        texts: those that are set; empty to recognize them by the names of the tasks, or ``text``.
        label: the one that is set; None to recognize it.
        inputs: texts per row, if known.
        trained: columns of a model's own training data, which are recognized first.
    """
    if not texts and trained and {*trained[0]} <= {*known}:
        texts = trained[0]
    if not texts:
        matches = [usual for usual, _ in _USUAL if {*usual} <= {*known} and inputs in (None, len(usual))]
        longest = list(dict.fromkeys(usual for usual in matches if len(usual) == len(matches[0])))
        if not longest:
            raise ValueError(f"{name} needs --text-column; choose from {', '.join(known)}")
        if len(longest) > 1:
            choices = " and in ".join(" with ".join(pair) for pair in longest)
            raise ValueError(f"{name} has text in {choices}; choose with --text-column")
        texts = longest[0]
    usual = [usual_label for usual, usual_label in ([trained] if trained else []) + _USUAL if usual == texts]
    label = label or next((column for column in (*usual, "label") if column in known), None)
    columns = (*texts, label) if label else texts
    if len(texts) not in ((1, 2) if inputs is None else (inputs,)) or len({*columns}) < len(columns):
        expected = f"{inputs or 'one or two'} different columns, and --label-column another"
        raise ValueError(f"--text-column must be {expected}, got {', '.join(columns)}")
    check_columns(name, known, columns)
    labels = f"labels in {label}" if label else "no labels"
    print(f"{name}: text in {' and '.join(texts)}, {labels}", file=sys.stderr)
    return texts, label


def read_task_rows(task: Task, source: TaskFiles, split: str) -> list[Example]:
    """All rows of a split; those with a label that is not the task's are unusable."""
    rows = []
    for row in source.read_rows(split):
        if not row.problem:
            try:
                task.target(str(row.label))
            except ValueError as error:
                if task.name == OWN:
                    known = f"the training file has {', '.join(task.class_names) or 'numbers'}"
                    raise ValueError(f"{row.location}: {error}; {known}") from None
                row = replace(row, problem=str(error))
        rows.append(row)
    return rows


def check_unusable(source: TaskFiles, split: str, unusable: Sequence[Example], total: int) -> None:
    """Raise ValueError if a split has no rows, or more than ``MAX_UNUSABLE`` of them are unusable."""
    if not total:
        raise ValueError(f"{next(iter(source.files[split].values()))} has no rows")
    if len(unusable) > MAX_UNUSABLE * total:
        raise ValueError(
            f"at most {100 * MAX_UNUSABLE:g} % of the rows of {split} may be unusable, got {len(unusable):,} of "
            f"{total:,}; the first is {unusable[0]}"
        )
