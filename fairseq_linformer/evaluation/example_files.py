"""Examples from a file or standard input: TSV, JSON lines, or one row per line.

TSV has a header and no quoting, as in GLUE. Columns that are not set are inferred: those of a known task, or ``text``.
"""

import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..data.streams import MAX_BYTES, count_lines, read_numbered_lines
from ..data.task_rows import LINE_BREAKS
from ..data.tasks import TASKS

FORMATS = {".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl", ".txt": "text"}
"""Formats by suffix of the file name."""
STDIN = "-"
_COLUMNS = {(tuple(task.tsv.texts), task.tsv.label) for task in TASKS.values() if task.tsv and task.tsv.header}
_KNOWN = sorted({(("text",), "label"), *_COLUMNS}, key=lambda known: (-len(known[0]), known))
"""Sentence columns to look for, pairs before single sentences, each with its label column."""


@dataclass(frozen=True)
class Example:
    """One or two sentences, and their label.

    Attributes:
        location: FILE:LINE.
        texts: one or two sentences, stripped and without line breaks, as in ``prepare``.
        label: as in the file; None for an unlabeled row.
    """

    location: str
    texts: tuple[str, ...]
    label: str | None = None


NumberedLine = tuple[str, str]
NumberedRow = tuple[str, dict[str, Any]]
"""A line or row with its location, FILE:LINE."""


def read_examples(
    path: str, kind: str | None, texts: Sequence[str], label: str | None, inputs: int | None = None
) -> Iterator[Example]:
    """Read the examples of a file.

    Args:
        path: file, or ``-`` for standard input.
        kind: ``tsv``, ``jsonl`` or ``text``; None to infer it from the file name.
        texts: one or two sentence columns; empty to infer them.
        label: label column; None to infer it, if there is one.
        inputs: sentences per row that the model was trained on, if known.

    Raises:
        ValueError: a column is missing, a row is damaged or empty (with FILE:LINE), or there are no rows.
        OSError: the file cannot be read.
    """
    kind = kind or _infer_kind(path)
    name = "standard input" if path == STDIN else path
    with nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb") as file:
        rows = {"tsv": _tsv, "jsonl": _jsonl, "text": _text}[kind](name, _lines(name, file))
        columns: tuple[tuple[str, ...], str | None] | None = None
        for location, row in rows:
            if columns is None:
                first, columns = row, _columns(name, kind, list(row), tuple(texts), label, inputs)
                if kind != "text" and not texts:
                    labels = f"labels in {columns[1]}" if columns[1] else "no labels"
                    print(f"{name}: text in {' and '.join(columns[0])}, {labels}", file=sys.stderr)
            elif columns[1] is None and (new := [key for _, key in _KNOWN if key in row and key not in first]):
                raise ValueError(f"{location} has a {new[0]}, but the rows above have none; label all rows or none")
            yield _example(location, row, *columns)
    if columns is None:
        raise ValueError(f"{name} has no rows")


def count_examples(path: str, kind: str | None) -> int | None:
    """The number of rows of a file, for progress; None for standard input."""
    if path == STDIN:
        return None
    with open(path, "rb") as file:
        return max(0, count_lines(file) - ((kind or _infer_kind(path)) == "tsv"))


def _infer_kind(path: str) -> str:
    if path == STDIN:
        return "text"
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"{path} must end in one of {', '.join(FORMATS)}; set --format for other names")
    return FORMATS[suffix]


def _columns(
    name: str, kind: str, columns: list[str], texts: tuple[str, ...], label: str | None, inputs: int | None
) -> tuple[tuple[str, ...], str | None]:
    """The sentence columns, and the label column or None."""
    if kind == "text":
        if texts or label:
            column = (*texts, label)[0]
            raise ValueError(f"{name} is read as plain text, without a column {column}; set --format to tsv or jsonl")
        if inputs not in (None, len(columns)):
            raise ValueError(f"{name} must have {inputs} texts per line, as in training, got {len(columns)} texts")
        return tuple(columns), None
    usual_label = next((known[1] for known in _KNOWN if known[0] == texts and known[1] in columns), "label")
    if not texts:
        matches = [known for known in _KNOWN if set(known[0]) <= set(columns) and inputs in (None, len(known[0]))]
        if not matches:
            raise ValueError(f"{name} needs --text-column; choose from {', '.join(columns)}")
        longest = dict.fromkeys(known[0] for known in matches if len(known[0]) == len(matches[0][0]))
        if len(longest) > 1:
            choices = " and in ".join(" with ".join(pair) for pair in longest)
            raise ValueError(f"{name} has text in {choices}; choose with --text-column")
        texts, usual_label = next((known for known in matches if known[1] in columns), matches[0])
    if len(texts) > 2 or len(set(texts)) < len(texts):
        raise ValueError(f"--text-column must be one column, or two different ones for a pair, got {', '.join(texts)}")
    if inputs not in (None, len(texts)):
        raise ValueError(f"{name} must have {inputs} text columns, as in training, got {' and '.join(texts)}")
    for column in (*texts, *([label] if label else [])):
        if column not in columns:
            raise ValueError(f"{name} has no column {column}; choose from {', '.join(columns)}")
    return texts, label or next((column for column in (usual_label, "label") if column in columns), None)


def _example(location: str, row: dict[str, Any], texts: tuple[str, ...], label: str | None) -> Example:
    values = []
    for column in texts:
        if not isinstance(row.get(column), str):
            raise ValueError(f"{location} has no text in {column}")
        values.append(LINE_BREAKS.sub(" ", row[column]).strip())
        if not values[-1]:
            raise ValueError(f"{location} has no text in {column}; every row must have text")
        if any(0xD800 <= ord(character) < 0xE000 for character in values[-1]):
            raise ValueError(f"{location} has an unpaired surrogate in {column}, which is not valid text")
    if label is None:
        return Example(location, tuple(values))
    if row.get(label) is None:
        raise ValueError(f"{location} has no {label}")
    return Example(location, tuple(values), str(row[label]).strip())


def _lines(name: str, file: BinaryIO) -> Iterator[NumberedLine]:
    number = 0
    for number, line in read_numbered_lines(file if hasattr(file, "peek") else io.BufferedReader(file)):  # type: ignore[type-var]
        location = f"{name}:{number}"
        if line is None:
            raise ValueError(f"{location} must be at most {MAX_BYTES:,} bytes long")
        try:
            yield location, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{location} is not UTF-8: byte {error.start + 1} is {line[error.start]:#x}") from None
    if not number:
        raise ValueError(f"{name} is empty")


def _tsv(name: str, lines: Iterator[NumberedLine]) -> Iterator[NumberedRow]:
    header = next(lines)[1].split("\t")
    if len(set(header)) < len(header):
        raise ValueError(f"{name} has a duplicate column in its header: {', '.join(header)}")
    for location, line in lines:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise ValueError(f"{location} must have {len(header)} columns, like the header, got {len(fields)}")
        yield location, dict(zip(header, fields))


def _jsonl(name: str, lines: Iterator[NumberedLine]) -> Iterator[NumberedRow]:
    for location, line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise ValueError(f"{location} must be a JSON object")
        yield location, row


def _text(name: str, lines: Iterator[NumberedLine]) -> Iterator[NumberedRow]:
    """One sentence per line, or two separated by a tab."""
    count = None
    for location, line in lines:
        texts = line.split("\t")
        if count not in (None, len(texts)) or len(texts) > 2:
            raise ValueError(
                f"all lines must have one text, or all two, separated by a tab; {location} has {len(texts)}"
            )
        count = len(texts)
        yield location, {f"text {i + 1}": text for i, text in enumerate(texts)}
