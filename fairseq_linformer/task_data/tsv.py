"""Rows of TSV files, in a folder or in a zip archive that is read as it is."""

import io
import zipfile
from pathlib import Path
from typing import BinaryIO, Dict, Iterator, Optional, Tuple

from .archive import check_names, unreadable_refused
from ..corpus.streams import MAX_BYTES, read_line
from ..files import sha256
from .rows import TOO_LONG, Row, decoded
from .table import Task


class TsvFolder:
    """GLUE's files in a folder, or in the folder of the task's name inside it.

    Raises:
        ValueError: one is missing.
    """

    kind = "TSV files"

    def __init__(self, task: Task, folder: Path):
        self._task = task
        self._folder = folder if self._some(task, folder) else folder / task.tsv.folder
        for name in task.tsv.files.values():
            if not (self._folder / name).is_file():
                raise ValueError(f"{self._folder / name} is not a file; {task.name} is made of {', '.join(task.tsv.files.values())}")

    @staticmethod
    def _some(task: Task, folder: Path) -> bool:
        return any((folder / name).is_file() for name in task.tsv.files.values())

    @classmethod
    def found(cls, task: Task, folder: Path) -> bool:
        """Is at least one of the files there?"""
        return bool(task.tsv) and (cls._some(task, folder) or cls._some(task, folder / task.tsv.folder))

    def rows(self, split: str) -> Iterator[Row]:
        name = self._task.tsv.files[split]
        with unreadable_refused(self._folder / name), open(self._folder / name, "rb") as file:
            yield from _rows(self._task, split, file, name, f"{self._folder / name}")

    def described(self) -> dict:
        """SHA-256 of each file."""
        sums = {}
        for name in self._task.tsv.files.values():
            sums[name] = sha256(self._folder / name)
        return {"kind": self.kind, "sha256": sums}


class TsvZip:
    """GLUE's archive of a task, or of all. Nothing is extracted.

    Raises:
        ValueError: it cannot be read, has a member that points outside, or a file is missing or there twice.
    """

    kind = "zip archive of TSV files"

    def __init__(self, task: Task, path: Path):
        self._task, self._path = task, path
        with unreadable_refused(path), zipfile.ZipFile(path) as archive:
            members = archive.namelist()
        check_names(path, members)
        self._members: Dict[str, str] = {}
        for split, name in task.tsv.files.items():
            found = [member for member in members if self._is(member.split("/"), name)]
            if len(found) != 1:
                raise ValueError(f"{path} has {len(found) or 'no'} files {task.tsv.folder}/{name}; one is wanted")
            self._members[split] = found[0]

    def _is(self, parts, name: str) -> bool:
        # At the top, or in the task's folder wherever that lies; not what a Mac puts beside.
        return parts[-1] == name and (len(parts) == 1 or (parts[-2] == self._task.tsv.folder and parts[0] != "__MACOSX"))

    def rows(self, split: str) -> Iterator[Row]:
        member = self._members[split]
        with unreadable_refused(f"{self._path}/{member}"), zipfile.ZipFile(self._path) as archive:
            with archive.open(member) as raw, io.BufferedReader(raw) as file:
                yield from _rows(self._task, split, file, member, f"{self._path}/{member}")

    def described(self) -> dict:
        """SHA-256 of the archive."""
        return {"kind": self.kind, "sha256": {self._path.name: sha256(self._path)}}


def _rows(task: Task, split: str, file: BinaryIO, name: str, path: str) -> Iterator[Row]:
    columns = task.columns(split)
    texts, label = [columns.index(text) for text in task.tsv.texts], columns.index(task.tsv.label)
    number = 0
    for number, line in _lines(file):
        if number == 1:
            line = line and line.removeprefix(b"\xef\xbb\xbf")  # MRPC's begins with this mark, and a spreadsheet's
            if task.tsv.header:
                _check_header(line, columns, path)
                continue
        place = f"{name}:{number}"
        line = Row(place, reason=TOO_LONG) if line is None else decoded(place, line)
        if isinstance(line, Row):
            yield line
            continue
        fields = line.split("\t")
        if len(fields) != len(columns):
            yield Row(place, reason="wrong number of columns", detail=f"{len(fields)} where {len(columns)} are wanted")
        else:
            yield Row(place, tuple(fields[i] for i in texts), fields[label].strip())
    if not number:
        raise ValueError(f"{path} is empty")


def _check_header(line: Optional[bytes], columns, path: str) -> None:
    found = (line or b"").decode("utf-8", "replace").split("\t")
    if found != list(columns):
        said = ", ".join(found)
        raise ValueError(f"{path} has the header {said[:150]!r}; {', '.join(columns)!r} is wanted, with tabs between")


def _lines(file: BinaryIO) -> Iterator[Tuple[int, Optional[bytes]]]:
    """Lines with their numbers, from 1, without their ends; None in the place of one that is too long to be held."""
    number = 0
    while (found := read_line(file, MAX_BYTES + 2))[1]:
        number += 1
        line = found[0].removesuffix(b"\n").removesuffix(b"\r")
        yield number, line if len(line) <= MAX_BYTES else None
