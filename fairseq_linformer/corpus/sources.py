"""Where text comes from: files and the Hugging Face hub.

A source is written ``LOCATION,key=value,...``, and none of its parts may contain a comma. LOCATION is a file, a folder, which
is read with all folders in it except hidden ones, a pattern such as ``books/*.txt.gz``, ``hub:NAME``, or ``hub:FOLDER``
for a folder laid out like a data set of the hub. Keys:

    format=text|jsonl|parquet    of files whose suffix does not say it
    column=text                  of rows (of every format except text): the column with the text
    title=COLUMN                 of rows: a title to put before the text, as a line of its own
    group=COLUMN                 of rows: consecutive ones with the same value are one document, like a book's sentences
    rows=N                       of rows: N consecutive ones are one document, where nothing says which belong together
                                 (a file, or a shard of the hub, ends one too)
    config=, revision=, split=   of the hub
    licence=...                  noted in the manifest

or the name of one of ``PRESETS``, to which keys can be added. A key that does not apply to the source is refused.
"""

import os
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from .streams import COMPRESSED

PRESETS = {
    "wikipedia": "hub:wikimedia/wikipedia,config=20231101.en,revision=b04c8d1ceb2f5cd4588862100d08de323dccfbaa,"
    "title=title,licence=CC BY-SA 3.0 and GFDL",
    # Whole books; the repository states no licence, the books are their authors'.
    "bookcorpusopen": "hub:lucadiliello/bookcorpusopen,licence=not stated",
    # Single lower-case sentences in the order of the books, without a mark between books.
    "bookcorpus": "hub:bookcorpus,revision=refs/convert/parquet,rows=1000,licence=not stated",
}
FORMATS = ("text", "jsonl", "parquet")
SUFFIXES = {".txt": "text", ".text": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
SUFFIXES[".parquet"] = "parquet"
HUB_KEYS = ("config", "revision", "split")
ROW_KEYS = ("column", "title", "group", "rows")


@dataclass(frozen=True)
class Source:
    """One source; see the top of this file."""

    location: str
    format: Optional[str] = None
    column: str = "text"
    title: Optional[str] = None
    group: Optional[str] = None
    rows: int = 1
    config: Optional[str] = None
    revision: Optional[str] = None
    split: str = "train"
    licence: str = "not stated"

    @property
    def hub(self) -> Optional[str]:
        """The name on the hub, None for files."""
        return self.location.removeprefix("hub:") if self.location.startswith("hub:") else None

    @property
    def joins_rows(self) -> bool:
        """Whether a document may be several rows."""
        return self.group is not None or self.rows > 1

    @property
    def columns(self) -> List[str]:
        """The columns to read."""
        return [column for column in (self.column, self.title, self.group) if column is not None]


def parse(text: str) -> Source:
    """A source from its text; ValueError if that is not as described at the top of this file."""
    name, *rest = text.split(",")
    preset, *defaults = PRESETS.get(name, name).split(",")
    given: Dict[str, Any] = {}
    known = [f.name for f in fields(Source) if f.name != "location"]
    for item in (*defaults, *rest):
        key, equals, value = item.partition("=")
        if key not in known or not equals or not value:
            keys = ", ".join(f"{key}=" for key in known)
            raise ValueError(f"the source {text!r} has {item!r}; it must be one of {keys} with a value")
        given[key] = value
    if "rows" in given:
        if not (given["rows"].isascii() and given["rows"].isdigit()) or int(given["rows"]) < 1:
            raise ValueError(f"the source {text!r} has rows={given['rows']}; it must be a number, at least 1")
        given["rows"] = int(given["rows"])
    source = Source(preset, **given)
    if source.format not in (None, *FORMATS):
        raise ValueError(f"the source {text!r} has format={source.format}; it must be one of {', '.join(FORMATS)}")
    if source.group is not None and source.rows > 1:
        raise ValueError(f"the source {text!r} has both group= and rows=; it must be one of them")
    foreign, kind = (HUB_KEYS, "hub:NAME") if source.hub is None else (("format",), "files")
    for key in foreign:
        if key in given:
            raise ValueError(f"the source {text!r} has {key}=, which is for {kind}; it must be left out")
    return source


def format_of(source: Source, file: str) -> str:
    """``text``, ``jsonl`` or ``parquet``."""
    if source.format is not None:
        return source.format
    suffix = _suffix(file)
    if suffix not in SUFFIXES:
        raise ValueError(f"{file} has a suffix that says no format; add ,format=text, jsonl or parquet to the source")
    return SUFFIXES[suffix]


def _suffix(file) -> str:
    """The one that says the format."""
    path = Path(file)
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def files_of(source: Source) -> List[str]:
    """Its files on this machine, in order; ValueError if there are none, or one is empty."""
    location = source.hub or source.location
    if os.path.isdir(location):
        paths = (path for path in Path(location).rglob("*") if path.is_file())
        found = sorted(str(path) for path in paths if _is_read(source, path.relative_to(location)))
    elif source.hub is not None:
        return []
    elif os.path.isfile(location):
        found = [location]
    else:
        found = sorted(file for file in glob(location, recursive=True) if os.path.isfile(file))
    if source.hub is not None:
        return found
    if not found:
        raise ValueError(f"the source {location} has no files")
    for file in found:
        if os.path.getsize(file) == 0:
            raise ValueError(f"{file} is empty")
    return found


def takes(source: Source, path) -> bool:
    """Whether a file written to ``path`` would be one of the source's."""
    location = source.hub or source.location
    if os.path.isdir(location):
        folder, file = Path(location).resolve(), Path(path).resolve()
        return file.is_relative_to(folder) and _is_read(source, file.relative_to(folder))
    return source.hub is None and _matches(Path(os.path.abspath(path)).parts, Path(os.path.abspath(location)).parts)


def _matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """As in ``glob``: ** stands for any number of folders."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_matches(path[i:], pattern[1:]) for i in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])


def _is_read(source: Source, path: Path) -> bool:
    """Whether a file in a source's folder is read: no hidden one, none in a hidden folder, and of a known format."""
    if any(part.startswith(".") for part in path.parts):
        return False
    return source.hub is not None or source.format is not None or _suffix(path) in SUFFIXES
