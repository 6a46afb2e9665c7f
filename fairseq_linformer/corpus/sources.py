"""Where text comes from: files and the Hugging Face hub, cut into chunks that any process can read alone.

A source is written ``LOCATION,key=value,...``. LOCATION is a file, a folder, a pattern such as
``books/*.txt.gz``, or ``hub:NAME``. Keys:

    format=text|jsonl|parquet    of files whose suffix does not say it
    column=text                  of rows: the column with the text
    title=COLUMN                 of rows: a title to put before the text, as a line of its own
    group=COLUMN                 of rows: neighbours with the same value are one document, such as the sentences of a book
    rows=N                       of rows: N neighbours are one document, where nothing says which belong together (a
                                 file, or a shard of the hub, ends one too)
    config=, revision=, split=   of the hub
    licence=...                  noted in the manifest

or one of ``PRESETS`` by its name, to which keys can be added.
"""

import glob
import os
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from ..errors import first_line
from .rows import ALL
from .streams import COMPRESSED, MAX_BYTES, open_stream, read_line

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


@dataclass(frozen=True)
class Chunk:
    """A part of a source that is read in one go."""

    source: int
    file: str
    """Or ``hub:NAME``."""
    format: str
    start: int
    """First byte of text and JSON lines, first row group of parquet, number of the hub's shard or ``ALL``."""
    end: Optional[int]
    """Behind the last; None for all that is left. Of the hub the count of its shards."""
    bytes: int
    """How much there is to read, roughly."""


@dataclass
class Plan:
    """Chunks in order, and what they were made of, so that a change is noticed."""

    sources: List[Dict[str, Any]]
    """Each source as a dictionary, with its ``files``: path, bytes, time of change."""
    chunks: List[Chunk] = field(default_factory=list)


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
    return source


def plan(sources: List[Source], chunk_bytes: int) -> Plan:
    """Look at all sources, without reading them.

    Raises:
        ValueError: nothing is there, a file is empty, or it cannot be told what it is; a sentence.
    """
    made = Plan([])
    for number, source in enumerate(sources):
        if source.hub is not None:
            source = replace(source, revision=_commit(source))
            made.chunks += _hub_chunks(number, source)
        else:
            for file in files_of(source):
                made.chunks += _file_chunks(number, source, file, chunk_bytes)
        stats = [(file, os.stat(file)) for file in files_of(source)]
        made.sources.append(
            {**asdict(source), "files": [{"path": file, "bytes": s.st_size, "changed": s.st_mtime_ns} for file, s in stats]}
        )
    if not made.chunks:
        raise ValueError("the sources have no documents")
    return made


def source_of(planned: Dict[str, Any]) -> Source:
    """A source of a plan, with the revision that was found."""
    return Source(**{key: value for key, value in planned.items() if key != "files"})


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
        return sorted(str(path) for path in Path(source.hub).rglob("*") if path.is_file()) if os.path.isdir(source.hub) else []
    if os.path.isdir(location):
        below = (str(path) for path in Path(location).rglob("*") if path.is_file() and not path.name.startswith("."))
        found = sorted(file for file in below if source.format or _suffix(file) in SUFFIXES)
    elif os.path.isfile(location):
        found = [location]
    else:
        found = sorted(file for file in glob.glob(location, recursive=True) if os.path.isfile(file))
    if not found:
        raise ValueError(f"the source {location} has no files")
    for file in found:
        if os.path.getsize(file) == 0:
            raise ValueError(f"{file} is empty")
    return found


def _file_chunks(number: int, source: Source, file: str, chunk_bytes: int) -> Iterator[Chunk]:
    format, size = format_of(source, file), os.path.getsize(file)
    if format == "parquet":
        yield from _parquet_chunks(number, source, file)
        return
    if Path(file).suffix in COMPRESSED or (format == "jsonl" and source.joins_rows):
        yield Chunk(number, file, format, 0, None, size)
        return
    edges = [0]
    with open_stream(file) as stream:
        while edges[-1] < size:
            edges.append(_next_document(stream, edges[-1] + chunk_bytes, size, blank=format == "text"))
    for start, end in zip(edges, edges[1:]):
        yield Chunk(number, file, format, start, end, end - start)


def _next_document(stream, position: int, size: int, blank: bool) -> int:
    """The first byte of the first document that begins at ``position`` or later."""
    if position >= size:
        return size
    stream.seek(position - 1)
    read_line(stream, MAX_BYTES)  # what is left of a line, or the end of the line before
    while blank:
        line, length = read_line(stream, MAX_BYTES)
        if not line or (length <= MAX_BYTES and not line.strip()):
            break
    return min(stream.tell(), size)


def _parquet_chunks(number: int, source: Source, file: str) -> Iterator[Chunk]:
    from .rows import parquet_file

    parquet = parquet_file(file, source.columns)
    groups = parquet.metadata.num_row_groups
    if source.joins_rows:  # a document may go on in the next row group
        yield Chunk(number, file, "parquet", 0, groups, os.path.getsize(file))
        return
    for i in range(groups):
        yield Chunk(number, file, "parquet", i, i + 1, parquet.metadata.row_group(i).total_byte_size)


def _commit(source: Source) -> Optional[str]:
    """The commit that a revision of the hub is now, so that all parts read the same."""
    revision = source.revision
    if os.path.isdir(source.hub) or (revision is not None and len(revision) == 40):
        return revision
    from huggingface_hub import HfApi

    try:
        return HfApi().dataset_info(source.hub, revision=revision).sha
    except Exception as error:
        raise ValueError(f"the hub's {source.hub} cannot be reached: {type(error).__name__}: {first_line(error)}") from None


def _hub_chunks(number: int, source: Source) -> List[Chunk]:
    from .rows import hub_dataset

    dataset = hub_dataset(source)
    count = dataset.num_shards
    size = (dataset.info.dataset_size or 0) // count or 1
    if source.group is not None:  # a group of rows may go on in the next shard
        return [Chunk(number, source.location, "hub", ALL, count, size * count)]
    return [Chunk(number, source.location, "hub", i, count, size) for i in range(count)]
