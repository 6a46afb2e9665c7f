"""The files of a task, from the hub, from a folder with the hub's files, or from one with the official ones."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import first_line
from ..files import sha256
from .tables import Example, build_example, check_columns, open_table
from .tasks import OWN, Task, TaskTable

ACL_IMDB = "aclImdb"
"""The folder of IMDB's official texts."""
MAX_UNUSABLE = 0.01
"""Largest share of a split's rows that may be unusable; official files have a few."""


@dataclass(frozen=True)
class TaskFiles:
    """Files with the rows of a task.

    Attributes:
        files: those of each split, in the order of their rows, by the name for messages.
        table: their columns.
        description: JSON that identifies the data, without local paths.
        rows: those of a split that have been read already.
    """

    files: Mapping[str, Mapping[str, Path]]
    table: TaskTable
    description: Mapping[str, Any]
    rows: Mapping[str, Sequence[Example]] = field(default_factory=dict)

    def read_rows(self, split: str) -> Iterator[Example]:
        """All rows of a split."""
        if split in self.rows:
            yield from self.rows[split]
            return
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
    expected = f"hub, or an unpacked folder with {expected}, or with the hub's {task.hub.files['train']}"
    raise ValueError(f"--source must be {expected}, got {path}")


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


def read_task_rows(task: Task, source: TaskFiles, split: str) -> list[Example]:
    """All rows of a split, at least one; those with a label that is not the task's are unusable."""
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
    if not rows:
        raise ValueError(f"{next(iter(source.files[split].values()))} has no rows")
    return rows


def check_unusable(split: str, unusable: Sequence[Example], total: int) -> None:
    """Raise ValueError if more than ``MAX_UNUSABLE`` of the rows of a split are unusable."""
    if len(unusable) > MAX_UNUSABLE * total:
        raise ValueError(
            f"at most {100 * MAX_UNUSABLE:g} % of the rows of {split} may be unusable, got {len(unusable):,} of "
            f"{total:,}; the first is {unusable[0]}"
        )
