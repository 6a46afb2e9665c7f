"""Rows of a file or of standard input: a table, see ``data/tables.py``, or text with one row per line.

Columns that are not set are inferred: those of a known task, or ``text``.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..data import tables
from ..data.tables import Row, build_row, check_columns, decode_lines, find_format, read_lines
from ..data.tasks import TASKS

FORMATS = {**tables.FORMATS, ".txt": "text"}
"""Formats by suffix of the file name."""
STDIN = "-"
_COLUMNS = {(tuple(task.tsv.texts), task.tsv.label) for task in TASKS.values() if task.tsv and task.tsv.columns is None}
_KNOWN = sorted({(("text",), "label"), *_COLUMNS}, key=lambda known: (-len(known[0]), known))
"""Sentence columns to look for, pairs before single sentences, each with its label column."""


def read_examples(
    path: str, kind: str | None, texts: Sequence[str] = (), label: str | None = None, inputs: int | None = None
) -> Iterator[Row]:
    """Read the rows of a file.

    Args:
        path: file, or ``-`` for standard input.
        kind: a value of ``FORMATS``; None to infer it from the file name.
        texts: one or two sentence columns; empty to infer them.
        label: label column; None to infer it, if there is one.
        inputs: sentences per row that the model was trained on, if known.
    """
    kind = kind or ("text" if path == STDIN else find_format(path, FORMATS))
    name = "standard input" if path == STDIN else path
    if kind == "parquet":
        yield from _read_table(name, tables.read_parquet(path), texts, label, inputs)
        return
    with decode_lines(sys.stdin.buffer if path == STDIN else open(path, "rb"), kind) as lines:
        if kind == "text":
            if texts or label:
                column = (*texts, label)[0]
                raise ValueError(f"{name} is plain text, without a column {column}; set --format to tsv or jsonl")
            yield from _read_text(name, lines, inputs)
        else:
            yield from _read_table(name, read_lines(name, lines, kind), texts, label, inputs)


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


def _read_table(
    name: str, records: Iterable[tuple[int, Any]], texts: Sequence[str], label: str | None, inputs: int | None
) -> Iterator[Row]:
    columns: tuple[str, ...] = ()
    for number, record in records:
        if not columns and isinstance(record, dict):
            columns, label = _choose_columns(name, record, tuple(texts), label, inputs)
            labels = f"labels in {label}" if label else "no labels"
            print(f"{name}: text in {' and '.join(columns)}, {labels}", file=sys.stderr)
        row = build_row(f"{name}:{number}", record, columns, label)
        if row.problem:
            raise ValueError(str(row))
        yield row
    if not columns:
        raise ValueError(f"{name} has no rows")


def _choose_columns(
    name: str, record: dict[str, Any], texts: tuple[str, ...], label: str | None, inputs: int | None
) -> tuple[tuple[str, ...], str | None]:
    """The sentence columns, and the label column or None."""
    if not texts:
        matches = [known for known, _ in _KNOWN if {*known} <= {*record} and inputs in (None, len(known))]
        longest = list(dict.fromkeys(known for known in matches if len(known) == len(matches[0])))
        if not longest:
            raise ValueError(f"{name} needs --text-column; choose from {', '.join(record)}")
        if len(longest) > 1:
            choices = " and in ".join(" with ".join(pair) for pair in longest)
            raise ValueError(f"{name} has text in {choices}; choose with --text-column")
        texts = longest[0]
    if len(texts) not in ((1, 2) if inputs is None else (inputs,)) or len(set(texts)) < len(texts):
        raise ValueError(f"--text-column must be {inputs or 'one or two'} different columns, got {', '.join(texts)}")
    usual = [known_label for known, known_label in _KNOWN if known == texts]
    label = label or next((column for column in (*usual, "label") if column in record), None)
    check_columns(name, record, (*texts, label) if label else texts)
    return texts, label
