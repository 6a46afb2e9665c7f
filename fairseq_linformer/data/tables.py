"""Rows of tabular files: TSV and CSV with a header, JSON and parquet, all of which may be compressed.

TSV has no quoting, as in GLUE; CSV is read by Python's ``csv``. JSON has an object per line, or an array of objects.
Text is UTF-8.
"""

import csv
import io
import json
import lzma
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import first_line
from ..files import is_read_error

FORMATS = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
"""Formats by suffix of the file name."""
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": None, ".zst": "zstd"}
"""Suffixes of compressed files, after that of the format, and their names in pyarrow, which does not read .xz."""
BATCH_ROWS = 64
"""Rows of parquet that are in memory at a time, and records of JSON whose keys are the columns: few, because they can
be whole books."""
LINE_BREAKS = re.compile(r"\r\n|[\n\r\t]")
Record = dict[str, Any] | str
"""Values by column; for an unusable line, what is wrong with it."""
Records = Iterator[tuple[int, Record]]
"""Records with their numbers: of the line, or in an array and in parquet of the row, from 1."""


@dataclass(frozen=True)
class Example:
    """One or two texts, and their label.

    Attributes:
        location: FILE:LINE, or the file if it holds a single row.
        texts: stripped and without line breaks.
        label: the source's name of the class, or the score; None for an unlabeled row.
        problem: why the row is unusable; empty if it is usable.
    """

    location: str
    texts: tuple[str, ...] = ()
    label: str | None = None
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.location}: {self.problem}"


def suffix_of(path) -> str:
    """The suffix of a file's format, in lowercase.

    >>> suffix_of("rows.CSV.gz"), suffix_of("rows")
    ('.csv', '')
    """
    path = Path(path)
    return (Path(path.stem) if path.suffix.lower() in COMPRESSED else path).suffix.lower()


def find_format(path, formats: dict[str, str] = FORMATS) -> str:
    """The format of a file; ValueError for an unknown suffix."""
    suffix = suffix_of(path)
    if suffix not in formats:
        compressed = f"which may be followed by {', '.join(COMPRESSED)}"
        raise ValueError(f"{path} must end in one of {', '.join(formats)}, {compressed}; archives must be unpacked")
    return formats[suffix]


@contextmanager
def open_file(path) -> Iterator[io.BufferedReader]:
    """Open a file for reading, decompressed by its suffix; ValueError if it turns out to be damaged in the block."""
    import pyarrow

    with reject_damage(path):
        suffix = Path(path).suffix.lower()
        name = COMPRESSED.get(suffix)
        stream: Any = lzma.open(path) if suffix == ".xz" else pyarrow.input_stream(str(path), compression=name)
        with io.BufferedReader(stream, 1 << 20) as file:
            yield file


@contextmanager
def reject_damage(path) -> Iterator[None]:
    """Raise ValueError if the content of a file turns out to be damaged in the block."""
    import pyarrow

    try:
        yield
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8") from None
    except (EOFError, lzma.LZMAError, pyarrow.ArrowException, OSError) as error:
        if is_read_error(error):  # already clear
            raise
        raise ValueError(f"{path} is truncated or damaged: {first_line(error)}") from None


def decode_lines(file: BinaryIO, kind: str) -> io.TextIOWrapper:
    """The lines of a binary file. Bytes that are not UTF-8 become surrogates, which ``build_example`` rejects."""
    newline = "" if kind == "csv" else "\n"  # elsewhere a carriage return is an ordinary character
    return io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline)


def open_table(
    path, kind: str | None = None, header: Sequence[str] | None = None, file: BinaryIO | None = None
) -> tuple[list[str], Callable[[Sequence[str]], Records]]:
    """Open a file.

    Args:
        kind: a value of ``FORMATS``; None to infer it from the file name.
        header: names of the columns of a TSV or CSV file without a header.
        file: an open file of TSV, CSV or JSON, to read instead; then ``path`` is its name for messages.

    Returns:
        The columns (of JSON, the keys that half of the first records or more have; none if there are no rows), and a
        function that reads the records with at least the columns that it gets. It may be called once.

    Raises:
        ValueError: no row is usable, or the file is damaged.
    """
    kind = kind or find_format(path)
    if kind == "parquet":
        return _open_parquet(path)
    records, read = _read_file(path, kind, header, file), []
    found: Counter[str] = Counter()
    num_records = 0
    for number, record in records:
        read.append((number, record))
        if record and isinstance(record, dict):
            found.update(record.keys())
            num_records += 1
            if num_records == BATCH_ROWS:
                break
    if found:
        columns = [key for key, count in found.items() if 2 * count >= num_records]
        return columns or list(found), lambda columns: chain(read, records)
    if read:
        number, problem = read[0]
        raise ValueError(f"{path}:{number}: {problem or 'no columns'}")
    return [], lambda columns: records


def _read_file(path, kind: str, header: Sequence[str] | None, file: BinaryIO | None) -> Records:
    with nullcontext(file) if file else open_file(path) as opened:
        lines = decode_lines(opened, kind)
        yield from _read_json(path, lines) if kind == "jsonl" else _read_fields(path, lines, kind, header)


