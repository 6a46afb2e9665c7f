"""Rows of a file or of standard input: a table, see ``data/tables.py``, or text with one row per line.

Columns that are not set are inferred: those of a known task, or ``text``.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..data import tables
from ..data.tables import Record, Row, build_row, check_columns, decode_lines, find_format, read_lines, split_tsv
from ..data.tasks import TASKS

FORMATS = {**tables.FORMATS, ".txt": "text"}
"""Formats by suffix of the file name."""
STDIN = "-"
_COLUMNS = {(tuple(task.tsv.texts), task.tsv.label) for task in TASKS.values() if task.tsv and task.tsv.columns is None}
_KNOWN = sorted({(("text",), "label"), *_COLUMNS}, key=lambda known: (-len(known[0]), known))
"""Sentence columns to look for, pairs before single sentences, each with its label column."""


def read_examples(
    path: str, kind: str | None, texts: Sequence[str], label: str | None, inputs: int | None = None
) -> Iterator[Row]:
    """Read the rows of a file.

    Args:
        path: file, or ``-`` for standard input.
        kind: a value of ``FORMATS``; None to infer it from the file name.
        texts: one or two sentence columns; empty to infer them.
        label: label column; None to infer it, if there is one.
        inputs: sentences per row that the model was trained on, if known.

    Raises:
        ValueError: a column is missing, a row is damaged or empty (with FILE:LINE), or there are no rows.
        OSError: the file cannot be read.
    """
    kind = kind or ("text" if path == STDIN else find_format(path, FORMATS))
    name = "standard input" if path == STDIN else path
    first: dict[str, Any] | None = None
    for number, record in _read_records(path, name, kind):
        location = f"{name}:{number}"
        if isinstance(record, str):
            raise ValueError(f"{location}: {record}")
        if first is None:
            first = record
            columns, label = _choose_columns(name, kind, record, tuple(texts), label, inputs)
            if kind != "text" and not texts:
                labels = f"labels in {label}" if label else "no labels"
                print(f"{name}: text in {' and '.join(columns)}, {labels}", file=sys.stderr)
        elif label is None and (new := [key for _, key in _KNOWN if key in record and key not in first]):
            raise ValueError(f"{location} has a {new[0]}, but the rows above have none; label all rows or none")
        row = build_row(location, record, columns, label)
        if row.problem:
            raise ValueError(str(row))
        yield row
    if first is None:
        raise ValueError(f"{name} has no rows")


def _read_records(path: str, name: str, kind: str) -> Iterator[tuple[int, Record]]:
    if kind == "parquet":
        yield from tables.read_parquet(path)
        return
    with decode_lines(sys.stdin.buffer if path == STDIN else open(path, "rb"), kind) as lines:
        yield from _read_text(lines) if kind == "text" else read_lines(name, lines, kind)


def _read_text(lines: Iterable[str]) -> Iterator[tuple[int, Record]]:
    """One sentence per line, or two separated by a tab, as in the first line."""
    count = None
    for number, texts in split_tsv(lines):
        count = count or len(texts)
        if len(texts) != count or count > 2:
            yield number, f"all lines must have one text, or all two, separated by a tab; this one has {len(texts)}"
        else:
            yield number, {f"text {i + 1}": text for i, text in enumerate(texts)}


def _choose_columns(
    name: str, kind: str, record: dict[str, Any], texts: tuple[str, ...], label: str | None, inputs: int | None
) -> tuple[tuple[str, ...], str | None]:
    """The sentence columns, and the label column or None."""
    if kind == "text":
        if texts or label:
            column = (*texts, label)[0]
            raise ValueError(f"{name} is read as plain text, without a column {column}; set --format to tsv or jsonl")
        if inputs not in (None, len(record)):
            raise ValueError(f"{name} must have {inputs} texts per line, as in training, got {len(record)} texts")
        return tuple(record), None
    usual_label = next((known[1] for known in _KNOWN if known[0] == texts and known[1] in record), "label")
    if not texts:
        matches = [known for known in _KNOWN if set(known[0]) <= set(record) and inputs in (None, len(known[0]))]
        if not matches:
            raise ValueError(f"{name} needs --text-column; choose from {', '.join(record)}")
        longest = dict.fromkeys(known[0] for known in matches if len(known[0]) == len(matches[0][0]))
        if len(longest) > 1:
            choices = " and in ".join(" with ".join(pair) for pair in longest)
            raise ValueError(f"{name} has text in {choices}; choose with --text-column")
        texts, usual_label = next((known for known in matches if known[1] in record), matches[0])
    if len(texts) > 2 or len(set(texts)) < len(texts):
        raise ValueError(f"--text-column must be one column, or two different ones for a pair, got {', '.join(texts)}")
    if inputs not in (None, len(texts)):
        raise ValueError(f"{name} must have {inputs} text columns, as in training, got {' and '.join(texts)}")
    check_columns(name, record, (*texts, label) if label else texts)
    return texts, label or next((column for column in (usual_label, "label") if column in record), None)
