"""Rows of aclImdb, a text a file: the folder, or its .tar.gz, which is read as it is."""

import gzip
import hashlib
import os
import re
import tarfile
from pathlib import Path
from typing import Dict, Iterator, Tuple

from .archive import check_names, unreadable_refused
from ..corpus.streams import MAX_BYTES
from ..files import sha256
from .rows import TOO_LONG, Row, decoded
from .table import Task

_NAME = re.compile(r"(\d+)_\d+\.txt")  # NUMBER_RATING.txt


class TextFolder:
    """The folder, or the one that has it inside.

    Raises:
        ValueError: the folder of a class is missing.
    """

    kind = "folder of texts"

    def __init__(self, task: Task, folder: Path):
        self._files = task.text_files
        self._folder = folder if self._some(task, folder) else folder / self._files.root
        for split in self._files.splits.values():
            for label in self._files.labels:
                if not (self._folder / split / label).is_dir():
                    raise ValueError(f"{self._folder / split / label} is not a folder; the texts of {task.name} lie in it")

    @staticmethod
    def _some(task: Task, folder: Path) -> bool:
        files = task.text_files
        return any((folder / split / label).is_dir() for split in files.splits.values() for label in files.labels)

    @classmethod
    def found(cls, task: Task, folder: Path) -> bool:
        """Is at least one folder of a class there?"""
        return bool(task.text_files) and (cls._some(task, folder) or cls._some(task, folder / task.text_files.root))

    def rows(self, split: str) -> Iterator[Row]:
        for label, path in self._paths(split):
            with unreadable_refused(path), open(path, "rb") as file:
                content = file.read(MAX_BYTES + 1)
            yield _row(path.relative_to(self._folder).as_posix(), label, content)

    def _paths(self, split: str) -> Iterator[Tuple[str, Path]]:
        """Label and file, in the order of the rows."""
        for label in self._files.labels:
            folder = self._folder / self._files.splits[split] / label
            for name in sorted((name for name in os.listdir(folder) if not name.startswith(".")), key=_order):
                yield label, folder / name

    def described(self) -> dict:
        """Of the files of all splits, the SHA-256 of the list that ``sha256sum`` prints of them."""
        paths = [path for split in self._files.splits for _, path in self._paths(split)]
        listed = "".join(f"{sha256(path)}  {path.relative_to(self._folder).as_posix()}\n" for path in sorted(paths))
        return {"kind": self.kind, "files": len(paths), "sha256": {self._files.root: hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()}}


class TextTar:
    """The .tar.gz of the folder. Nothing is extracted."""

    kind = "tar archive of texts"

    def __init__(self, task: Task, path: Path):
        self._files, self._path = task.text_files, path

    def rows(self, split: str) -> Iterator[Row]:
        # In an archive files lie in any order; these are the rows of the folder, in its order. A split is held in
        # memory, 33 MB of IMDB.
        contents: Dict[Tuple[str, str], bytes] = {}
        for label, name, content in self._members(self._files.splits[split]):
            if (label, name) in contents:
                raise ValueError(f"{self._path} has {self._files.splits[split]}/{label}/{name} twice; it is refused")
            contents[label, name] = content
        for label in self._files.labels:
            names = [name for other, name in contents if other == label]
            if not names:
                raise ValueError(f"{self._path} has no files {self._files.root}/{self._files.splits[split]}/{label}/*.txt")
            for name in sorted(names, key=_order):
                yield _row(f"{self._files.root}/{self._files.splits[split]}/{label}/{name}", label, contents[label, name])

    def _members(self, folder: str) -> Iterator[Tuple[str, str, bytes]]:
        with unreadable_refused(self._path), gzip.open(self._path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                check_names(self._path, [member.name])
                parts = member.name.removeprefix("./").split("/")
                if parts[:-2] != [self._files.root, folder] or parts[-2] not in self._files.labels:
                    continue
                if parts[-1].startswith("."):
                    continue
                if not member.isdir():
                    if not member.isfile():
                        raise ValueError(f"{self._path} has a member {member.name!r} that is a link, no file; it is refused")
                    yield parts[-2], parts[-1], archive.extractfile(member).read(MAX_BYTES + 1)
            while file.read(1 << 20):  # gzip's checksum is at the end
                pass

    def described(self) -> dict:
        """SHA-256 of the archive."""
        return {"kind": self.kind, "sha256": {self._path.name: sha256(self._path)}}


def _order(name: str):
    """By number; then what has none."""
    match = _NAME.fullmatch(name)
    return (0, int(match[1]), name) if match else (1, 0, name)


def _row(place: str, label: str, content: bytes) -> Row:
    if not _NAME.fullmatch(place.rsplit("/", 1)[-1]):
        return Row(place, reason="not named NUMBER_RATING.txt")
    if len(content) > MAX_BYTES:
        return Row(place, reason=TOO_LONG)
    text = decoded(place, content)
    return text if isinstance(text, Row) else Row(place, (text,), label)