def _read_fields(name, lines: Iterable[str], kind: str, header: Sequence[str] | None) -> Records:
    rows = _split_csv(name, lines) if kind == "csv" else _split_tsv(lines)
    columns = header if header is not None else next(rows, (0, []))[1]
    check_header(name, columns)
    for number, fields in rows:
        if len(fields) == len(columns):
            yield number, dict(zip(columns, fields))
        else:
            yield number, f"{len(fields)} columns instead of {len(columns)}"


def check_header(name, columns: Sequence[str]) -> None:
    """Raise ValueError if two columns of a file have the same name; several can be without one."""
    named = [column for column in columns if column]
    if len(set(named)) < len(named):
        raise ValueError(f"{name} has a duplicate column: {', '.join(columns)}")


def _split_tsv(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The number and the fields of each line that is not empty."""
    for number, line in enumerate(lines, 1):
        if text := line.removesuffix("\n").removesuffix("\r"):
            yield number, text.split("\t")


def _split_csv(name, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(sys.maxsize)  # the default is 131,072 characters
    reader, start = csv.reader(lines, strict=True), 1
    try:
        for fields in reader:
            if fields:
                yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:  # such as a quote that is not closed, which would swallow the next rows
        raise ValueError(f"{name}, row from line {start:,} is not CSV: {error}") from None


def _read_json(name, lines: Iterable[str]) -> Records:
    """The objects of an array, which is in memory as a whole, or one per line."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    for i, (number, line) in enumerate(numbered):
        if i == 0 and line.lstrip().startswith("["):
            yield from enumerate(_parse_array(name, line + "".join(line for _, line in numbered)), 1)
        else:
            yield number, _parse_object(line)


def _parse_array(name, content: str) -> list[dict[str, Any]]:
    try:
        records: list[dict[str, Any]] = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not JSON: {error}") from None
    if not all(isinstance(record, dict) for record in records):
        raise ValueError(f"{name} must be an array of objects, or have an object per line")
    return records


def _parse_object(line: str) -> Record:
    if not is_unicode(line):
        return "not UTF-8"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return "not JSON"
    return record if isinstance(record, dict) else "not a JSON object"


def _open_parquet(path) -> tuple[list[str], Callable[[Sequence[str]], Records]]:
    """Open a parquet file, of which only the columns that are asked for are read. Classes have their names."""
    import pyarrow
    from datasets import ClassLabel, Features
    from pyarrow.parquet import ParquetFile

    with reject_damage(path):
        schema = ParquetFile(path).schema_arrow
        check_header(path, schema.names)

    def read(columns: Sequence[str]) -> Records:
        with reject_damage(path):
            numbers = [schema.field(name) for name in columns if pyarrow.types.is_integer(schema.field(name).type)]
            features = Features.from_arrow_schema(pyarrow.schema(numbers, schema.metadata))
            names = {name: feature.names for name, feature in features.items() if isinstance(feature, ClassLabel)}
            batches = ParquetFile(path).iter_batches(BATCH_ROWS, columns=list(columns))
            for number, record in enumerate(chain.from_iterable(batch.to_pylist() for batch in batches), 1):
                for column, classes in names.items():
                    known = record[column] in range(len(classes))
                    record[column] = classes[record[column]] if known else None  # -1 is no label
                yield number, record

    return schema.names, read


def check_columns(name, known: Iterable[str], columns: Iterable[str]) -> None:
    """Raise ValueError if a file or record with the columns ``known`` lacks one of ``columns``."""
    for column in columns:
        if column not in known:
            raise ValueError(f"{name} has no column {column}; choose from {', '.join(known)}")


def build_example(location: str, record: Record, texts: Sequence[str], label: str | None) -> Example:
    """The example of a record.

    Texts are stripped, and line breaks and tabs become spaces, because fairseq's preprocessing has one row per line.
    So the same text gives the same tokens from all formats. Nothing else changes.

    Args:
        texts: columns of the texts.
        label: column of the label; None for unlabeled rows.
    """
    if isinstance(record, str):
        return Example(location, problem=record)
    values = []
    for column in texts:
        value = record.get(column)
        if not isinstance(value, str) or not value.strip():
            return Example(location, problem=f"no text in {column}")
        if not is_unicode(value):
            return Example(location, problem="not UTF-8")
        values.append(LINE_BREAKS.sub(" ", value).strip())
    if label is None:
        return Example(location, tuple(values))
    name = read_label(record, label)
    if not name or not is_unicode(name):
        return Example(location, problem=f"no label in {label}")
    return Example(location, tuple(values), name)


def read_label(record: dict[str, Any], column: str) -> str:
    """The label of a record; empty if it has none."""
    value = record.get(column)
    is_label = isinstance(value, str | int | float | Decimal) and value == value  # not NaN
    return LINE_BREAKS.sub(" ", str(value)).strip() if is_label else ""


def is_unicode(text: str) -> bool:
    """Whether a text has no unpaired surrogates, which JSON allows and bytes that are not UTF-8 become."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
