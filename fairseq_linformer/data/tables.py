"""Rows of tabular files: TSV and CSV with a header, JSON lines and parquet.

TSV has no quoting, as in GLUE; CSV is read by Python's ``csv``. Text is UTF-8.
"""

import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import first_line

FORMATS = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
"""Formats by suffix of the file name."""
LINE_BREAKS = re.compile(r"\r\n|[\n\r\t]")
Record = dict[str, Any] | str
"""Values by column; for an unusable line, what is wrong with it."""


@dataclass(frozen=True)
class Row:
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


def find_format(path, formats: dict[str, str] = FORMATS) -> str:
    """The format of a file; ValueError for an unknown suffix."""
    suffix = Path(path).suffix.lower()
    if suffix not in formats:
        raise ValueError(f"{path} must end in one of {', '.join(formats)}; archives must be unpacked")
    return formats[suffix]


def decode_lines(file: BinaryIO, kind: str) -> io.TextIOWrapper:
    """The lines of a binary file. Bytes that are not UTF-8 become surrogates, which ``build_row`` rejects."""
    newline = "" if kind == "csv" else "\n"  # elsewhere a carriage return is an ordinary character
    return io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline)


def read_table(path, columns: Sequence[str] | None = None) -> Iterator[tuple[int, Record]]:
    """Read a file in the format of its suffix, see ``read_lines``; rows of parquet are numbered from 1."""
    kind = find_format(path)
    if kind == "parquet":
        yield from read_parquet(path)
    else:
        with open(path, "rb") as file, decode_lines(file, kind) as lines:
            yield from read_lines(path, lines, kind, columns)


def read_lines(
    name, lines: Iterable[Any], kind: str, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, Record]]:
    """The records of a text file, each with the number of its line.

    Args:
        name: of the file, for messages.
        lines: from ``decode_lines``; those of ``jsonl`` may be bytes.
        kind: ``tsv``, ``csv`` or ``jsonl``.
        columns: names of the columns of a file without a header.
    """
    if kind == "jsonl":
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, _parse_json(line)
        return
    rows = _split_csv(name, lines) if kind == "csv" else _split_tsv(lines)
    header = columns if columns is not None else next(rows, (0, []))[1]
    check_header(name, header)
    for number, fields in rows:
        if len(fields) == len(header):
            yield number, dict(zip(header, fields))
        else:
            yield number, f"{len(fields)} columns instead of {len(header)}"


def check_header(name, columns: Sequence[str]) -> None:
    """Raise ValueError if two columns of a file have the same name."""
    if len(set(columns)) < len(columns):
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
                yield reader.line_num, fields
            start = reader.line_num + 1
    except csv.Error as error:  # such as a quote that is not closed, which would swallow the next rows
        raise ValueError(f"{name}, row from line {start:,} is not CSV: {error}") from None


def _parse_json(line: str | bytes) -> Record:
    try:
        record = json.loads(line)
    except UnicodeDecodeError:
        return "not UTF-8"
    except (ValueError, RecursionError):
        return "not JSON"
    return record if isinstance(record, dict) else "not a JSON object"


def read_parquet(path) -> Iterator[tuple[int, Record]]:
    """The records of a parquet file, numbered from 1, with the names of classes. Raises ValueError if it is damaged."""
    import pyarrow
    from datasets import ClassLabel, Features
    from pyarrow.parquet import ParquetFile

    try:
        parquet = ParquetFile(path)
        check_header(path, parquet.schema_arrow.names)
        features = Features.from_arrow_schema(parquet.schema_arrow)
        names = {column: feature.names for column, feature in features.items() if isinstance(feature, ClassLabel)}
        records = (record for batch in parquet.iter_batches() for record in batch.to_pylist())
        for number, record in enumerate(records, 1):
            for column, classes in names.items():
                known = record[column] in range(len(classes))
                record[column] = classes[record[column]] if known else None  # -1 is no label
            yield number, record
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{path} is not a parquet file, or is damaged: {first_line(error)}") from None


def check_columns(name, known: Iterable[str], columns: Iterable[str]) -> None:
    """Raise ValueError if a file or record with the columns ``known`` lacks one of ``columns``."""
    for column in columns:
        if column not in known:
            raise ValueError(f"{name} has no column {column}; choose from {', '.join(known)}")


def build_row(location: str, record: Record, texts: Sequence[str], label: str | None) -> Row:
    """The row of a record.

    Texts are stripped, and line breaks and tabs become spaces, because fairseq's preprocessing has one row per line.
    So the same text gives the same tokens from all formats. Nothing else changes.

    Args:
        texts: columns of the texts.
        label: column of the label; None for unlabeled rows.
    """
    if isinstance(record, str):
        return Row(location, problem=record)
    values = []
    for column in texts:
        value = record.get(column)
        if not isinstance(value, str) or not value.strip():
            return Row(location, problem=f"no text in {column}")
        if not is_unicode(value):
            return Row(location, problem="not UTF-8")
        values.append(LINE_BREAKS.sub(" ", value).strip())
    if label is None:
        return Row(location, tuple(values))
    value = record.get(label)
    is_label = isinstance(value, str | int | float) and value == value  # not NaN
    name = LINE_BREAKS.sub(" ", str(value)).strip() if is_label else ""
    if not name or not is_unicode(name):
        return Row(location, problem=f"no label in {label}")
    return Row(location, tuple(values), name)


def is_unicode(text: str) -> bool:
    """Whether a text has no unpaired surrogates, which JSON allows and bytes that are not UTF-8 become."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
