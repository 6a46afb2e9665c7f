"""Rows of a dataset on the Hugging Face hub, or of a folder with its parquet files, streamed with ``datasets``."""

import glob
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import first_line
from ..files import sha256
from .row_readers import import_datasets
from .task_rows import Row
from .tasks import Hub, Task


class ParquetSource:
    """The parquet files of a dataset on the hub.

    Args:
        hub: the task's dataset.
        folder: local folder with the files; None to read from the hub, at the task's revision.

    Raises:
        ValueError: the folder lacks a file.
    """

    kind = "parquet"

    def __init__(self, task: Task, hub: Hub, folder: Path | None = None):
        self._task, self._hub, self._folder = task, hub, folder
        self._name, self._revision = hub.name_and_revision
        if folder:
            self._list_files(folder)

    @staticmethod
    def is_in(hub: Hub, folder: Path) -> bool:
        """Whether the folder has at least one of the files."""
        return any((folder / hub.config).glob("*.parquet"))

    def _list_files(self, folder: Path) -> list[Path]:
        """Files of all splits."""
        files: list[Path] = []
        for split in self._hub.splits.values():
            pattern = f"{split}-*.parquet"
            matches = sorted((folder / self._hub.config).glob(pattern))
            if not matches:
                raise ValueError(f"{folder / self._hub.config} has no {pattern}, the hub's files of {split}")
            total = re.search(r"-of-(\d+)\.parquet$", matches[0].name)
            if total and int(total[1]) != len(matches):
                expected = f"{folder / self._hub.config} must have {int(total[1])} files {pattern}"
                raise ValueError(f"{expected}, as {matches[0].name} says, got {len(matches)}")
            files += matches
        return files

    def count_rows(self, split: str) -> int | None:
        """The number of rows of a split in a folder; None on the hub."""
        if not self._folder:
            return None
        import pyarrow
        from pyarrow.parquet import read_metadata

        files = sorted((self._folder / self._hub.config).glob(f"{self._hub.splits[split]}-*.parquet"))
        try:
            return sum(read_metadata(file).num_rows for file in files)
        except (pyarrow.lib.ArrowException, OSError):  # read_rows describes the error
            return None

    def read_rows(self, split: str) -> Iterator[Row]:
        """All rows of a split. Raises ValueError if they cannot be read or columns or classes are not the task's."""
        load_dataset = import_datasets().load_dataset
        split = self._hub.splits[split]
        location, number = f"{self._hub.config}/{split}", 0
        try:
            # By file names, not by configuration, so that a folder without metadata is read like the hub.
            data = load_dataset(
                glob.escape(str(self._folder.absolute())) if self._folder else self._name,
                data_files={split: f"{self._hub.config}/{split}-*.parquet"},
                split=split,
                revision=None if self._folder else self._revision,
                streaming=True,
            )
            names = self._class_names(data.features or {}, location)
            for number, row in enumerate(data, 1):
                yield self._to_row(row, names, f"{location}:{number}")
        except (ImportError, _SchemaError):
            raise
        except Exception as error:  # network, cache, parquet and datasets errors have no common type
            after = f" after row {number}" if number else ""
            name = f"{self._folder or self._name} {location}"
            raise ValueError(f"{name} cannot be read{after}: {type(error).__name__}: {first_line(error)}") from None

    def _class_names(self, features: Any, location: str) -> list[str] | None:
        """The dataset's class names, by class index; None if labels are not class indices."""
        path = f"{self._folder or self._name} {location}"
        for column in (*self._hub.texts, self._hub.label):
            if column not in features:
                raise _SchemaError(f"{path} must have a column {column!r}, got {', '.join(features)}")
        names = getattr(features[self._hub.label], "names", None)
        for name in names or ():
            try:
                self._task.class_index(name)
            except KeyError:
                choices = ", ".join(self._task.class_names)
                raise _SchemaError(f"{path}: unknown class {name!r}; choose from {choices}") from None
        return names

    def _to_row(self, row: dict[str, Any], names: list[str] | None, location: str) -> Row:
        texts, label = [row[text] for text in self._hub.texts], row[self._hub.label]
        if not all(isinstance(text, str) for text in texts):
            return Row(location, reason="empty text")
        if names and isinstance(label, int) and 0 <= label < len(names):
            label = names[label]
        return Row(location, tuple(texts), str(label))

    def describe(self) -> dict[str, Any]:
        """Dataset and revision, or kind and SHA-256 of each file, for the manifest."""
        if not self._folder:
            return {"kind": "hub", "name": self._name, "revision": self._revision, "config": self._hub.config}
        files = self._list_files(self._folder)
        return {"kind": self.kind, "sha256": {f.relative_to(self._folder).as_posix(): sha256(f) for f in files}}


class _SchemaError(ValueError):
    """Columns or classes are not the task's. The message names the dataset."""
