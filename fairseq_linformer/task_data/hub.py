"""Rows of a data set on Hugging Face's hub, or of a folder in which it lies, through ``datasets`` as a stream."""

import glob
import re
from pathlib import Path
from typing import Iterator, Optional

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
        self._task, self._folder = task, folder
        self._name, self._revision = task.hub.name_and_revision
        for split in task.hub.splits.values() if folder else ():
            self._files(split)

    @staticmethod
    def found(task: Task, folder: Path) -> bool:
        """Is at least one of the files there?"""
        return bool(task.hub) and any((folder / task.hub.config).glob("*.parquet"))

    def _files(self, split: str):
        files = sorted((self._folder / self._task.hub.config).glob(f"{split}-*.parquet"))
        if not files:
            raise ValueError(f"{self._folder / self._task.hub.config} has no {split}-*.parquet, as the hub has it")
        parts = re.search(r"-of-(\d+)\.parquet$", files[0].name)
        if parts and int(parts[1]) != len(files):
            raise ValueError(f"{self._folder / self._task.hub.config} has {len(files)} files {split}-*.parquet; {files[0].name} "
                             f"is one of {int(parts[1])}")  # fmt: skip
        return files

    def rows(self, split: str) -> Iterator[Row]:
        import datasets

        # What it has to say comes in the sentences below.
        datasets.disable_progress_bars()
        datasets.logging.set_verbosity_error()
        hub = self._task.hub
        split = hub.splits[split]
        where = f"{hub.config}/{split}"
        number = 0
        try:
            # By its files, not by the name of its configuration: the same for the hub and for a bare folder.
            data = datasets.load_dataset(
                glob.escape(str(self._folder.absolute())) if self._folder else self._name,
                data_files={split: f"{hub.config}/{split}-*.parquet"},
                split=split,
                revision=None if self._folder else self._revision,
                streaming=True,
            )
            names = self._class_names(data.features or {}, where)
            for number, row in enumerate(data, 1):
                yield self._row(row, names, f"{where}:{number}")
        except ImportError:
            raise
        except Exception as error:  # network, cache, parquet and datasets each have their own
            if isinstance(error, _Refused):
                raise
            after = f" after row {number}" if number else ""
            name = f"{self._folder or self._name} {where}"
            raise ValueError(f"{name} cannot be read{after}: {type(error).__name__}: {first_line(error)}") from None

    def _class_names(self, features, where: str):
        """What the numbers of the labels mean; None if labels are no numbers of classes.

        Raises:
            ValueError: a column is missing, or a class is called what the table does not know.
        """
        hub, path = self._task.hub, f"{self._folder or self._name} {where}"
        for column in (*hub.texts, hub.label):
            if column not in features:
                raise _Refused(f"{path} has the columns {', '.join(features)}; {column} is wanted")
        names = getattr(features[hub.label], "names", None)
        for name in names or ():
            try:
                self._task.number(name)
            except KeyError:
                raise _Refused(f"{path} has a class {name!r}; {', '.join(self._task.names)} are wanted") from None
        return names

    def _row(self, row: dict, names, place: str) -> Row:
        texts, label = [row[text] for text in self._task.hub.texts], row[self._task.hub.label]
        if not all(isinstance(text, str) for text in texts):
            return Row(place, reason="empty text")
        if names and isinstance(label, int) and 0 <= label < len(names):
            label = names[label]
        return Row(place, tuple(texts), str(label))

    def described(self) -> dict:
        """Name and revision, or SHA-256 of each file."""
        if not self._folder:
            return {"kind": "hub", "name": self._name, "revision": self._revision, "config": self._task.hub.config}
        sums = {}
        for split in self._task.hub.splits.values():
            for path in self._files(split):
                sums[path.relative_to(self._folder).as_posix()] = sha256(path)
        return {"kind": self.kind, "sha256": sums}


class _Refused(ValueError):
    """A sentence already."""
