"""Where text comes from: files and the Hugging Face hub.

A source is written ``LOCATION,key=value,...``, and no part of it can hold a comma. LOCATION is a file, a
folder, which is read with all folders in it but hidden ones, a pattern such as ``books/*.txt.gz``, ``hub:NAME``,
or ``hub:FOLDER`` for a folder that is laid out as a data set of the hub. Keys:

    format=text|jsonl|parquet    of files whose suffix does not say it
    column=text                  of rows (all but text has them): the column with the text
    title=COLUMN                 of rows: a title to put before the text, as a line of its own
    group=COLUMN                 of rows: neighbours with the same value are one document, such as the sentences of a book
    rows=N                       of rows: N neighbours are one document, where nothing says which belong together (a
                                 file, or a shard of the hub, ends one too)
    config=, revision=, split=   of the hub
    licence=...                  noted in the manifest

or one of ``PRESETS`` by its name, to which keys can be added. A key of what a source is not is refused.
"""

import os
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from .streams import COMPRESSED

PRESETS = {
    "wikipedia": "hub:wikimedia/wikipedia,config=20231101.en,revision=b04c8d1ceb2f5cd4588862100d08de323dccfbaa,title=title,"
    "licence=CC BY-SA 3.0 and GFDL",
    # Whole books; its own repository states no licence, the books are their authors'.
    "bookcorpusopen": "hub:lucadiliello/bookcorpusopen,licence=not stated",
    # Single lower-case sentences in the order of the books, without a mark where one ends.
    "bookcorpus": "hub:bookcorpus,revision=refs/convert/parquet,rows=1000,licence=not stated",
}
SUFFIXES = {".txt": "text", ".text": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
FORMATS = ("text", "jsonl", "parquet")
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
        """The name on the hub, None of files."""
        return self.location.removeprefix("hub:") if self.location.startswith("hub:") else None

    @property
    def joins_rows(self) -> bool:
        """A document may be several rows."""
        return self.group is not None or self.rows > 1

    @property
    def columns(self) -> List[str]:
        """What is read of a row."""
        return [column for column in (self.column, self.title, self.group) if column is not None]


def parse(text: str) -> Source:
    """A source from how it is written.

    Raises:
        ValueError: it is not written so; a sentence.
    """
    name, *rest = text.split(",")
    preset, *defaults = PRESETS.get(name, name).split(",")
    given: Dict[str, Any] = {}
    known = [f.name for f in fields(Source) if f.name != "location"]
    for item in (*defaults, *rest):
        key, equals, value = item.partition("=")
        if key not in known or not equals or not value:
            raise ValueError(f"the source {text!r} has {item!r}; it must be one of {', '.join(k + '=' for k in known)} with a value")
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
    for key in ("format",) if source.hub is not None else HUB_KEYS:
        if key in given:
            raise ValueError(f"the source {text!r} has {key}=, which is for {'files' if source.hub is not None else 'hub:NAME'}; it must be left out")
    return source


def format_of(source: Source, file: str) -> str:
    """``text``, ``jsonl`` or ``parquet``."""
    if source.format is not None:
        return source.format
    suffix = _suffix(file)
    if suffix not in SUFFIXES:
        raise ValueError(f"{file} has a suffix that says no format; add ,format=text, jsonl or parquet to the source")
    return SUFFIXES[suffix]


def _suffix(file: str) -> str:
    """The one that says the format."""
    path = Path(file)
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def files_of(source: Source) -> List[str]:
    """Its files on this machine, in order.

    Raises:
        ValueError: there are none, or one is empty.
    """
    location = source.location
    if source.hub is not None:
        return _below(Path(source.hub)) if os.path.isdir(source.hub) else []
    if os.path.isdir(location):
        found = [file for file in _below(Path(location)) if _is_of_folder(source, file)]
    elif os.path.isfile(location):
        found = [location]
    else:
        found = sorted(file for file in glob(location, recursive=True) if os.path.isfile(file))
    if not found:
        raise ValueError(f"the source {location} has no files")
    for file in found:
        if os.path.getsize(file) == 0:
            raise ValueError(f"{file} is empty")
    return found


def takes(source: Source, path) -> bool:
    """Would a file that somebody writes to ``path`` be one of the source's?"""
    location = source.hub or source.location
    if os.path.isdir(location):
        folder, file = Path(location).resolve(), Path(path).resolve()
        return file.is_relative_to(folder) and not _is_hidden(file.relative_to(folder)) and (source.hub is not None or _is_of_folder(source, str(file)))
    return source.hub is None and _matches(Path(os.path.abspath(path)).parts, Path(os.path.abspath(location)).parts)


def _matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """As ``glob`` has it: ** stands for any number of folders."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_matches(path[i:], pattern[1:]) for i in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])


def _below(folder: Path) -> List[str]:
    """All files, sorted, but hidden ones and those in hidden folders."""
    return sorted(str(path) for path in folder.rglob("*") if path.is_file() and not _is_hidden(path.relative_to(folder)))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _is_of_folder(source: Source, file: str) -> bool:
    """Is a file of a source's folder one to read?"""
    return source.format is not None or _suffix(file) in SUFFIXES
