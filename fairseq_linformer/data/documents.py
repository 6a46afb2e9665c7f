"""The documents of a source, and the paragraphs of a document.

A blank line ends a document of text. A document of rows is one row, or the consecutive rows of a group.
"""

import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

from ..errors import first_line, root_cause
from ..files import fingerprint
from .manifest import library_versions
from .sources import Source
from .tables import BATCH_ROWS, check_columns, decode_lines, is_unicode, open_file, open_table

BATCH_DOCUMENTS = 128
"""Documents that are in memory at a time: few, because they can be whole books."""
MAX_LINES = 1_000_000
"""Of a document, which is tokenized as a whole."""
_BLANKS = " \t\n\r\x0b\f"
_LINE_ENDS = "\r\x0b\x0c\x85\u2028\u2029"
_CONTROLS = "".join(map(chr, (*range(9), *range(0x0E, 0x20), *range(0x7F, 0x85), *range(0x86, 0xA0)))) + "\ufeff"
_CLEANED = str.maketrans(_LINE_ENDS, "\n" * len(_LINE_ENDS), _CONTROLS)
_UNCLEAN = re.compile(f"[{_LINE_ENDS}{_CONTROLS}]")


def import_datasets():
    """The ``datasets`` library without warnings, and with progress bars on terminals only; errors are still raised."""
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    return datasets


def load_documents(source: Source):
    """The documents of a located source as a memory-mapped ``Dataset`` with the column ``text``.

    The cache of ``datasets`` keeps it as long as the files have the same size and date.
    """
    datasets = import_datasets()
    stats = [(os.path.abspath(file), os.stat(file)) for file in source.files]
    files = [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]
    key = [library_versions(), asdict(replace(source, license="")), files]
    try:
        return datasets.Dataset.from_generator(
            _generate_rows,
            features=datasets.Features({"text": datasets.Value("large_string")}),
            gen_kwargs={"source": source},
            writer_batch_size=BATCH_DOCUMENTS,
            fingerprint=fingerprint(key),
        )
    except datasets.exceptions.DatasetGenerationError as error:
        raise root_cause(error) from None


def _generate_rows(source: Source) -> Iterator[dict[str, str]]:
    is_empty = True
    for text in read_documents(source):
        if text.count("\n") > MAX_LINES:
            long = f"source {source.location} has a document of more than {MAX_LINES:,} lines"
            raise ValueError(f"{long}; blank lines separate the documents of a text file")
        yield {"text": text}
        is_empty = False
    if is_empty:
        raise ValueError(f"source {source.location} has no documents")


def read_documents(source: Source, streaming: bool = False) -> Iterator[str]:
    """The documents of a located source, in order.

    Args:
        streaming: read from the hub while iterating, instead of downloading everything first.
    """
    if source.hub is not None:
        yield from _join_rows(source.location, _read_hub(source, streaming), source)
        return
    for file in source.files:
        kind = source.format_of(file)
        if kind == "text":
            yield from _read_text(file)
        else:
            yield from _join_rows(file, _read_rows(file, kind, source.columns), source)


def split_paragraphs(text: str) -> list[str]:
    """The nonblank lines of a document, cleaned and stripped.

    Carriage return, vertical tab, form feed, NEL (U+0085), U+2028 and U+2029 become line ends. Other control characters
    except the tab, and the byte order mark (U+FEFF), are removed. Text is normalized to NFC.
    """
    if _UNCLEAN.search(text):
        text = text.translate(_CLEANED)
    return [unicodedata.normalize("NFC", line) for line in map(str.strip, text.split("\n")) if line]


def _read_text(file: str) -> Iterator[str]:
    lines: list[str] = []
    with open_file(file) as stream:
        for number, line in enumerate(chain(decode_lines(stream, "text"), [""]), 1):
            if not is_unicode(line):
                raise ValueError(f"{file}:{number}: not UTF-8")
            if line.strip(_BLANKS):
                lines.append(line)
            elif lines:
                yield "".join(lines)
                lines.clear()


def _read_rows(file: str, kind: str | None, columns: list[str]) -> Iterator[dict[str, Any]]:
    known, read = open_table(file, kind)
    if kind == "parquet":
        check_columns(file, known, columns)
    for number, row in read(columns):
        if isinstance(row, str):
            raise ValueError(f"{file}:{number}: {row}")
        yield row


def _read_hub(source: Source, streaming: bool) -> Iterator[dict[str, Any]]:
    options = {"split": source.split, "revision": source.revision, "streaming": streaming}
    try:
        dataset = import_datasets().load_dataset(source.hub, source.config, **options)
        names = dataset.column_names or dataset._resolve_features().column_names
    except Exception as error:  # network, name and configuration errors have no common type
        cause = root_cause(error)
        reason = f"{type(cause).__name__}: {first_line(cause)}"
        raise ValueError(f"cannot load hub dataset {source.hub}: {reason}") from None
    check_columns(f"hub dataset {source.hub}", names, source.columns)
    for batch in dataset.select_columns(source.columns).with_format("arrow").iter(BATCH_ROWS):
        yield from batch.to_pylist()


def _join_rows(name: str, rows: Iterable[dict[str, Any]], source: Source) -> Iterator[str]:
    """Each row is a document, or each group of consecutive rows. A null text is an empty one."""
    texts: list[str] = []
    last_key = None
    for number, row in enumerate(rows):
        check_columns(f"{name}, row {number + 1:,}", row, source.columns)
        text = "" if row[source.column] is None else row[source.column]
        title = row[source.title] if source.title is not None else None
        for column, value in ((source.column, text), (source.title, str(title))):
            if not isinstance(value, str) or not is_unicode(value):
                raise ValueError(f"{name}, row {number + 1:,} must have text in {column}, got {str(value)[:40]!r}")
        if title:
            text = f"{title}\n{text}"
        key = number // source.rows if source.group is None else row[source.group]
        if texts and key != last_key:
            yield "\n".join(texts)
            texts = []
        texts.append(text)
        last_key = key
    if texts:
        yield "\n".join(texts)
