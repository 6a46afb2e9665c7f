"""Sources cut into chunks that any process can read alone."""

import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from ..errors import first_line
from .rows import ALL, hub_dataset, parquet_file
from .sources import ROW_KEYS, Source, files_of, format_of
from .streams import COMPRESSED, MAX_BYTES, open_stream, read_line


@dataclass(frozen=True)
class Chunk:
    """A part of a source that is read in one go. The format says what ``start`` and ``end`` are:

    text, jsonl    bytes, decompressed: the first, and the one behind the last or None for all that is left
    parquet        row groups: the first, and the one behind the last
    hub            the number of a shard or ``ALL``, and how many shards there are
    """

    source: int
    """Its place among the sources."""
    file: str
    """Or ``hub:NAME``."""
    format: str
    start: int
    end: Optional[int]
    bytes: int
    """How much there is to read, roughly."""


@dataclass
class Plan:
    """Chunks in order, and what they were made of, so that a change is noticed."""

    sources: List[Dict[str, Any]]
    """Each source as a dictionary, with its ``files``: path, bytes, time of change."""
    chunks: List[Chunk] = field(default_factory=list)


def make_plan(sources: List[Source], chunk_bytes: int) -> Plan:
    """Look at all sources, without reading them.

    Raises:
        ValueError: nothing is there, a file is empty, it cannot be told what it is, or it is not what a key says; a sentence.
    """
    made = Plan([])
    for number, source in enumerate(sources):
        files = files_of(source)
        if source.hub is not None:
            source = replace(source, revision=_commit(source))
            made.chunks += _hub_chunks(number, source)
        else:
            _check_row_keys(source, files)
            for file in files:
                made.chunks += _file_chunks(number, source, file, chunk_bytes)
        stats = [(file, os.stat(file)) for file in files]
        made.sources.append(
            {**asdict(source), "files": [{"path": file, "bytes": s.st_size, "changed": s.st_mtime_ns} for file, s in stats]}
        )
    if not made.chunks:
        raise ValueError("the sources have no documents")
    return made


def source_of(planned: Dict[str, Any]) -> Source:
    """A source of a plan, with the revision that was found."""
    return Source(**{key: value for key, value in planned.items() if key != "files"})


def _check_row_keys(source: Source, files: List[str]) -> None:
    given = [key for key in ROW_KEYS if getattr(source, key) != getattr(Source, key)]
    if given and all(format_of(source, file) == "text" for file in files):
        raise ValueError(f"the source {source.location} is text, which has no rows; {given[0]}= must be left out")


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
    if os.path.isdir(source.hub):
        if revision is not None:
            raise ValueError(f"the source {source.location} is a folder, which has no revision; revision= must be left out")
        return None
    if revision is not None and len(revision) == 40:
        return revision
    from huggingface_hub import HfApi

    try:
        return HfApi().dataset_info(source.hub, revision=revision).sha
    except Exception as error:
        raise ValueError(f"the hub's {source.hub} cannot be reached: {type(error).__name__}: {first_line(error)}") from None


def _hub_chunks(number: int, source: Source) -> List[Chunk]:
    dataset = hub_dataset(source)
    count = dataset.num_shards
    size = (dataset.info.dataset_size or 0) // count or 1
    if source.group is not None:  # a group of rows may go on in the next shard
        return [Chunk(number, source.location, "hub", ALL, count, size * count)]
    return [Chunk(number, source.location, "hub", i, count, size) for i in range(count)]
