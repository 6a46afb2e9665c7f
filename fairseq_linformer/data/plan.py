"""Splits sources into chunks that processes can read independently."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import first_line
from .row_readers import ALL_SHARDS, load_hub_dataset, open_parquet
from .sources import ROW_KEYS, Source, file_format, list_files
from .streams import COMPRESSED, MAX_BYTES, open_stream, read_line


@dataclass(frozen=True)
class Chunk:
    """A part of a source. ``start`` (included) and ``end`` (excluded) are, by format:

    text, jsonl    bytes, decompressed; an ``end`` of None reads to the end of the file
    parquet        row groups
    hub            instead of a range: the shard, or ``ALL_SHARDS``, and the number of shards
    """

    source: int
    """Index of the source."""
    file: str
    """Path, or ``hub:NAME``."""
    format: str
    start: int
    end: int | None
    bytes: int
    """Approximate size, for progress."""

    @property
    def is_stream(self) -> bool:
        """Whether documents are located by bytes, not by rows."""
        return self.format in ("text", "jsonl")


@dataclass
class Plan:
    """Chunks in order, and the files that they come from, to detect later changes."""

    sources: list[dict[str, Any]] = field(default_factory=list)
    """The fields of each ``Source``, and ``files``: path, bytes, modification time."""
    chunks: list[Chunk] = field(default_factory=list)


def make_plan(sources: list[Source], chunk_bytes: int) -> Plan:
    """Plan the chunks of all sources without reading the text.

    Raises:
        ValueError: a source does not exist, is empty, has an unknown format, or does not fit one of its keys.
    """
    plan = Plan()
    for index, source in enumerate(sources):
        files = list_files(source)
        if source.hub is not None:
            source = replace(source, revision=_resolve_revision(source, source.hub))
            plan.chunks += _hub_chunks(index, source)
        else:
            _check_row_keys(source, files)
            for file in files:
                plan.chunks += _file_chunks(index, source, file, chunk_bytes)
        stats = [(file, os.stat(file)) for file in files]
        records = [{"path": file, "bytes": stat.st_size, "changed": stat.st_mtime_ns} for file, stat in stats]
        plan.sources.append({**asdict(source), "files": records})
    if not plan.chunks:
        raise ValueError("the sources have no documents")
    return plan


def planned_source(planned: dict[str, Any]) -> Source:
    """The ``Source`` of an element of ``Plan.sources``, with its resolved revision."""
    # Plans of earlier versions spell it "licence".
    values = {"license" if key == "licence" else key: value for key, value in planned.items() if key != "files"}
    return Source(**values)


def _check_row_keys(source: Source, files: list[str]) -> None:
    keys = [key for key in ROW_KEYS if getattr(source, key) != getattr(Source, key)]
    if keys and all(file_format(source, file) == "text" for file in files):
        raise ValueError(f"source {source.location}: {keys[0]}= applies only to JSON lines, parquet and the hub")


def _file_chunks(index: int, source: Source, file: str, chunk_bytes: int) -> Iterator[Chunk]:
    format, size = file_format(source, file), os.path.getsize(file)
    if format == "parquet":
        yield from _parquet_chunks(index, source, file)
        return
    if Path(file).suffix in COMPRESSED or (format == "jsonl" and source.joins_rows):
        yield Chunk(index, file, format, 0, None, size)
        return
    start = 0
    with open_stream(file) as stream:
        while start < size:
            end = _next_document(stream, start + chunk_bytes, size, after_blank_line=format == "text")
            yield Chunk(index, file, format, start, end, end - start)
            start = end


def _next_document(stream, position: int, size: int, after_blank_line: bool) -> int:
    """Offset of the first document that begins at ``position`` or later."""
    if position >= size:
        return size
    stream.seek(position - 1)
    read_line(stream, MAX_BYTES)  # the rest of a line, or the end of the previous one
    while after_blank_line:
        line, length = read_line(stream, MAX_BYTES)
        if not line or (length <= MAX_BYTES and not line.strip()):
            break
    return min(stream.tell(), size)


def _parquet_chunks(index: int, source: Source, file: str) -> Iterator[Chunk]:
    metadata = open_parquet(file, source.columns).metadata
    if source.joins_rows:  # a document may continue in the next row group
        yield Chunk(index, file, "parquet", 0, metadata.num_row_groups, os.path.getsize(file))
        return
    for i in range(metadata.num_row_groups):
        yield Chunk(index, file, "parquet", i, i + 1, metadata.row_group(i).total_byte_size)


def _resolve_revision(source: Source, name: str) -> str | None:
    """The current commit of a hub revision, so that all parts read the same data."""
    revision = source.revision
    if os.path.isdir(name):
        if revision is not None:
            raise ValueError(f"source {source.location}: revision= applies only to the hub, not to a folder")
        return None
    if revision is not None and len(revision) == 40:
        return revision
    from huggingface_hub import HfApi

    try:
        return HfApi().dataset_info(name, revision=revision).sha
    except Exception as error:
        raise ValueError(f"cannot reach hub dataset {name}: {type(error).__name__}: {first_line(error)}") from None


def _hub_chunks(index: int, source: Source) -> list[Chunk]:
    dataset = load_hub_dataset(source)
    count = dataset.num_shards
    size = (dataset.info.dataset_size or 0) // count or 1
    if source.group is not None:  # a group of rows may continue in the next shard
        return [Chunk(index, source.location, "hub", ALL_SHARDS, count, size * count)]
    return [Chunk(index, source.location, "hub", i, count, size) for i in range(count)]
