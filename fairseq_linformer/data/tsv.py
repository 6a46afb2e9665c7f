"""Rows of TSV files, in a folder or in a zip archive, which is not extracted."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from ..files import sha256
from .streams import count_lines, read_numbered_lines
from .task_rows import TOO_LONG, Row, check_names, decode_text, reject_unreadable
from .tasks import Task, Tsv


class TsvFolder:
    """GLUE's files in the folder that ``find_tsv_folder`` returned. Raises ValueError if one is missing."""

    kind = "TSV files"

    def __init__(self, task: Task, tsv: Tsv, folder: Path):
        self._tsv, self._folder = tsv, folder
        for name in tsv.files.values():
            if not (folder / name).is_file():
                raise ValueError(f"{folder / name} is not a file; {task.name} needs {', '.join(tsv.files.values())}")

    def read_rows(self, split: str) -> Iterator[Row]:
        """All rows of a split."""
        name = self._tsv.files[split]
        path = self._folder / name
        with reject_unreadable(path), open(path, "rb") as file:
            yield from _parse_rows(self._tsv, split, file, name, path)

    def count_rows(self, split: str) -> int:
        """The number of rows of a split."""
        path = self._folder / self._tsv.files[split]
        with reject_unreadable(path), open(path, "rb") as file:
            return max(0, count_lines(file) - self._tsv.header)

    def describe(self) -> dict[str, Any]:
        """Kind and SHA-256 of each file, for the manifest."""
        return {"kind": self.kind, "sha256": {name: sha256(self._folder / name) for name in self._tsv.files.values()}}


def find_tsv_folder(tsv: Tsv, folder: Path) -> Path | None:
    """``folder`` or its subfolder with GLUE's name, if it has at least one of the files."""
    folders = (folder, folder / tsv.folder)
    return next((path for path in folders if any((path / name).is_file() for name in tsv.files.values())), None)


class TsvZip:
    """GLUE's archive of one task or of all.

    Raises:
        ValueError: the archive cannot be read, has paths outside itself, or does not have each file exactly once.
    """

    kind = "zip archive of TSV files"

    def __init__(self, tsv: Tsv, path: Path):
        self._tsv, self._path, self._members = tsv, path, {}
        with reject_unreadable(path), zipfile.ZipFile(path) as archive:
            members = archive.namelist()
        check_names(path, members)
        for split, name in tsv.files.items():
            matches = [member for member in members if self._is_file(member.split("/"), name)]
            if len(matches) != 1:
                raise ValueError(f"{path} must have exactly one {tsv.folder}/{name}, got {len(matches) or 'none'}")
            self._members[split] = matches[0]

    def _is_file(self, parts: list[str], name: str) -> bool:
        # At the top level, or in the task's folder at any depth; macOS adds its own copies.
        in_folder = len(parts) == 1 or (parts[-2] == self._tsv.folder and parts[0] != "__MACOSX")
        return parts[-1] == name and in_folder

    def read_rows(self, split: str) -> Iterator[Row]:
        """All rows of a split."""
        member = self._members[split]
        path = f"{self._path}/{member}"
        with (
            reject_unreadable(path),
            zipfile.ZipFile(self._path) as archive,
            archive.open(member) as raw,
            io.BufferedReader(raw) as file,  # type: ignore[type-var]
        ):
            yield from _parse_rows(self._tsv, split, file, member, path)

    def count_rows(self, split: str) -> int:
        """The number of rows of a split."""
        member = self._members[split]
        with (
            reject_unreadable(f"{self._path}/{member}"),
            zipfile.ZipFile(self._path) as archive,
            archive.open(member) as file,
        ):
            return max(0, count_lines(cast(BinaryIO, file)) - self._tsv.header)

    def describe(self) -> dict[str, Any]:
        """Kind and SHA-256 of the archive, for the manifest."""
        return {"kind": self.kind, "sha256": {self._path.name: sha256(self._path)}}


def _parse_rows(tsv: Tsv, split: str, file: BinaryIO, name: str, path) -> Iterator[Row]:
    columns = tsv.columns_of_split(split)
    texts, label = [columns.index(text) for text in tsv.texts], columns.index(tsv.label)
    number = 0
    for number, line in read_numbered_lines(file):
        if number == 1 and tsv.header:
            header = (line or b"").decode("utf-8", "replace").split("\t")
            if header != list(columns):
                raise ValueError(
                    f"{path} must have the tab-separated header {', '.join(columns)!r}, got {', '.join(header)[:150]!r}"
                )
            continue
        location = f"{name}:{number}"
        text = Row(location, reason=TOO_LONG) if line is None else decode_text(location, line)
        if isinstance(text, Row):
            yield text
        elif len(fields := text.split("\t")) != len(columns):
            yield Row(location, reason="wrong number of columns", detail=f"{len(fields)} instead of {len(columns)}")
        else:
            yield Row(location, tuple(fields[i] for i in texts), fields[label].strip())
    if not number:
        raise ValueError(f"{path} is empty")
