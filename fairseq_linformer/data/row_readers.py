"""Rows of parquet files and of datasets on the Hugging Face hub, as dictionaries."""

from collections.abc import Iterator
from typing import Any

from ..errors import first_line
from .sources import Source

_BATCH_ROWS = 64  # few, because rows can be whole books
ALL_SHARDS = -1
"""In place of a shard's index: read all shards."""


def open_parquet(file: str, columns: list[str]):
    """Open a parquet file. Raises ValueError if it is damaged or lacks one of ``columns``."""
    import pyarrow.parquet

    try:
        parquet = pyarrow.parquet.ParquetFile(file)
        names = parquet.schema_arrow.names
    except (pyarrow.lib.ArrowException, OSError, UnicodeDecodeError) as error:
        if getattr(error, "errno", None) is not None:  # raised by the system; already clear
            raise
        raise ValueError(f"{file} is truncated or not a parquet file: {first_line(error)}") from None
    _check_columns(file, names, columns)
    return parquet


def read_parquet_rows(file: str, start: int, end: int, columns: list[str]) -> Iterator[dict[str, Any] | None]:
    """The rows of row groups ``start`` (included) to ``end`` (excluded); None for a row that is not UTF-8."""
    import pyarrow

    parquet = open_parquet(file, columns)
    try:
        for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=list(range(start, end)), columns=columns):
            yield from _to_rows(batch)
    except (pyarrow.lib.ArrowException, OSError) as error:
        raise ValueError(f"{file} is damaged: {first_line(error)}") from None


def _to_rows(batch) -> list[dict[str, Any] | None]:
    try:
        return batch.to_pylist()
    except UnicodeDecodeError:
        if len(batch) == 1:
            return [None]
        return [row for i in range(len(batch)) for row in _to_rows(batch.slice(i, 1))]


def import_datasets():
    """The ``datasets`` library without progress bars and warnings; errors are still raised."""
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    return datasets


def load_hub_dataset(source: Source):
    """Stream a dataset of the hub, or of a folder laid out like one.

    Raises:
        ValueError: it cannot be loaded, or lacks a column.
    """
    load_dataset = import_datasets().load_dataset
    try:
        dataset = load_dataset(source.hub, source.config, split=source.split, revision=source.revision, streaming=True)
        names = dataset.column_names or dataset._resolve_features().column_names
    except Exception as error:  # network, name and configuration errors have no common type
        raise ValueError(f"cannot load hub dataset {source.hub}: {type(error).__name__}: {first_line(error)}") from None
    _check_columns(f"hub dataset {source.hub}", names, source.columns)
    return dataset.select_columns(source.columns)


def read_hub_rows(source: Source, shard: int, num_shards: int) -> Iterator[dict[str, Any]]:
    """The rows of one shard of a hub dataset, or of ``ALL_SHARDS``."""
    dataset = load_hub_dataset(source)
    location = ""
    if shard != ALL_SHARDS:
        dataset, location = dataset.shard(num_shards=num_shards, index=shard), f" in shard {shard} of {num_shards}"
    num_rows = 0
    try:
        for row in dataset:
            yield row
            num_rows += 1
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ValueError(
            f"reading hub dataset {source.hub} failed{location} after {num_rows:,} rows: {reason}; rerun to resume"
        ) from None


def _check_columns(name: str, columns: list[str], required: list[str]) -> None:
    for column in required:
        if column not in columns:
            raise ValueError(f"{name} has no column {column!r}; choose from {', '.join(columns)}")
