"""Text sources: local files and the Hugging Face hub.

A source is written ``LOCATION,key=value,...``; no part may contain a comma. LOCATION is a file, a folder (read
recursively, without hidden files and folders), a glob pattern such as ``books/*.txt.gz``, ``hub:NAME``, or
``hub:FOLDER`` for a folder laid out like a dataset on the hub. Keys:

    format=text|jsonl|parquet    format of all files (default: by their suffix)
    column=text                  (rows: all formats but text) column of the text
    title=COLUMN                 (rows) title, inserted before the text on a line of its own
    group=COLUMN                 (rows) consecutive rows with equal values form a document, like a book's sentences
    rows=N                       (rows) N consecutive rows form a document, if no column groups them (a document also
                                 ends with its file)
    config=, revision=, split=   (hub) configuration, revision and split
    license=...                  copied to the manifest

Instead of LOCATION, a name in ``PRESETS``. Keys that do not apply to the source are rejected.
"""

import os
from dataclasses import dataclass, fields, replace
from glob import escape, glob
from typing import Any

from ..errors import first_line
from .tables import FORMATS as TABLE_FORMATS
from .tables import suffix_of

PRESETS = {
    "wikipedia": "hub:wikimedia/wikipedia,config=20231101.en,revision=b04c8d1ceb2f5cd4588862100d08de323dccfbaa,"
    "title=title,license=CC BY-SA 3.0 and GFDL",
    # Whole books; the repository states no license, the copyrights are the authors'.
    "bookcorpusopen": "hub:lucadiliello/bookcorpusopen,license=not stated",
    # Single lowercase sentences in the order of the books, without marks between books.
    "bookcorpus": "hub:bookcorpus,revision=refs/convert/parquet,rows=1000,license=not stated",
}
FORMATS = ("text", "jsonl", "parquet")
SUFFIXES = {".txt": "text", ".text": "text"} | {
    suffix: kind for suffix, kind in TABLE_FORMATS.items() if kind in FORMATS
}
VALID_SHARE = 0.005
"""Default share of the documents for validation."""
MAX_SHARDS = 256
"""Each shard has an open file."""
HUB_KEYS = ("config", "revision", "split")
ROW_KEYS = ("column", "title", "group", "rows")


@dataclass(frozen=True)
class Source:
    """A source of text; the fields but ``files`` are the keys in this module's docstring."""

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
    files: tuple[str, ...] = ()
    """Paths of the local files, in order; set by ``locate_source``."""

    @property
    def hub(self) -> str | None:
        """Dataset name (or folder) after ``hub:``; None for files."""
        return self.location.removeprefix("hub:") if self.location.startswith("hub:") else None

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return [column for column in (self.column, self.title, self.group) if column is not None]

    @property
    def has_rows(self) -> bool:
        """Whether it has rows, in all files but those of text."""
        return self.hub is not None or any(self.format_of(file) != "text" for file in self.files)

    def format_of(self, file) -> str | None:
        """``text``, ``jsonl`` or ``parquet``; None if the suffix is unknown and the source has no format."""
        return self.format or SUFFIXES.get(suffix_of(file))


def parse_source(text: str) -> Source:
    """Parse a source. Raises ValueError if it does not follow this module's docstring."""
    name, *items = text.split(",")
    preset, *defaults = PRESETS.get(name, name).split(",")
    values: dict[str, Any] = {}
    keys = [f.name for f in fields(Source) if f.name not in ("location", "files")]
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


def locate_source(source: Source) -> Source:
    """The source with its files, or with the commit of its revision on the hub."""
    if source.hub is None:
        return replace(source, files=_list_files(source))
    if not os.path.isdir(source.hub):
        return replace(source, revision=_resolve_revision(source.hub, source.revision))
    if source.revision is not None:
        raise ValueError(f"source {source.location}: revision= applies only to the hub, not to a folder")
    return replace(source, files=_list_folder(source.hub))


def _list_files(source: Source) -> tuple[str, ...]:
    location = source.location
    if os.path.isdir(location):
        files = tuple(file for file in _list_folder(location) if source.format_of(file))
        if not files:
            raise ValueError(f"source {location} has no files named *{', *'.join(SUFFIXES)}; set format=")
    else:
        found = [location] if os.path.isfile(location) else glob(location, recursive=True)
        files = tuple(sorted(filter(os.path.isfile, found)))
    if not files:
        raise ValueError(
            f"source {location} does not exist; it must be a file, a folder, a glob pattern, hub:NAME or one of "
            f"{', '.join(PRESETS)}"
        )
    for file in files:
        if not source.format_of(file):
            raise ValueError(f"{file}: unknown suffix; add ,format=text, jsonl or parquet to the source")
        if os.path.getsize(file) == 0:
            raise ValueError(f"{file} is empty")
    keys = [key for key in ROW_KEYS if getattr(source, key) != getattr(Source, key)]
    if keys and not replace(source, files=files).has_rows:
        raise ValueError(f"source {location}: {keys[0]}= applies only to JSON lines, parquet and the hub")
    return files


def _list_folder(folder: str) -> tuple[str, ...]:
    """The files in a folder, without hidden ones and those in hidden folders; links are followed."""
    found = glob(os.path.join(escape(folder), "**", "*"), recursive=True)
    return tuple(sorted(filter(os.path.isfile, found)))


def _resolve_revision(name: str, revision: str | None) -> str | None:
    """The current commit of a revision."""
    if revision is not None and len(revision) == 40:
        return revision
    from huggingface_hub import HfApi

    try:
        return HfApi().dataset_info(name, revision=revision).sha
    except Exception as error:  # network and name errors have no common type
        raise ValueError(f"cannot reach hub dataset {name}: {type(error).__name__}: {first_line(error)}") from None
