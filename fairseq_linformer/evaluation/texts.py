"""Texts to judge, from a file or from standard input: TSV, JSON lines, or a text a line.

TSV has a header, and no quotes, as GLUE has it. Columns that are not named are found: those of a known task, or ``text``.
"""

import io
import json
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Sequence, Tuple

from ..corpus.streams import MAX_BYTES, read_line
from ..task_data.rows import LINE_BREAKS
from ..task_data.table import TASKS

FORMATS = {".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl", ".txt": "text"}
"""By how a file ends."""
STDIN = "-"
# Columns of texts that are looked for, a pair before one text; each with what may hold the label.
_KNOWN = sorted({(("text",), "label"), *((tuple(task.tsv.texts), task.tsv.label) for task in TASKS.values() if task.tsv and task.tsv.header)},
                key=lambda known: (-len(known[0]), known))  # fmt: skip


@dataclass(frozen=True)
class Example:
    """
    Attributes:
        place: FILE:LINE.
        texts: one or two, without line breaks and stripped, as ``prepare`` has them.
        label: what the file has for it; None if it has none.
    """

    place: str
    texts: Tuple[str, ...]
    label: Optional[str] = None


def read_examples(path: str, kind: Optional[str], texts: Sequence[str], label: Optional[str], inputs: Optional[int] = None) -> Iterator[Example]:
    """The rows of a file.

    Args:
        path: of the file; ``-`` for standard input.
        kind: ``tsv``, ``jsonl`` or ``text``; None for what the file's name says.
        texts: columns of the texts, one or two; none for those that are found.
        label: column of the labels; None for the one that is found, if there is one.
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
                    print(f"{name}: texts in {' and '.join(columns[0])}, {f'labels in {columns[1]}' if columns[1] else 'no labels'}", file=sys.stderr)
            elif columns[1] is None and (brought := [known for _, known in _KNOWN if known in row and known not in first]):
                raise ValueError(f"{place} has a {brought[0]}, and the rows before it have none; all or none is wanted")
            yield _example(place, row, *columns)
    if columns is None:
        raise ValueError(f"{name} has no rows")


def _kind_of(path: str) -> str:
    if path == STDIN:
        return "text"
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"{path} ends in {suffix or 'nothing'}; {', '.join(FORMATS)} are known, else --format says what it is")
    return FORMATS[suffix]


def _columns(name: str, kind: str, there: List[str], texts: Tuple[str, ...], label: Optional[str], inputs: Optional[int]):
    if kind == "text":
        if texts or label:
            raise ValueError(f"{name} is text, a row a line, and has no column {(*texts, label)[0]}; --format tsv or jsonl has columns")
        if inputs not in (None, len(there)):
            raise ValueError(f"{name} has {len(there)} texts a line; the model was trained on {inputs}")
        return tuple(there), None
    found_label = next((known for columns, known in _KNOWN if columns == texts and known in there), "label")
    if not texts:
        fitting = [known for known in _KNOWN if set(known[0]) <= set(there) and inputs in (None, len(known[0]))]
        if not fitting:
            raise ValueError(f"{name} has the columns {', '.join(there)}; none is known to hold the text, --text COLUMN says which")
        of_most = dict.fromkeys(known[0] for known in fitting if len(known[0]) == len(fitting[0][0]))
        if len(of_most) > 1:
            raise ValueError(f"{name} has texts in {' and in '.join(' with '.join(columns) for columns in of_most)}; --text COLUMN says which are wanted")
        texts, found_label = next((known for known in fitting if known[1] in there), fitting[0])
    if len(texts) > 2 or len(set(texts)) < len(texts):
        raise ValueError(f"--text names {', '.join(texts)}; one column is wanted, or two of a pair")
    if inputs not in (None, len(texts)):
        raise ValueError(f"{name} has {len(texts)} {'texts' if len(texts) > 1 else 'text'} a row, {', '.join(texts)}; the model was trained on {inputs}")
    for column in (*texts, *([label] if label else [])):
        if column not in there:
            raise ValueError(f"{name} has no column {column}; it has {', '.join(there)}")
    return texts, label or next((column for column in (found_label, "label") if column in there), None)


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
    if label not in row or row[label] is None:
        raise ValueError(f"{place} has no {label}")
    return Example(place, tuple(values), str(row[label]).strip())


def _lines(name: str, file: BinaryIO) -> Iterator[Tuple[str, str]]:
    """Each line with its place, without its end."""
    file = file if hasattr(file, "peek") else io.BufferedReader(file)
    number = 0
    while (found := read_line(file, MAX_BYTES + 2))[1]:
        number += 1
        place, line = f"{name}:{number}", found[0].removesuffix(b"\n").removesuffix(b"\r")
        if len(line) > MAX_BYTES:
            raise ValueError(f"{place} is longer than {MAX_BYTES:,} bytes")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            yield place, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{place} is not UTF-8: byte {error.start + 1} is {line[error.start]:#x}") from None
    if not number:
        raise ValueError(f"{name} is empty")


def _tsv(name: str, lines) -> Iterator[Tuple[str, Dict[str, Any]]]:
    header = next(lines)[1].split("\t")
    if len(set(header)) < len(header):
        raise ValueError(f"{name} has a header with the same column twice: {', '.join(header)}")
    for place, line in lines:
        fields = line.split("\t")
        if len(fields) != len(header):
            raise ValueError(f"{place} has {len(fields)} columns where the header has {len(header)}")
        yield place, dict(zip(header, fields))


def _jsonl(name: str, lines) -> Iterator[Tuple[str, Dict[str, Any]]]:
    for place, line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise ValueError(f"{place} is no JSON object; one a line is wanted")
        yield place, row


def _plain(name: str, lines) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """A text a line; a tab stands between two texts."""
    count = None
    for place, line in lines:
        texts = line.split("\t")
        if count not in (None, len(texts)) or len(texts) > 2:
            raise ValueError(f"{place} has {len(texts)} texts with tabs between; one or two are wanted, in each line the same")
        count = len(texts)
        yield place, {f"text {i + 1}": text for i, text in enumerate(texts)}
