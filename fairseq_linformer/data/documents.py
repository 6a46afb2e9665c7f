"""The documents of a chunk, and the paragraphs of a document.

A blank line ends a document of text. A document of rows is one row, or the consecutive rows of a group.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .plan import Chunk
from .row_readers import read_hub_rows, read_parquet_rows
from .sources import Source
from .streams import MAX_BYTES, open_stream, read_line, reject_damaged

MAX_DOCUMENT = 16 << 20
"""Maximum bytes of a JSON line or text document; the longest novels have a third of that."""
LONG_DOCUMENT = f"a document of over {MAX_DOCUMENT >> 20} MiB"
BLANK_LINE_HINT = "documents in text are separated by blank lines"
_LONG_LINE = f"a line of over {MAX_BYTES:,} bytes"
_LINE_ENDS = "\r\x0b\x0c\x85\u2028\u2029"
_CONTROLS = "".join(map(chr, (*range(1, 9), *range(0x0E, 0x20), *range(0x7F, 0x85), *range(0x86, 0xA0)))) + "\ufeff"
_CLEANED = str.maketrans(_LINE_ENDS, "\n" * len(_LINE_ENDS), _CONTROLS)
_UNCLEAN = re.compile(f"[{_LINE_ENDS}{_CONTROLS}]")


class UnfitDocument(ValueError):
    """A document that is skipped.

    Args:
        reason: a short phrase, the same for all documents with this defect.
        position: offset of the defect, in bytes from the beginning of the document.
    """

    def __init__(self, reason: str, position: int = 0):
        super().__init__(reason)
        self.reason, self.position = reason, position


@dataclass
class RawDocument:
    """A document as read, before ``split_paragraphs``.

    Attributes:
        text: bytes or text; None if it was too long to read.
        offset: position in its file in bytes (decompressed), or in its chunk in rows.
        unfit: why it is skipped, if the reader already knows.
    """

    text: bytes | str | None
    offset: int
    unfit: UnfitDocument | None = None


NumberedRow = tuple[dict[str, Any] | None, int, UnfitDocument | None]
"""A row, its offset, and why it is skipped; either the row or the reason is None."""


def read_documents(chunk: Chunk, source: Source) -> Iterator[RawDocument]:
    """The documents of a chunk, in order.

    Raises:
        ValueError: the chunk is damaged, or reading from the hub failed.
        OSError: it cannot be read.
    """
    if chunk.format == "text":
        yield from _read_text_documents(chunk)
    elif chunk.format == "jsonl":
        yield from _join_rows(_read_json_rows(chunk), source)
    else:
        assert chunk.end is not None
        rows: Iterator[dict[str, Any] | None]
        if chunk.format == "hub":
            rows = read_hub_rows(source, chunk.start, chunk.end)
        else:
            rows = read_parquet_rows(chunk.file, chunk.start, chunk.end, source.columns)
        numbered = ((row, i, UnfitDocument("not UTF-8") if row is None else None) for i, row in enumerate(rows))
        yield from _join_rows(numbered, source)


def read_line_documents(chunk: Chunk) -> Iterator[RawDocument]:
    """Each nonblank line of a text chunk as a document of its own, so that an unfit line is skipped alone.

    Raises:
        ValueError, OSError: as ``read_documents``.
    """
    for line, offset, length in _read_lines(chunk, MAX_BYTES):
        if length > MAX_BYTES:
            yield RawDocument(None, offset, UnfitDocument(_LONG_LINE))
        elif line.strip():
            yield RawDocument(line, offset)


def split_paragraphs(raw: RawDocument) -> list[str]:
    """The nonblank lines of a document, cleaned and stripped.

    Carriage return, vertical tab, form feed, NEL (U+0085), U+2028 and U+2029 become line ends. Other control characters
    except the tab, and the byte order mark (U+FEFF), are removed. Text is normalized to NFC.

    Raises:
        UnfitDocument: the document is not valid text.
    """
    if raw.unfit is not None or raw.text is None:
        raise raw.unfit or UnfitDocument(LONG_DOCUMENT)
    text = raw.text
    if isinstance(text, bytes):
        if b"\0" in text:
            raise UnfitDocument("NUL byte", text.index(b"\0"))
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnfitDocument("not UTF-8", error.start) from None
    else:
        if "\0" in text:
            raise UnfitDocument("NUL byte")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:  # a lone surrogate, which JSON allows
            raise UnfitDocument("not UTF-8") from None
    if _UNCLEAN.search(text):
        text = text.translate(_CLEANED)
    return [_normalize(line) for line in map(str.strip, text.split("\n")) if line]


def _normalize(line: str) -> str:
    """The line in NFC."""
    if len(line) > MAX_BYTES // 4 and len(line.encode("utf-8")) > MAX_BYTES:
        raise UnfitDocument(_LONG_LINE)
    if line.isascii():
        return line
    # Normalization takes quadratic time in the length of a run of combining marks.
    if len(line) > 10_000 and sum(unicodedata.combining(c) > 0 for c in line) > 10_000:
        raise UnfitDocument("a paragraph with more than 10,000 combining marks")
    return unicodedata.normalize("NFC", line)


def _read_lines(chunk: Chunk, limit: int) -> Iterator[tuple[bytes, int, int]]:
    """(line, offset, length); lines of over ``limit`` bytes are truncated."""
    with open_stream(chunk.file) as stream, reject_damaged(chunk.file):
        if chunk.start:
            stream.seek(chunk.start)
        offset = chunk.start
        while chunk.end is None or offset < chunk.end:
            line, length = read_line(stream, limit)
            if not line:
                return
            yield line, offset, length
            offset += length


def _read_text_documents(chunk: Chunk) -> Iterator[RawDocument]:
    lines: list[bytes] = []
    start, size, unfit = chunk.start, 0, None
    for line, offset, length in _read_lines(chunk, MAX_BYTES):
        if line.strip() == b"" and length <= MAX_BYTES:
            if lines or unfit:
                yield RawDocument(None if unfit else b"".join(lines), start, unfit)
            lines, size, unfit = [], 0, None
            continue
        if not lines and unfit is None:
            start = offset
        size += length
        if unfit is None and length > MAX_BYTES:
            unfit = UnfitDocument(_LONG_LINE, offset - start)
        elif unfit is None and size > MAX_DOCUMENT:
            unfit = UnfitDocument(LONG_DOCUMENT)
        if unfit is None:
            lines.append(line)
        else:
            lines = []  # frees memory, however long the document is
    if lines or unfit:
        yield RawDocument(None if unfit else b"".join(lines), start, unfit)


def _read_json_rows(chunk: Chunk) -> Iterator[NumberedRow]:
    for line, offset, length in _read_lines(chunk, MAX_DOCUMENT):
        if length > MAX_DOCUMENT:
            yield None, offset, UnfitDocument(LONG_DOCUMENT)
        elif line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "not JSON"
                yield None, offset, UnfitDocument(reason)
                continue
            yield (row, offset, None) if isinstance(row, dict) else (None, offset, UnfitDocument("not a JSON object"))


def _join_rows(rows: Iterator[NumberedRow], source: Source) -> Iterator[RawDocument]:
    """Each row is a document, or each group of consecutive rows."""
    texts: list[str] = []
    start, last_key, size = 0, None, 0

    def document() -> RawDocument:
        too_long = UnfitDocument(LONG_DOCUMENT) if size > MAX_DOCUMENT else None
        return RawDocument(None if too_long else "\n".join(texts), start, too_long)

    for row, offset, unfit in rows:
        if row is not None and not isinstance(row.get(source.column), str):
            unfit = UnfitDocument(f"no text in {source.column}")
        elif row is not None and source.group is not None and source.group not in row:
            unfit = UnfitDocument(f"no {source.group}")
        if row is None or unfit:
            yield RawDocument(None, offset, unfit)
            continue
        text, title = row[source.column], row.get(source.title or "")
        if source.title is not None and isinstance(title, str) and title:
            text = f"{title}\n{text}"
        key = row.get(source.group or "")
        if texts and (len(texts) >= source.rows if source.group is None else key != last_key):
            yield document()
            texts, size = [], 0
        if not texts:
            start = offset
        size += len(text.encode("utf-8", "surrogatepass"))
        texts.append(text if size <= MAX_DOCUMENT else "")
        last_key = key
    if texts:
        yield document()
