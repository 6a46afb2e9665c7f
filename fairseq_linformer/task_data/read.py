"""Which source is it? A folder or an archive says so by what is inside."""

from pathlib import Path

from .hub import Parquet
from .table import Task
from .text_files import TextFolder, TextTar
from .tsv import TsvFolder, TsvZip


def open_source(task: Task, source: str):
    """What has ``rows(split)``, ``described()`` and ``kind``.

    Args:
        source: ``hub``, or a path: a folder with TSV files, the folder of texts or its .tar.gz, a zip with TSV
            files, or a folder with the hub's parquet.

    Raises:
        ValueError: there is nothing of the kind, or a file of it is missing; a sentence.
    """
    if str(source) == "hub":
        if not task.hub:
            raise ValueError(f"{task.name} is not on the hub; a path is wanted")
        return Parquet(task)
    path = Path(source)
    if path.is_dir():
        for kind in (TsvFolder, TextFolder, Parquet):
            if kind.found(task, path):
                return kind(task, path)
        raise ValueError(f"{path} has nothing of {task.name} in it; {_wanted(task)} is wanted")
    if not path.is_file():
        raise ValueError(f"{path} does not exist; hub, or {_wanted(task)}, is wanted")
    with open(path, "rb") as file:
        start = file.read(4)
    if start[:2] == b"PK" and task.tsv:
        return TsvZip(task, path)
    if start[:2] == b"\x1f\x8b" and task.text_files:
        return TextTar(task, path)
    raise ValueError(f"{path} is {'empty' if not start else 'no archive of this task'}; hub, or {_wanted(task)}, is wanted")


def _wanted(task: Task) -> str:
    """The forms in which a task can be given."""
    forms = []
    if task.tsv:
        forms.append(f"a folder or zip archive with {', '.join(task.tsv.files.values())}")
    if task.text_files:
        forms.append(f"the folder {task.text_files.root} or its .tar.gz")
    if task.hub:
        forms.append(f"a folder with the hub's {task.hub.config}/*.parquet")
    return ", or ".join(forms)
