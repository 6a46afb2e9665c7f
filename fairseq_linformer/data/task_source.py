"""Opens the source of a task: the hub, or a folder or archive, which is recognized by its content."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from .task_hub import ParquetSource
from .task_rows import Row
from .tasks import Task
from .text_files import TextFolder, TextTar, find_text_folder
from .tsv import TsvFolder, TsvZip, find_tsv_folder


class TaskSource(Protocol):
    """Where the rows of a task come from."""

    def read_rows(self, split: str) -> Iterator[Row]:
        """All rows of a split, by fairseq's name."""

    def count_rows(self, split: str) -> int | None:
        """The number of rows of a split, for progress; None if only reading them tells."""

    def describe(self) -> dict[str, Any]:
        """JSON that identifies the data, for the manifest."""


def open_source(task: Task, source) -> TaskSource:
    """Open a source of a task.

    Args:
        source: ``hub``, or the path of a folder or zip archive of TSV files, of the folder of texts or its .tar.gz, or
            of a folder with the hub's parquet files.

    Raises:
        ValueError: the source is of another kind, or a file is missing.
    """
    if str(source) == "hub":
        if not task.hub:
            raise ValueError(f"{task.name} is not on the hub; --source must be a path")
        return ParquetSource(task, task.hub)
    path, expected = Path(source), f"--source must be {_describe_sources(task)}"
    if path.is_dir():
        if task.tsv and (folder := find_tsv_folder(task.tsv, path)):
            return TsvFolder(task, task.tsv, folder)
        if task.text_files and (folder := find_text_folder(task.text_files, path)):
            return TextFolder(task, task.text_files, folder)
        if task.hub and ParquetSource.is_in(task.hub, path):
            return ParquetSource(task, task.hub, path)
        raise ValueError(f"{path} contains no files of {task.name}; {expected}")
    if not path.is_file():
        raise ValueError(f"{path} does not exist; {expected}")
    with open(path, "rb") as file:
        start = file.read(4)
    if start[:2] == b"PK" and task.tsv:
        return TsvZip(task.tsv, path)
    if start[:2] == b"\x1f\x8b" and task.text_files:
        return TextTar(task.text_files, path)
    raise ValueError(f"{path} is {'not an archive of ' + task.name if start else 'empty'}; {expected}")


def _describe_sources(task: Task) -> str:
    forms = ["hub"] if task.hub else []
    if task.tsv:
        forms.append(f"a folder or zip archive with {', '.join(task.tsv.files.values())}")
    if task.text_files:
        forms.append(f"the folder {task.text_files.root} or its .tar.gz")
    if task.hub:
        forms.append(f"a folder with the hub's {task.hub.config}/*.parquet")
    return ", or ".join(forms)
