"""Rows of a data set on Hugging Face's hub, or of a folder with its files, through ``datasets`` as a stream."""

import glob
import re
from pathlib import Path
from typing import Iterator, List, Optional

from ..corpus.rows import quiet_datasets
from ..errors import first_line
from ..files import sha256
from .rows import Row
from .table import Task


class Parquet:
    """The hub's parquet files.

    Args:
        folder: where they lie; None for the hub itself, at the revision of the table.

    Raises:
        ValueError: a file is missing in the folder.
    """

    kind = "parquet"

    def __init__(self, task: Task, folder: Optional[Path] = None):
        self._task, self._hub, self._folder = task, task.hub, folder
        self._name, self._revision = task.hub.name_and_revision
        for split in task.hub.splits.values() if folder else ():
            self._files(split)

    @staticmethod
    def found(task: Task, folder: Path) -> bool:
        """Whether at least one of the files is there."""
        return bool(task.hub) and any((folder / task.hub.config).glob("*.parquet"))

    def _files(self, split: str) -> List[Path]:
        folder = self._folder / self._hub.config
        files = sorted(folder.glob(f"{split}-*.parquet"))
        if not files:
            raise ValueError(f"{folder} has no {split}-*.parquet, as the hub has it")
        parts = re.search(r"-of-(\d+)\.parquet$", files[0].name)
        if parts and int(parts[1]) != len(files):
            count = f"{len(files)} files {split}-*.parquet"
            raise ValueError(f"{folder} has {count}; {files[0].name} is one of {int(parts[1])}")
        return files

    def rows(self, split: str) -> Iterator[Row]:
        """All rows of a split; ValueError if the hub or a file cannot be read, or has other columns or classes."""
        load_dataset = quiet_datasets().load_dataset
        split = self._hub.splits[split]
        place, number = f"{self._hub.config}/{split}", 0
        try:
            # By its files, not by the name of its configuration: the same for the hub and for a bare folder.
            data = load_dataset(
                glob.escape(str(self._folder.absolute())) if self._folder else self._name,
                data_files={split: f"{self._hub.config}/{split}-*.parquet"},
                split=split,
                revision=None if self._folder else self._revision,
                streaming=True,
            )
            names = self._class_names(data.features or {}, place)
            for number, row in enumerate(data, 1):
                yield self._row(row, names, f"{place}:{number}")
        except (ImportError, _Refused):
            raise
        except Exception as error:  # network, cache, parquet and datasets each have their own
            after = f" after row {number}" if number else ""
            name = f"{self._folder or self._name} {place}"
            raise ValueError(f"{name} cannot be read{after}: {type(error).__name__}: {first_line(error)}") from None

    def _class_names(self, features, place: str):
        """The classes by their numbers in the data; None if labels are no numbers of classes."""
        path = f"{self._folder or self._name} {place}"
        for column in (*self._hub.texts, self._hub.label):
            if column not in features:
                raise _Refused(f"{path} has the columns {', '.join(features)}, but no {column}")
        names = getattr(features[self._hub.label], "names", None)
        for name in names or ():
            try:
                self._task.number(name)
            except KeyError:
                classes = ", ".join(self._task.names)
                raise _Refused(f"{path} has a class {name!r}; it must be one of {classes}") from None
        return names

    def _row(self, row: dict, names, place: str) -> Row:
        texts, label = [row[text] for text in self._hub.texts], row[self._hub.label]
        if not all(isinstance(text, str) for text in texts):
            return Row(place, reason="empty text")
        if names and isinstance(label, int) and 0 <= label < len(names):
            label = names[label]
        return Row(place, tuple(texts), str(label))

    def described(self) -> dict:
        """Name and revision, or SHA-256 of each file."""
        if not self._folder:
            return {"kind": "hub", "name": self._name, "revision": self._revision, "config": self._hub.config}
        files = [path for split in self._hub.splits.values() for path in self._files(split)]
        sums = {path.relative_to(self._folder).as_posix(): sha256(path) for path in files}
        return {"kind": self.kind, "sha256": sums}


class _Refused(ValueError):
    """Already one clear sentence."""
