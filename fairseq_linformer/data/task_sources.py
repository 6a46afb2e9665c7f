"""Where the rows of a task come from: the hub, a folder with its files or with the official ones, or a user's files."""

import hashlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import first_line
from ..files import sha256
from .tables import FORMATS, Row, build_row, check_columns, find_format, read_table
from .tasks import OWN, TASKS, Table, Task, own_task
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
Columns = tuple[tuple[str, ...], str]
"""One or two text columns and their label column."""
_COLUMNS: set[Columns] = {
    (tuple(task.tsv.texts), task.tsv.label) for task in TASKS.values() if task.tsv and task.tsv.columns is None
}
_KNOWN = sorted({(("text",), "label"), *_COLUMNS}, key=lambda known: (-len(known[0]), known))
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
    table: Table
    description: Mapping[str, Any]
    valid_share: float = 0.0

    def read_rows(self, split: str) -> Iterator[Row]:
        """All rows of a split; unusable ones are not held out."""
        for row in self.read_files(split):
            if not self.valid_share or (split == "valid") == self.is_held_out(row):
                yield row

    def is_held_out(self, row: Row) -> bool:
        """Whether a row is ``valid``, if both splits are of the same file."""
        digest = hashlib.blake2b("\t".join(row.texts).encode(), digest_size=8).digest()
        return not row.problem and int.from_bytes(digest, "big") < self.valid_share * 2.0**64

    def read_files(self, split: str) -> Iterator[Row]:
        """All rows of the files of a split."""
        texts, label = self.table.texts, self.table.label
        for name, path in self.files[split].items():
            if path.suffix == ".txt":
                text = path.read_bytes().decode("utf-8", "surrogateescape")
                yield build_row(name, {texts[0]: text, label: path.parent.name}, texts, label)
                continue
            is_checked = False
            for number, record in read_table(path, self.table.columns):
                if not is_checked and isinstance(record, dict):
                    check_columns(path, record, (*texts, label))
                    is_checked = True
                yield build_row(f"{name}:{number}", record, texts, label)


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


def _open_hub(task: Task, table: Table) -> TaskFiles:
    from huggingface_hub import snapshot_download

    name, revision = task.hub_name
    try:
        folder = snapshot_download(
            name, repo_type="dataset", revision=revision, allow_patterns=list(table.files.values())
        )
    except OSError as error:
        raise ValueError(f"the dataset {name} of the hub cannot be read: {first_line(error)}") from None
    return TaskFiles(_list_files(task, Path(folder), table), table, {"kind": "hub", "name": name, "revision": revision})


def _list_files(task: Task, root: Path, table: Table) -> dict[str, dict[str, Path]]:
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


def open_own(train, valid=None, texts: Sequence[str] = (), label: str | None = None) -> tuple[Task, TaskFiles]:
    """A user's own task: its classes are the labels of ``train``, sorted.

    Args:
        train: tabular file, or a folder with ``train`` and maybe ``valid``, ``validation`` or ``dev`` in any format.
        valid: tabular file; None to hold out ``HELD_OUT_SHARE`` of the rows of ``train`` by the hash of their texts, so
            that equal texts are in the same split.
        texts: columns of one or two texts; empty to recognize them by name, as ``label`` if it is None.
    """
    if Path(folder := train).is_dir():
        train, valid = _find_split(folder, "train"), valid or _find_split(folder, *VALID_NAMES)
        if train is None:
            raise ValueError(
                f"{folder} must be a folder that `prepare` wrote, or have a file train{', train'.join(FORMATS)}"
            )
    paths = {"train": Path(train), "valid": Path(valid or train)}
    for path in paths.values():
        find_format(path)
    record = next((record for _, record in read_table(paths["train"]) if isinstance(record, dict)), None)
    if record is None:
        raise ValueError(f"{train} has no rows")
    texts, label = choose_columns(train, record, tuple(texts), label)
    if label is None:
        raise ValueError(f"{train} needs --label-column; choose from {', '.join(record)}")
    checksums = {split: sha256(path) for split, path in paths.items()}
    description: dict[str, Any] = {"kind": "own files", "text_columns": list(texts), "label_column": label}
    if valid is None:
        checksums = {"train": checksums["train"]}
        description["kind"] = f"own file, {100 * HELD_OUT_SHARE:g} % held out by the hash of the text"
    source = TaskFiles(
        {split: {path.name: path} for split, path in paths.items()},
        Table({}, texts, label),
        {**description, "sha256": checksums},
        valid_share=HELD_OUT_SHARE if valid is None else 0.0,
    )
    rows = list(source.read_files("train"))
    check_unusable(source, "train", [row for row in rows if row.problem], len(rows))
    kept = [row for row in rows if not source.is_held_out(row)]
    if valid is None and len(kept) == len(rows):
        raise ValueError(f"{train} has only {len(rows):,} rows, too few to hold some out; pass --valid")
    classes = sorted({str(row.label) for row in rows if not row.problem})
    if len(classes) < 2:
        raise ValueError(f"{train} must have at least two labels in {label}, got {classes[0]}")
    if reserved := sorted({*SYMBOLS} & {*classes}):
        raise ValueError(
            f"labels of {train} must not be {', '.join(SYMBOLS)}, which fairseq reserves, got {reserved[0]}"
        )
    shown = ", ".join(classes[:SHOWN_CLASSES]) + ", ..." * (len(classes) > SHOWN_CLASSES)
    print(f"{train}: {len(classes):,} classes in {len(rows):,} rows: {shown}", file=sys.stderr)
    if unseen := sorted({*classes} - {row.label for row in kept}):
        print(f"warning: the held-out rows alone have {len(unseen):,} classes, such as {unseen[0]}", file=sys.stderr)
    return own_task(classes, len(texts)), source


