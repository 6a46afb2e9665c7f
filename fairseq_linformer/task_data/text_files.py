"""Rows of aclImdb, one text per file: the folder, or its .tar.gz, which is read in place."""

import gzip
import hashlib
import os
import re
import tarfile
from pathlib import Path
from typing import Dict, Iterator, Optional, Tuple

from ..corpus.streams import MAX_BYTES
from ..files import sha256
from .rows import TOO_LONG, Row, check_names, decoded, unreadable_refused
from .table import Task

_NAME = re.compile(r"(\d+)_\d+\.txt")  # NUMBER_RATING.txt


class TextFolder:
    """The folder, the one of ``folder_with_texts``; ValueError if the folder of a class is missing."""

    kind = "folder of texts"

    def __init__(self, task: Task, folder: Path):
        self._files, self._folder = task.text_files, folder
        for path in _class_folders(task, folder):
            if not path.is_dir():
                raise ValueError(f"{path} is not a folder; the texts of {task.name} lie in it")

    def rows(self, split: str) -> Iterator[Row]:
        """All rows of a split, by class and then by number."""
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
        """For the files of all splits, the SHA-256 of the list that ``sha256sum`` prints."""
        paths = sorted(path for split in self._files.splits for _, path in self._paths(split))
        listing = "".join(f"{sha256(path)}  {path.relative_to(self._folder).as_posix()}\n" for path in paths)
        digest = hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()
        return {"kind": self.kind, "files": len(paths), "sha256": {self._files.root: digest}}


def _class_folders(task: Task, folder: Path):
    files = task.text_files
    return [folder / split / label for split in files.splits.values() for label in files.labels]


def folder_with_texts(task: Task, folder: Path) -> Optional[Path]:
    """``folder``, or the published folder inside it, if the folder of a class is there."""
    places = (folder, folder / task.text_files.root) if task.text_files else ()
    return next((place for place in places if any(path.is_dir() for path in _class_folders(task, place))), None)


class TextTar:
    """The .tar.gz of the folder. Nothing is extracted."""

    kind = "tar archive of texts"

    def __init__(self, task: Task, path: Path):
        self._files, self._path = task.text_files, path

    def rows(self, split: str) -> Iterator[Row]:
        """All rows of a split, in the order of the folder. An archive has any order: a split is held, 33 MB of IMDB."""
        folder = self._files.splits[split]
        contents: Dict[str, Dict[str, bytes]] = {label: {} for label in self._files.labels}
        for label, name, content in self._members(folder):
            if name in contents[label]:
                raise ValueError(f"{self._path} has {folder}/{label}/{name} twice; it is refused")
            contents[label][name] = content
        for label, files in contents.items():
            place = f"{self._files.root}/{folder}/{label}"
            if not files:
                raise ValueError(f"{self._path} has no files {place}/*.txt")
            for name in sorted(files, key=_order):
                yield _row(f"{place}/{name}", label, files[name])

    def _members(self, folder: str) -> Iterator[Tuple[str, str, bytes]]:
        with unreadable_refused(self._path), gzip.open(self._path) as file:
            for member in (archive := tarfile.open(fileobj=file, mode="r|")):
                check_names(self._path, [member.name])
                *parents, label, name = ["", "", *member.name.removeprefix("./").split("/")]
                is_text = parents[2:] == [self._files.root, folder] and label in self._files.labels
                if not is_text or name.startswith(".") or member.isdir():
                    continue
                if not member.isfile():
                    raise ValueError(f"{self._path} has a member {member.name!r} that is no file; it is refused")
                yield label, name, archive.extractfile(member).read(MAX_BYTES + 1)
            while file.read(1 << 20):  # gzip's checksum is at the end
                pass

    def described(self) -> dict:
        """SHA-256 of the archive."""
        return {"kind": self.kind, "sha256": {self._path.name: sha256(self._path)}}


def _order(name: str):
    """By number; then the names that have none."""
    match = _NAME.fullmatch(name)
    return (0, int(match[1]), name) if match else (1, 0, name)


def _row(place: str, label: str, content: bytes) -> Row:
    if not _NAME.fullmatch(place.rsplit("/", 1)[-1]):
        return Row(place, reason="not named NUMBER_RATING.txt")
    if len(content) > MAX_BYTES:
        return Row(place, reason=TOO_LONG)
    text = decoded(place, content)
    return text if isinstance(text, Row) else Row(place, (text,), label)
