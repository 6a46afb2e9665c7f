"""Opens the source of a task: the hub, or a folder or an archive, whose contents say what it is."""

from pathlib import Path

from .hub import Parquet
from .table import Task
from .text_files import TextFolder, TextTar, folder_with_texts
from .tsv import TsvFolder, TsvZip, folder_with_tsv


def open_source(task: Task, source: str):
    """An object with ``rows(split)``, ``described()`` and ``kind``.

    Args:
        source: ``hub``, or a path: a folder with TSV files, the folder of texts or its .tar.gz, a zip with TSV
            files, or a folder with the hub's parquet.

    Raises:
        ValueError: the source is none of these, or a file is missing.
    """
    if str(source) == "hub":
        if not task.hub:
            raise ValueError(f"{task.name} is not on the hub; the source must be a path")
        return Parquet(task)
    path = Path(source)
    if path.is_dir():
        if folder := folder_with_tsv(task, path):
            return TsvFolder(task, folder)
        if folder := folder_with_texts(task, path):
            return TextFolder(task, folder)
        if Parquet.found(task, path):
            return Parquet(task, path)
        raise ValueError(f"{path} has nothing of {task.name} in it; it must be {_forms(task)}")
    if not path.is_file():
        raise ValueError(f"{path} does not exist; it must be hub, or {_forms(task)}")
    with open(path, "rb") as file:
        start = file.read(4)
    if start[:2] == b"PK" and task.tsv:
        return TsvZip(task, path)
    if start[:2] == b"\x1f\x8b" and task.text_files:
        return TextTar(task, path)
    state = "no archive of this task" if start else "empty"
    raise ValueError(f"{path} is {state}; it must be hub, or {_forms(task)}")


def _forms(task: Task) -> str:
    """The forms in which a task can be given."""
    forms = []
    if task.tsv:
        forms.append(f"a folder or zip archive with {', '.join(task.tsv.files.values())}")
    if task.text_files:
        forms.append(f"the folder {task.text_files.root} or its .tar.gz")
    if task.hub:
        forms.append(f"a folder with the hub's {task.hub.config}/*.parquet")
    return ", or ".join(forms)
