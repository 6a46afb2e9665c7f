"""Rows of TSV files, in a folder or in a zip archive that is read in place."""

import io
import zipfile
from pathlib import Path
from typing import BinaryIO, Iterator, Optional

from ..corpus.streams import numbered_lines
from ..files import sha256
from .rows import TOO_LONG, Row, check_names, decoded, unreadable_refused
from .table import Task


class TsvFolder:
    """GLUE's files in a folder, the one of ``folder_with_tsv``; ValueError if one is missing."""

    kind = "TSV files"

    def __init__(self, task: Task, folder: Path):
        self._task, self._folder = task, folder
        for name in task.tsv.files.values():
            if not (folder / name).is_file():
                files = ", ".join(task.tsv.files.values())
                raise ValueError(f"{folder / name} is not a file; {task.name} is made of {files}")

    def rows(self, split: str) -> Iterator[Row]:
        """All rows of a split."""
        name = self._task.tsv.files[split]
        path = self._folder / name
        with unreadable_refused(path), open(path, "rb") as file:
            yield from _rows(self._task, split, file, name, path)

    def described(self) -> dict:
        """SHA-256 of each file."""
        sums = {name: sha256(self._folder / name) for name in self._task.tsv.files.values()}
        return {"kind": self.kind, "sha256": sums}


def folder_with_tsv(task: Task, folder: Path) -> Optional[Path]:
    """``folder``, or the folder of the task's name inside it, if one of the files is there."""
    names = task.tsv.files.values() if task.tsv else ()
    places = (folder, folder / task.tsv.folder) if task.tsv else ()
    return next((place for place in places if any((place / name).is_file() for name in names)), None)


class TsvZip:
    """GLUE's archive of one task, or of all. Nothing is extracted.

    Raises:
        ValueError: it cannot be read, has a member that points outside, or lacks a file or has it twice.
    """

    kind = "zip archive of TSV files"

    def __init__(self, task: Task, path: Path):
        self._task, self._path, self._members = task, path, {}
        with unreadable_refused(path), zipfile.ZipFile(path) as archive:
            members = archive.namelist()
        check_names(path, members)
        for split, name in task.tsv.files.items():
            found = [member for member in members if self._is(member.split("/"), name)]
            if len(found) != 1:
                raise ValueError(f"{path} has {len(found) or 'no'} files {task.tsv.folder}/{name}; it must have one")
            self._members[split] = found[0]

    def _is(self, parts, name: str) -> bool:
        # At the top, or in the task's folder wherever that lies; not what a Mac puts beside.
        in_folder = len(parts) == 1 or (parts[-2] == self._task.tsv.folder and parts[0] != "__MACOSX")
        return parts[-1] == name and in_folder

    def rows(self, split: str) -> Iterator[Row]:
        """All rows of a split."""
        member = self._members[split]
        path = f"{self._path}/{member}"
        with unreadable_refused(path), zipfile.ZipFile(self._path) as archive:
            with archive.open(member) as raw, io.BufferedReader(raw) as file:
                yield from _rows(self._task, split, file, member, path)

    def described(self) -> dict:
        """SHA-256 of the archive."""
        return {"kind": self.kind, "sha256": {self._path.name: sha256(self._path)}}


def _rows(task: Task, split: str, file: BinaryIO, name: str, path) -> Iterator[Row]:
    columns = task.columns(split)
    texts, label = [columns.index(text) for text in task.tsv.texts], columns.index(task.tsv.label)
    number = 0
    for number, line in numbered_lines(file):
        if number == 1 and task.tsv.header:
            header = (line or b"").decode("utf-8", "replace").split("\t")
            if header != list(columns):
                found, expected = ", ".join(header)[:150], ", ".join(columns)
                raise ValueError(f"{path} has the header {found!r}; it must be {expected!r}, with tabs between")
            continue
        place = f"{name}:{number}"
        line = Row(place, reason=TOO_LONG) if line is None else decoded(place, line)
        if isinstance(line, Row):
            yield line
        elif len(fields := line.split("\t")) != len(columns):
            detail = f"{len(fields)} where {len(columns)} are wanted"
            yield Row(place, reason="wrong number of columns", detail=detail)
        else:
            yield Row(place, tuple(fields[i] for i in texts), fields[label].strip())
    if not number:
        raise ValueError(f"{path} is empty")
