"""Texts to evaluate on, from a file or from standard input: TSV, JSON lines, or one text per line.

TSV has a header, and no quotes, as GLUE has it. Unnamed columns are found: those of a known task, or ``text``.
"""

import io
import json
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Sequence, Tuple

from ..corpus.streams import MAX_BYTES, numbered_lines
from ..task_data.rows import LINE_BREAKS
from ..task_data.table import TASKS

FORMATS = {".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl", ".txt": "text"}
"""By the ending of a file name."""
STDIN = "-"
_COLUMNS = {(tuple(task.tsv.texts), task.tsv.label) for task in TASKS.values() if task.tsv and task.tsv.header}
_KNOWN = sorted({(("text",), "label"), *_COLUMNS}, key=lambda known: (-len(known[0]), known))
"""Columns of texts that are looked for, a pair before one text; each with the column that may hold the label."""


@dataclass(frozen=True)
class Example:
    """
    Attributes:
        place: FILE:LINE.
        texts: one or two, without line breaks and stripped, as ``prepare`` has them.
        label: as the file has it; None if it has none.
    """

    place: str
    texts: Tuple[str, ...]
    label: Optional[str] = None


NumberedLine = Tuple[str, str]
NumberedRow = Tuple[str, Dict[str, Any]]
"""A line or a row with its place, FILE:LINE."""


def read_examples(
    path: str, kind: Optional[str], texts: Sequence[str], label: Optional[str], inputs: Optional[int] = None
) -> Iterator[Example]:
    """The rows of a file.

    Args:
        path: of the file; ``-`` for standard input.
        kind: ``tsv``, ``jsonl`` or ``text``; None to choose by the name of the file.
        texts: columns of the texts, one or two; none to find them.
        label: column of the labels; None to find it, if there is one.
        inputs: how many texts the model was trained on, where that is known.

    Raises:
        ValueError: a column is missing, a row is damaged or empty, there are no rows; with FILE:LINE.
        OSError: it cannot be read.
    """
    kind = kind or _kind_of(path)
    name = "standard input" if path == STDIN else path
    with nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb") as file:
        rows = {"tsv": _tsv, "jsonl": _jsonl, "text": _plain}[kind](name, _lines(name, file))
        columns: Optional[Tuple[Tuple[str, ...], Optional[str]]] = None
        for place, row in rows:
            if columns is None:
                first, columns = row, _columns(name, kind, list(row), tuple(texts), label, inputs)
                if kind != "text" and not texts:
                    labels = f"labels in {columns[1]}" if columns[1] else "no labels"
                    print(f"{name}: texts in {' and '.join(columns[0])}, {labels}", file=sys.stderr)
            elif columns[1] is None:
                if new := [column for _, column in _KNOWN if column in row and column not in first]:
                    raise ValueError(f"{place} has a {new[0]}, and the rows before it have none; all or none must")
            yield _example(place, row, *columns)
    if columns is None:
        raise ValueError(f"{name} has no rows")


def _kind_of(path: str) -> str:
    if path == STDIN:
        return "text"
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"{path} ends in {suffix or 'nothing'}, not in {', '.join(FORMATS)}; give --format")
    return FORMATS[suffix]


def _columns(
    name: str, kind: str, found: List[str], texts: Tuple[str, ...], label: Optional[str], inputs: Optional[int]
) -> Tuple[Tuple[str, ...], Optional[str]]:
    """The columns of the texts, and that of the label or None."""
    if kind == "text":
        if texts or label:
            column = (*texts, label)[0]
            raise ValueError(f"{name} is text and has no column {column}; --format tsv or jsonl has columns")
        if inputs not in (None, len(found)):
            raise ValueError(f"{name} has {len(found)} texts per line; the model was trained on {inputs}")
        return tuple(found), None
    usual_label = next((known for columns, known in _KNOWN if columns == texts and known in found), "label")
    if not texts:
        fitting = [known for known in _KNOWN if set(known[0]) <= set(found) and inputs in (None, len(known[0]))]
        if not fitting:
            columns = ", ".join(found)
            raise ValueError(f"{name} has the columns {columns}; none is known to hold text, --text COLUMN names it")
        longest = dict.fromkeys(known[0] for known in fitting if len(known[0]) == len(fitting[0][0]))
        if len(longest) > 1:
            choices = " and in ".join(" with ".join(columns) for columns in longest)
            raise ValueError(f"{name} has texts in {choices}; --text COLUMN names those to use")
        texts, usual_label = next((known for known in fitting if known[1] in found), fitting[0])
    if len(texts) > 2 or len(set(texts)) < len(texts):
        raise ValueError(f"--text names {', '.join(texts)}; it must be one column, or two different ones for a pair")
    if inputs not in (None, len(texts)):
        raise ValueError(f"{name} has texts in {' and '.join(texts)}; the model was trained on {inputs} per row")
    for column in (*texts, *([label] if label else [])):
        if column not in found:
            raise ValueError(f"{name} has no column {column}; it has {', '.join(found)}")
    return texts, label or next((column for column in (usual_label, "label") if column in found), None)


def _example(place: str, row: Dict[str, Any], texts: Tuple[str, ...], label: Optional[str]) -> Example:
    values = []
    for column in texts:
        if not isinstance(row.get(column), str):
            raise ValueError(f"{place} has no text in {column}")
        values.append(LINE_BREAKS.sub(" ", row[column]).strip())
        if not values[-1]:
            raise ValueError(f"{place} has an empty {column}; each row needs its text")
        if any(0xD800 <= ord(character) < 0xE000 for character in values[-1]):
            raise ValueError(f"{place} has half a surrogate pair in {column}; it is no text")
    if label is None:
        return Example(place, tuple(values))
    if row.get(label) is None:
        raise ValueError(f"{place} has no {label}")
    return Example(place, tuple(values), str(row[label]).strip())


def _lines(name: str, file: BinaryIO) -> Iterator[NumberedLine]:
    number = 0
    for number, line in numbered_lines(file if hasattr(file, "peek") else io.BufferedReader(file)):
        place = f"{name}:{number}"
        if line is None:
            raise ValueError(f"{place} is longer than {MAX_BYTES:,} bytes")
        try:
            yield place, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{place} is not UTF-8: byte {error.start + 1} is {line[error.start]:#x}") from None
    if not number:
        raise ValueError(f"{name} is empty")


def _tsv(name: str, lines: Iterator[NumberedLine]) -> Iterator[NumberedRow]:
    header = next(lines)[1].split("\t")
    if len(set(header)) < len(header):
        raise ValueError(f"{name} has a header with the same column twice: {', '.join(header)}")
    for place, line in lines:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise ValueError(f"{place} has {len(fields)} columns where the header has {len(header)}")
        yield place, dict(zip(header, fields))


def _jsonl(name: str, lines: Iterator[NumberedLine]) -> Iterator[NumberedRow]:
    for place, line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise ValueError(f"{place} is no JSON object; each line must be one")
        yield place, row


def _plain(name: str, lines: Iterator[NumberedLine]) -> Iterator[NumberedRow]:
    """One text per line; a tab separates two texts."""
    count = None
    for place, line in lines:
        texts = line.split("\t")
        if count not in (None, len(texts)) or len(texts) > 2:
            raise ValueError(f"{place} has {len(texts)} texts with tabs between; each line must have one, or each two")
        count = len(texts)
        yield place, {f"text {i + 1}": text for i, text in enumerate(texts)}
