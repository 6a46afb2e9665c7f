"""Text sources: local files and the Hugging Face hub.

A source is written ``LOCATION,key=value,...``; no part may contain a comma. LOCATION is a file, a folder (read
recursively, without hidden files and folders), a glob pattern such as ``books/*.txt.gz``, ``hub:NAME``, or
``hub:FOLDER`` for a folder laid out like a dataset on the hub. Keys:

    format=text|jsonl|parquet    format of files with another suffix
    column=text                  (rows: all formats but text) column of the text
    title=COLUMN                 (rows) title, inserted before the text on a line of its own
    group=COLUMN                 (rows) consecutive rows with equal values form a document, like a book's sentences
    rows=N                       (rows) N consecutive rows form a document, if no column groups them (a document also
                                 ends with its file or hub shard)
    config=, revision=, split=   (hub) configuration, revision and split
    license=...                  copied to the manifest

Instead of LOCATION, a name in ``PRESETS``. Keys that do not apply to the source are rejected.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import Any

from .streams import COMPRESSED

PRESETS = {
    "wikipedia": "hub:wikimedia/wikipedia,config=20231101.en,revision=b04c8d1ceb2f5cd4588862100d08de323dccfbaa,"
    "title=title,license=CC BY-SA 3.0 and GFDL",
    # Whole books; the repository states no license, the copyrights are the authors'.
    "bookcorpusopen": "hub:lucadiliello/bookcorpusopen,license=not stated",
    # Single lowercase sentences in the order of the books, without marks between books.
    "bookcorpus": "hub:bookcorpus,revision=refs/convert/parquet,rows=1000,license=not stated",
}
FORMATS = ("text", "jsonl", "parquet")
_TEXT, _JSONL = dict.fromkeys((".txt", ".text"), "text"), dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl")
SUFFIXES = {**_TEXT, **_JSONL, ".parquet": "parquet"}
HUB_KEYS = ("config", "revision", "split")
ROW_KEYS = ("column", "title", "group", "rows")


@dataclass(frozen=True)
class Source:
    """A parsed source; the fields are the keys in this module's docstring."""

    location: str
    format: str | None = None
    column: str = "text"
    title: str | None = None
    group: str | None = None
    rows: int = 1
    config: str | None = None
    revision: str | None = None
    split: str = "train"
    license: str = "not stated"

    @property
    def hub(self) -> str | None:
        """Dataset name (or folder) after ``hub:``; None for files."""
        return self.location.removeprefix("hub:") if self.location.startswith("hub:") else None

    @property
    def joins_rows(self) -> bool:
        """Whether a document may consist of several rows."""
        return self.group is not None or self.rows > 1

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return [column for column in (self.column, self.title, self.group) if column is not None]


def parse_source(text: str) -> Source:
    """Parse a source. Raises ValueError if it does not follow this module's docstring."""
    name, *items = text.split(",")
    preset, *defaults = PRESETS.get(name, name).split(",")
    values: dict[str, Any] = {}
    keys = [f.name for f in fields(Source) if f.name != "location"]
    for item in (*defaults, *items):
        key, _, value = item.partition("=")
        if key not in keys or not value:
            choices = ", ".join(f"{key}=" for key in keys)
            raise ValueError(f"source {text!r}: unknown key or missing value in {item!r}; choose from {choices}")
        values[key] = value
    if "rows" in values:
        if not (values["rows"].isascii() and values["rows"].isdigit()) or int(values["rows"]) < 1:
            raise ValueError(f"source {text!r}: rows must be an integer, at least 1, got {values['rows']}")
        values["rows"] = int(values["rows"])
    source = Source(preset, **values)
    if source.format not in (None, *FORMATS):
        raise ValueError(f"source {text!r}: unknown format {source.format!r}; choose from {', '.join(FORMATS)}")
    if source.group is not None and source.rows > 1:
        raise ValueError(f"source {text!r}: set either group= or rows=, not both")
    if not source.location.removeprefix("hub:"):
        raise ValueError(f"source {text!r} must name a file, a folder or a dataset of the hub")
    foreign, kind = (HUB_KEYS, "hub:NAME") if source.hub is None else (("format",), "files")
    for key in foreign:
        if key in values:
            raise ValueError(f"source {text!r}: {key}= applies only to {kind}")
    return source


def file_format(source: Source, file: str) -> str:
    """``text``, ``jsonl`` or ``parquet``. Raises ValueError if the suffix is unknown and the source has no format."""
    if source.format is not None:
        return source.format
    suffix = _format_suffix(file)
    if suffix not in SUFFIXES:
        raise ValueError(f"{file}: unknown suffix {suffix!r}; add ,format=text, jsonl or parquet to the source")
    return SUFFIXES[suffix]


def _format_suffix(file) -> str:
    """The suffix, ignoring that of the compression."""
    path = Path(file)
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def list_files(source: Source) -> list[str]:
    """Local files of a source, in order (none for a dataset on the hub).

    Raises:
        ValueError: a file is empty, or a local source has no files.
    """
    location = source.hub or source.location
    if os.path.isdir(location):
        paths = (path for path in Path(location).rglob("*") if path.is_file())
        files = sorted(str(path) for path in paths if _is_read(source, path.relative_to(location)))
    elif source.hub is not None:
        return []
    else:
        files = (
            [location] if os.path.isfile(location) else sorted(filter(os.path.isfile, glob(location, recursive=True)))
        )
    if source.hub is not None:
        return files
    if not files and os.path.isdir(location):
        raise ValueError(f"source {location} has no files named *{', *'.join(SUFFIXES)}; set their format with format=")
    if not files:
        raise ValueError(
            f"source {location} does not exist; it must be a file, a folder, a glob pattern, hub:NAME or one of "
            f"{', '.join(PRESETS)}"
        )
    for file in files:
        if os.path.getsize(file) == 0:
            raise ValueError(f"{file} is empty")
    return files


def reads_path(source: Source, path) -> bool:
    """Whether a file written to ``path`` would become part of the source."""
    location = source.hub or source.location
    if os.path.isdir(location):
        folder, file = Path(location).resolve(), Path(path).resolve()
        return file.is_relative_to(folder) and _is_read(source, file.relative_to(folder))
    return source.hub is None and _matches(Path(os.path.abspath(path)).parts, Path(os.path.abspath(location)).parts)


def check_outside(sources: Iterable[Source], paths: Iterable[Path]) -> None:
    """Raise ValueError if a source would read one of the files to be written."""
    files = list(paths)
    for source in sources:
        for path in files:
            if reads_path(source, path):
                raise ValueError(f"OUT must be outside source {source.location}, which would read {path}")


def _matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """Match as ``glob`` does: ** matches any number of folders."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_matches(path[i:], pattern[1:]) for i in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])


def _is_read(source: Source, path: Path) -> bool:
    """Whether a file in a source's folder is read: not hidden, not in a hidden folder, and of a known format."""
    if any(part.startswith(".") for part in path.parts):
        return False
    return source.hub is not None or source.format is not None or _format_suffix(path) in SUFFIXES