def _find_split(folder, *names: str) -> Path | None:
    """The file of a split in a folder; None if there is none."""
    found = [path for path in sorted(Path(folder).iterdir()) if path.stem in names and path.suffix.lower() in FORMATS]
    if len(found) > 1:
        raise ValueError(f"{folder} must have one file of {names[0]}, got {', '.join(path.name for path in found)}")
    return found[0] if found else None


def choose_columns(
    name,
    record: dict[str, Any],
    texts: tuple[str, ...],
    label: str | None,
    inputs: int | None = None,
    trained: Columns | None = None,
) -> tuple[tuple[str, ...], str | None]:
    """The text columns of a file, and its label column or None, which are printed.

    Args:
        name: of the file, for messages.
        record: its first record.
        texts: those that are set; empty to recognize them by the names of the tasks, or ``text``.
        label: the one that is set; None to recognize it.
        inputs: texts per row, if known.
        trained: columns of a model's own training data, which are recognized first.
    """
    if not texts and trained and {*trained[0]} <= {*record}:
        texts = trained[0]
    if not texts:
        matches = [known for known, _ in _KNOWN if {*known} <= {*record} and inputs in (None, len(known))]
        longest = list(dict.fromkeys(known for known in matches if len(known) == len(matches[0])))
        if not longest:
            raise ValueError(f"{name} needs --text-column; choose from {', '.join(record)}")
        if len(longest) > 1:
            choices = " and in ".join(" with ".join(pair) for pair in longest)
            raise ValueError(f"{name} has text in {choices}; choose with --text-column")
        texts = longest[0]
    usual = [known_label for known, known_label in ([trained] if trained else []) + _KNOWN if known == texts]
    label = label or next((column for column in (*usual, "label") if column in record), None)
    columns = (*texts, label) if label else texts
    if len(texts) not in ((1, 2) if inputs is None else (inputs,)) or len({*columns}) < len(columns):
        expected = f"{inputs or 'one or two'} different columns, and --label-column another"
        raise ValueError(f"--text-column must be {expected}, got {', '.join(columns)}")
    check_columns(name, record, columns)
    labels = f"labels in {label}" if label else "no labels"
    print(f"{name}: text in {' and '.join(texts)}, {labels}", file=sys.stderr)
    return texts, label


def read_task_rows(task: Task, source: TaskFiles, split: str) -> list[Row]:
    """All rows of a split; those with a label that is not the task's are unusable."""
    rows = []
    for row in source.read_rows(split):
        if not row.problem:
            try:
                task.target(str(row.label))
            except ValueError as error:
                if task.name == OWN:
                    known = f"the training file has {', '.join(task.class_names)}"
                    raise ValueError(f"{row.location}: {error}; {known}") from None
                row = replace(row, problem=str(error))
        rows.append(row)
    return rows


def check_unusable(source: TaskFiles, split: str, unusable: Sequence[Row], total: int) -> None:
    """Raise ValueError if a split has no rows, or more than ``MAX_UNUSABLE`` of them are unusable."""
    if not total:
        raise ValueError(f"{next(iter(source.files[split].values()))} has no rows")
    if len(unusable) > MAX_UNUSABLE * total:
        raise ValueError(
            f"at most {100 * MAX_UNUSABLE:g} % of the rows of {split} may be unusable, got {len(unusable):,} of "
            f"{total:,}; the first is {unusable[0]}"
        )
