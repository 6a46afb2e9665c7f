"""Rows of a file or of standard input: a table, see ``data/tables.py``, or text with one row per line."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from ..data import tables
from ..data.tables import Row, build_row, decode_lines, find_format, read_lines
from ..data.task_sources import Columns, choose_columns

FORMATS = {**tables.FORMATS, ".txt": "text"}
"""Formats by suffix of the file name."""
STDIN = "-"


def read_examples(
    path: str,
    kind: str | None,
    texts: Sequence[str] = (),
    label: str | None = None,
    inputs: int | None = None,
    trained: Columns | None = None,
) -> Iterator[Row]:
    """Read the rows of a file.

    Args:
        path: file, or ``-`` for standard input.
        kind: a value of ``FORMATS``; None to infer it from the file name.
        texts, label, inputs, trained: as for ``choose_columns``.
    """
    columns = partial(choose_columns, texts=tuple(texts), label=label, inputs=inputs, trained=trained)
    kind = kind or ("text" if path == STDIN else find_format(path, FORMATS))
    name = "standard input" if path == STDIN else path
    if kind == "parquet":
        yield from _read_table(name, tables.read_parquet(path), columns)
        return
    with decode_lines(sys.stdin.buffer if path == STDIN else open(path, "rb"), kind) as lines:
        if kind == "text":
            if texts or label:
                column = (*texts, label)[0]
                raise ValueError(f"{name} is plain text, without a column {column}; set --format to tsv or jsonl")
            yield from _read_text(name, lines, inputs)
        else:
            yield from _read_table(name, read_lines(name, lines, kind), columns)


def _read_text(name: str, lines: Iterable[str], inputs: int | None) -> Iterator[Row]:
    """One sentence per line, or two separated by a tab, as in the first line. A blank line is an empty row."""
    number = num_blank = 0
    for number, line in enumerate(lines, 1):
        texts = line.rstrip("\r\n").split("\t")
        inputs = inputs or len(texts)
        if not line.strip():
            num_blank += 1
            yield Row(f"{name}:{number}", ("",) * inputs)
            continue
        if len(texts) != inputs or inputs > 2:
            expected = "one or two" if inputs > 2 else inputs
            raise ValueError(f"{name}:{number} must have {expected} texts, separated by a tab, got {len(texts)}")
        record = {f"text {i + 1}": text for i, text in enumerate(texts)}
        row = build_row(f"{name}:{number}", record, list(record), None)
        if row.problem:
            raise ValueError(str(row))
        yield row
    if not number:
        raise ValueError(f"{name} has no rows")
    if num_blank:
        print(
            f"{name}: {num_blank:,} of {number:,} lines are blank, which are predicted as empty text", file=sys.stderr
        )


def _read_table(name: str, records: Iterable[tuple[int, Any]], choose: Callable) -> Iterator[Row]:
    texts: tuple[str, ...] = ()
    label = None
    for number, record in records:
        if not texts and isinstance(record, dict):
            texts, label = choose(name, record)
        row = build_row(f"{name}:{number}", record, texts, label)
        if row.problem:
            raise ValueError(str(row))
        yield row
    if not texts:
        raise ValueError(f"{name} has no rows")
