"""Rows of aclImdb, one text per file: the folder, or its .tar.gz, which is not extracted."""

import gzip
import hashlib
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..files import sha256
from .streams import MAX_BYTES
from .task_rows import TOO_LONG, Row, check_names, decode_text, reject_unreadable
from .tasks import Task, TextFiles

_NAME = re.compile(r"(\d+)_\d+\.txt")  # NUMBER_RATING.txt


class TextFolder:
    """A folder from ``find_text_folder``. Raises ValueError if the folder of a class is missing."""

    kind = "folder of texts"

    def __init__(self, task: Task, files: TextFiles, folder: Path):
        self._files, self._folder = files, folder
        for path in _class_folders(files, folder):
            if not path.is_dir():
                raise ValueError(f"{path} does not exist or is not a folder; {task.name} needs it")

    def read_rows(self, split: str) -> Iterator[Row]:
        """All rows of a split, by class and then by number."""
        for label, path in self._list_texts(split):
            with reject_unreadable(path), open(path, "rb") as file:
                content = file.read(MAX_BYTES + 1)
            yield _to_row(path.relative_to(self._folder).as_posix(), label, content)

    def _list_texts(self, split: str) -> Iterator[tuple[str, Path]]:
        """(label, file) in row order."""
        for label in self._files.labels:
            folder = self._folder / self._files.splits[split] / label
            names = (path.name for path in folder.iterdir() if not path.name.startswith(".") and not path.is_dir())
            for name in sorted(names, key=_sort_key):
                yield label, folder / name

    def count_rows(self, split: str) -> int:
        """The number of rows of a split."""
        return sum(1 for _ in self._list_texts(split))

    def describe(self) -> dict[str, Any]:
        """Kind, number of files and SHA-256 of the output of ``sha256sum`` for all files, for the manifest."""
        paths = sorted(path for split in self._files.splits for _, path in self._list_texts(split))
        listing = "".join(f"{sha256(path)}  {path.relative_to(self._folder).as_posix()}\n" for path in paths)
        digest = hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()
        return {"kind": self.kind, "files": len(paths), "sha256": {self._files.root: digest}}


def _class_folders(files: TextFiles, folder: Path) -> list[Path]:
    return [folder / split / label for split in files.splits.values() for label in files.labels]


def find_text_folder(files: TextFiles, folder: Path) -> Path | None:
    """``folder`` or its subfolder with the published name, if it has the folder of at least one class."""
    folders = (folder, folder / files.root)
    return next((path for path in folders if any(part.is_dir() for part in _class_folders(files, path))), None)


class TextTar:
    """The .tar.gz of the folder."""

    kind = "tar archive of texts"

    def __init__(self, files: TextFiles, path: Path):
        self._files, self._path = files, path

    def read_rows(self, split: str) -> Iterator[Row]:
        """All rows of a split, in the order of ``TextFolder``. Since archives are unordered, a split is held in memory
        (33 MB for IMDB)."""
        folder = self._files.splits[split]
        contents: dict[str, dict[str, bytes]] = {label: {} for label in self._files.labels}
        for label, name, content in self._read_members(folder):
            if name in contents[label]:
                raise ValueError(f"{self._path} must have {folder}/{label}/{name} only once")
            contents[label][name] = content
        for label, texts in contents.items():
            location = f"{self._files.root}/{folder}/{label}"
            if not texts:
                raise ValueError(f"{self._path} has no files {location}/*.txt")
            for name in sorted(texts, key=_sort_key):
                yield _to_row(f"{location}/{name}", label, texts[name])

    def _read_members(self, folder: str) -> Iterator[tuple[str, str, bytes]]:
        """(label, name, content) of the texts in a split's folder."""
        with reject_unreadable(self._path), gzip.open(self._path) as file:
            for member in (archive := tarfile.open(fileobj=file, mode="r|")):
                check_names(self._path, [member.name])
                *parents, label, name = ["", "", *member.name.removeprefix("./").split("/")]
                is_text = parents[2:] == [self._files.root, folder] and label in self._files.labels
                if not is_text or name.startswith(".") or member.isdir():
                    continue
                content = archive.extractfile(member) if member.isfile() else None
                if content is None:
                    raise ValueError(f"member {member.name!r} of {self._path} must be a regular file")
                yield label, name, content.read(MAX_BYTES + 1)
            while file.read(1 << 20):  # gzip's checksum is at the end
                pass

    def count_rows(self, split: str) -> None:
        """None: members are counted only by reading the whole archive."""

    def describe(self) -> dict[str, Any]:
        """Kind and SHA-256 of the archive, for the manifest."""
        return {"kind": self.kind, "sha256": {self._path.name: sha256(self._path)}}


def _sort_key(name: str) -> tuple[int, int, str]:
    """By number; names without a number last."""
    match = _NAME.fullmatch(name)
    return (0, int(match[1]), name) if match else (1, 0, name)


def _to_row(location: str, label: str, content: bytes) -> Row:
    if not _NAME.fullmatch(location.rsplit("/", 1)[-1]):
        return Row(location, reason="not named NUMBER_RATING.txt")
    if len(content) > MAX_BYTES:
        return Row(location, reason=TOO_LONG)
    text = decode_text(location, content)
    return text if isinstance(text, Row) else Row(location, (text,), label)
