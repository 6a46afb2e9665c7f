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
    """A part of a source that is read in one go. The format defines ``start`` (included) and ``end`` (excluded):

    text, jsonl    bytes, decompressed; ``end`` is None for all that is left
    parquet        row groups
    hub            the number of a shard or ``ALL``, and the number of shards
    """

    source: int
    """Its index among the sources."""
    file: str
    """Or ``hub:NAME``."""
    format: str
    start: int
    end: Optional[int]
    bytes: int
    """How much there is to read, roughly."""

    @property
    def is_stream(self) -> bool:
        """Whether its documents are counted in bytes, not in rows."""
        return self.format in ("text", "jsonl")


@dataclass
class Plan:
    """Chunks in order, and what they were made of, so that a change is noticed."""

    sources: List[Dict[str, Any]]
    """Each source as a dictionary, with its ``files``: path, bytes, time of change."""
    chunks: List[Chunk] = field(default_factory=list)


def make_plan(sources: List[Source], chunk_bytes: int) -> Plan:
    """Inspect all sources, without reading them.

    Raises:
        ValueError: a source does not exist, is empty, has no known format, or is not what a key says.
    """
    plan = Plan([])
    for number, source in enumerate(sources):
        files = files_of(source)
        if source.hub is not None:
            source = replace(source, revision=_commit(source))
            plan.chunks += _hub_chunks(number, source)
        else:
            _check_row_keys(source, files)
            for file in files:
                plan.chunks += _file_chunks(number, source, file, chunk_bytes)
        stats = [(file, os.stat(file)) for file in files]
        records = [{"path": file, "bytes": stat.st_size, "changed": stat.st_mtime_ns} for file, stat in stats]
        plan.sources.append({**asdict(source), "files": records})
    if not plan.chunks:
        raise ValueError("the sources have no documents")
    return plan


def source_of(planned: Dict[str, Any]) -> Source:
    """A source of a plan, with the revision that was found."""
    return Source(**{key: value for key, value in planned.items() if key != "files"})


def _check_row_keys(source: Source, files: List[str]) -> None:
    keys = [key for key in ROW_KEYS if getattr(source, key) != getattr(Source, key)]
    if keys and all(format_of(source, file) == "text" for file in files):
        raise ValueError(f"the source {source.location} is text, which has no rows; {keys[0]}= must be left out")


def _file_chunks(number: int, source: Source, file: str, chunk_bytes: int) -> Iterator[Chunk]:
    format, size = format_of(source, file), os.path.getsize(file)
    if format == "parquet":
        yield from _parquet_chunks(number, source, file)
        return
    if Path(file).suffix in COMPRESSED or (format == "jsonl" and source.joins_rows):
        yield Chunk(number, file, format, 0, None, size)
        return
    start = 0
    with open_stream(file) as stream:
        while start < size:
            end = _next_document(stream, start + chunk_bytes, size, after_blank_line=format == "text")
            yield Chunk(number, file, format, start, end, end - start)
            start = end


def _next_document(stream, position: int, size: int, after_blank_line: bool) -> int:
    """The first byte of the first document that begins at ``position`` or later."""
    if position >= size:
        return size
    stream.seek(position - 1)
    read_line(stream, MAX_BYTES)  # the rest of a line, or the end of the line before
    while after_blank_line:
        line, length = read_line(stream, MAX_BYTES)
        if not line or (length <= MAX_BYTES and not line.strip()):
            break
    return min(stream.tell(), size)


def _parquet_chunks(number: int, source: Source, file: str) -> Iterator[Chunk]:
    metadata = parquet_file(file, source.columns).metadata
    if source.joins_rows:  # a document may continue in the next row group
        yield Chunk(number, file, "parquet", 0, metadata.num_row_groups, os.path.getsize(file))
        return
    for i in range(metadata.num_row_groups):
        yield Chunk(number, file, "parquet", i, i + 1, metadata.row_group(i).total_byte_size)


def _commit(source: Source) -> Optional[str]:
    """The commit that a revision of the hub is now, so that all parts read the same."""
    revision = source.revision
    if os.path.isdir(source.hub):
        if revision is not None:
            raise ValueError(
                f"the source {source.location} is a folder, which has no revision; revision= must be left out"
            )
        return None
    if revision is not None and len(revision) == 40:
        return revision
    from huggingface_hub import HfApi

    try:
        return HfApi().dataset_info(source.hub, revision=revision).sha
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ValueError(f"the hub's {source.hub} cannot be reached: {reason}") from None


def _hub_chunks(number: int, source: Source) -> List[Chunk]:
    dataset = hub_dataset(source)
    count = dataset.num_shards
    size = (dataset.info.dataset_size or 0) // count or 1
    if source.group is not None:  # a group of rows may continue in the next shard
        return [Chunk(number, source.location, "hub", ALL, count, size * count)]
    return [Chunk(number, source.location, "hub", i, count, size) for i in range(count)]
