"""Rows of a file or of standard input: a table, see ``data/tables.py``, or text with one row per line."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from ..data import tables
from ..data.columns import Columns, choose_columns
from ..data.tables import Example, build_example, decode_lines, find_format, open_file, open_table, read_label
from .classifier import Classifier
from .encoded_rows import EncodedExample, encode_examples

FORMATS = {**tables.FORMATS, ".txt": "text"}
"""Formats by suffix of the file name."""
STDIN = "-"


def read_file(
    classifier: Classifier,
    path: str,
    format: str | None = None,
    text_column: Sequence[str] = (),
    label_column: str | None = None,
    truncated: bool = True,
) -> tuple[None, Iterator[EncodedExample]]:
    """The number of rows of a file, which is unknown, so None; and the rows, truncated to n or whole.

    The other arguments are those of ``read_examples``.
    """
    if path != STDIN and not Path(path).is_file():
        raise ValueError(f"{path} must be a file, or a folder that `prepare` wrote for a task")
    inputs = classifier.num_inputs or (None if truncated else 1)
    examples = read_examples(path, format, text_column, label_column, inputs, classifier.columns)
    return None, encode_examples(classifier, examples, truncated=truncated)


def read_examples(
    path: str,
    format: str | None = None,
    text_column: Sequence[str] = (),
    label_column: str | None = None,
    inputs: int | None = None,
    trained: Columns | None = None,
) -> Iterator[Example]:
    """Read the rows of a file.

    Args:
        path: file, or ``-`` for standard input.
        format: a value of ``FORMATS``; None to infer it from the file name.
        text_column, label_column, inputs, trained: as for ``choose_columns``.
    """
    kind = format or ("text" if path == STDIN else find_format(path, FORMATS))
    name = "standard input" if path == STDIN else path
    if kind == "text":
        if columns := [*text_column, *filter(None, [label_column])]:
            raise ValueError(f"{name} is plain text, without a column {columns[0]}; set --format to tsv or jsonl")
        with nullcontext(sys.stdin.buffer) if path == STDIN else open_file(path) as file:
            yield from _read_text(name, decode_lines(file, kind), inputs)
        return
    if path == STDIN and kind == "parquet":
        raise ValueError("parquet cannot be read from standard input; pass a file")
    known, read = open_table(name, kind, file=sys.stdin.buffer if path == STDIN else None)
    if not known:
        raise ValueError(f"{name} has no rows")
    texts, label = choose_columns(name, known, tuple(text_column), label_column, inputs, trained)
    for number, record in read([*texts, label] if label else texts):
        is_labeled = label and isinstance(record, dict) and read_label(record, label)
        row = build_example(f"{name}:{number}", record, texts, label if is_labeled else None)
        if row.problem:
            raise ValueError(str(row))
        yield row


def _read_text(name: str, lines: Iterable[str], inputs: int | None) -> Iterator[Example]:
    """One sentence per line, or two separated by a tab, as in the first line. A blank line is an empty row."""
    number = num_blank = 0
    for number, line in enumerate(lines, 1):
        texts = line.rstrip("\r\n").split("\t")
        inputs = inputs or len(texts)
        if not line.strip():
            num_blank += 1
            yield Example(f"{name}:{number}", ("",) * inputs)
            continue
        if len(texts) != inputs or inputs > 2:
            expected = "one or two" if inputs > 2 else inputs
            raise ValueError(f"{name}:{number} must have {expected} texts, separated by a tab, got {len(texts)}")
        record = {f"text {i + 1}": text for i, text in enumerate(texts)}
        row = build_example(f"{name}:{number}", record, list(record), None)
        if row.problem:
            raise ValueError(str(row))
        yield row
    if not number:
        raise ValueError(f"{name} has no rows")
    if num_blank:
        print(
            f"{name}: {num_blank:,} of {number:,} lines are blank, which are predicted as empty text", file=sys.stderr
        )
