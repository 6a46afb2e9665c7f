"""Rows of parquet files and of the Hugging Face hub, as dictionaries."""

from typing import Any, Dict, Iterator, List, Optional

from ..errors import first_line

BATCH = 64
"""Rows read at once; whole books are long."""
ALL = -1
"""Instead of the number of a shard."""


def parquet_file(file: str, columns: List[str]):
    """A parquet file; ValueError if it is damaged or lacks one of ``columns``."""
    import pyarrow.parquet

    try:
        parquet = pyarrow.parquet.ParquetFile(file)
    except (pyarrow.lib.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:  # the system's, which says what it is
            raise
        raise ValueError(f"{file} is cut off or no parquet file: {first_line(error)}") from None
    _check_columns(file, parquet.schema_arrow.names, columns)
    return parquet


def parquet_rows(file: str, start: int, end: int, columns: List[str]) -> Iterator[Optional[Dict[str, Any]]]:
    """The rows of row groups ``start`` (included) to ``end`` (excluded); None for one that is not UTF-8."""
    import pyarrow

    parquet = parquet_file(file, columns)
    try:
        for batch in parquet.iter_batches(BATCH, row_groups=list(range(start, end)), columns=columns):
            yield from _decoded(batch)
    except (pyarrow.lib.ArrowException, OSError) as error:
        raise ValueError(f"{file} is damaged: {first_line(error)}") from None


def _decoded(batch) -> List[Optional[Dict[str, Any]]]:
    try:
        return batch.to_pylist()
    except UnicodeDecodeError:
        if len(batch) == 1:
            return [None]
        return [row for i in range(len(batch)) for row in _decoded(batch.slice(i, 1))]


def quiet_datasets():
    """The ``datasets`` library, which then reports only through its exceptions."""
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    return datasets


def hub_dataset(source):
    """A source on the hub, or in a folder laid out like one, as a stream.

    Raises:
        ValueError: it cannot be reached, or lacks a column.
    """
    load_dataset = quiet_datasets().load_dataset
    try:
        dataset = load_dataset(
            source.hub, source.config, split=source.split, revision=source.revision, streaming=True
        )
        names = dataset.column_names or dataset._resolve_features().column_names
    except Exception as error:  # the network, the name, the config: each has errors of its own
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ValueError(f"the hub's {source.hub} cannot be loaded: {reason}") from None
    _check_columns(f"the hub's {source.hub}", names, source.columns)
    return dataset.select_columns(source.columns)


def hub_rows(source, shard: int, shards: int) -> Iterator[Dict[str, Any]]:
    """The rows of one shard of the hub's dataset, or of all if it is ``ALL``."""
    dataset = hub_dataset(source)
    where = ""
    if shard != ALL:
        dataset, where = dataset.shard(num_shards=shards, index=shard), f"in shard {shard} of {shards} "
    rows = 0
    try:
        for row in dataset:
            yield row
            rows += 1
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ValueError(
            f"the hub's {source.hub} stopped {where}after {rows:,} rows: {reason}; rerun to resume"
        ) from None


def _check_columns(name: str, found: List[str], required: List[str]) -> None:
    for column in required:
        if column not in found:
            raise ValueError(f"{name} has no column {column!r}; it has {', '.join(found)}")
