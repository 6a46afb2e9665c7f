"""The documents of a chunk, and the lines of a document.

In text a blank line ends a document; of rows each is one, or those that belong together are. A document is bytes or
text until ``lines_of`` has split it into lines.
"""

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from .plan import Chunk
from .rows import hub_rows, parquet_rows
from .sources import Source
from .streams import MAX_BYTES, damage_refused, open_stream, read_line

MAX_DOCUMENT = 16 << 20
"""Bytes, of a line of JSON or of the text. The longest novels have a third of it."""
LONG_DOCUMENT = f"a document of over {MAX_DOCUMENT >> 20} MiB"
ENDS_OF_DOCUMENTS = "in text a blank line ends a document"
_LONG_LINE = f"a line of over {MAX_BYTES:,} bytes"
_LINE_ENDS = "\r\x0b\x0c\x85\u2028\u2029"
_CONTROLS = (
    "".join(map(chr, (*range(1, 9), *range(0x0E, 0x20), *range(0x7F, 0x85), *range(0x86, 0xA0)))) + "\ufeff"
)
_CLEANED = str.maketrans(_LINE_ENDS, "\n" * len(_LINE_ENDS), _CONTROLS)
_UNCLEAN = re.compile(f"[{_LINE_ENDS}{_CONTROLS}]")


class Unfit(ValueError):
    """Why a document is skipped, in a few words that are the same for all such documents.

    Args:
        position: of the fault, in bytes from the beginning of the document.
    """

    def __init__(self, reason: str, position: int = 0):
        super().__init__(reason)
        self.reason, self.position = reason, position


@dataclass
class Raw:
    """A document as it was read.

    Attributes:
        text: bytes or text; None if it was too long to be read, and ``unfit`` says so.
        place: bytes before it in its file (decompressed), or rows before it in its chunk.
        unfit: what was already wrong.
    """

    text: Union[bytes, str, None]
    place: int
    unfit: Optional[Unfit] = None


NumberedRow = Tuple[Optional[Dict[str, Any]], int, Optional[Unfit]]
"""A row, its place, and why it cannot be used; one of the first and the last is None."""


def documents(chunk: Chunk, source: Source) -> Iterator[Raw]:
    """The documents of a chunk, in order.

    Raises:
        ValueError: it is damaged or stops.
        OSError: it cannot be read.
    """
    if chunk.format == "text":
        yield from _text_documents(chunk)
    elif chunk.format == "jsonl":
        yield from _joined(_json_rows(chunk), source)
    else:
        if chunk.format == "hub":
            rows = hub_rows(source, chunk.start, chunk.end)
        else:
            rows = parquet_rows(chunk.file, chunk.start, chunk.end, source.columns)
        numbered = ((row, place, Unfit("not UTF-8") if row is None else None) for place, row in enumerate(rows))
        yield from _joined(numbered, source)


def lines_as_documents(chunk: Chunk) -> Iterator[Raw]:
    """Each nonblank line of a chunk of text, for texts of one line each: an unfit one takes no other with it.

    Raises:
        ValueError, OSError: as ``documents``.
    """
    for line, place, length in _lines(chunk, MAX_BYTES):
        if length > MAX_BYTES:
            yield Raw(None, place, Unfit(_LONG_LINE))
        elif line.strip():
            yield Raw(line, place)


def lines_of(raw: Raw) -> List[str]:
    """The paragraphs of a document, stripped, without blank ones.

    Whatever some system takes for a line end becomes one: carriage return, vertical tab, form feed, NEL (U+0085),
    U+2028 and U+2029. Control characters except the tab are removed, and so is U+FEFF, the byte order mark. The rest
    is normalised to NFC.

    Raises:
        Unfit: it is not text.
    """
    if raw.unfit is not None:
        raise raw.unfit
    text = raw.text
    if isinstance(text, bytes):
        if b"\0" in text:
            raise Unfit("NUL byte", text.index(b"\0"))
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Unfit("not UTF-8", error.start) from None
    else:
        if "\0" in text:
            raise Unfit("NUL byte")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:  # half a character, as JSON can have it
            raise Unfit("not UTF-8") from None
    if _UNCLEAN.search(text):
        text = text.translate(_CLEANED)
    return [_composed(line) for line in map(str.strip, text.split("\n")) if line]


def _composed(line: str) -> str:
    """In NFC."""
    if len(line) > MAX_BYTES // 4 and len(line.encode("utf-8")) > MAX_BYTES:
        raise Unfit(_LONG_LINE)
    if line.isascii():
        return line
    # Its time is quadratic in the length of a run of marks.
    if len(line) > 10_000 and sum(unicodedata.combining(c) > 0 for c in line) > 10_000:
        raise Unfit("a line of combining marks")
    return unicodedata.normalize("NFC", line)


def _lines(chunk: Chunk, limit: int) -> Iterator[Tuple[bytes, int, int]]:
    """(line, its place, its length); only the beginning of a line of over ``limit`` bytes."""
    with open_stream(chunk.file) as stream, damage_refused(chunk.file):
        if chunk.start:
            stream.seek(chunk.start)
        place = chunk.start
        while chunk.end is None or place < chunk.end:
            line, length = read_line(stream, limit)
            if not line:
                return
            yield line, place, length
            place += length


def _text_documents(chunk: Chunk) -> Iterator[Raw]:
    lines: List[bytes] = []
    begun, size, unfit = chunk.start, 0, None
    for line, place, length in _lines(chunk, MAX_BYTES):
        if line.strip() == b"" and length <= MAX_BYTES:
            if lines or unfit:
                yield Raw(None if unfit else b"".join(lines), begun, unfit)
            lines, size, unfit = [], 0, None
            continue
        if not lines and unfit is None:
            begun = place
        size += length
        if unfit is None and length > MAX_BYTES:
            unfit = Unfit(_LONG_LINE, place - begun)
        elif unfit is None and size > MAX_DOCUMENT:
            unfit = Unfit(LONG_DOCUMENT)
        if unfit is None:
            lines.append(line)
        else:
            lines = []  # not kept, however long the document is
    if lines or unfit:
        yield Raw(None if unfit else b"".join(lines), begun, unfit)


def _json_rows(chunk: Chunk) -> Iterator[NumberedRow]:
    for line, place, length in _lines(chunk, MAX_DOCUMENT):
        if length > MAX_DOCUMENT:
            yield None, place, Unfit(LONG_DOCUMENT)
        elif line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield None, place, Unfit("not UTF-8" if isinstance(error, UnicodeDecodeError) else "not JSON")
                continue
            yield (row, place, None) if isinstance(row, dict) else (None, place, Unfit("not a JSON object"))


def _joined(rows: Iterator[NumberedRow], source: Source) -> Iterator[Raw]:
    """Documents from rows: each row is one, or those that belong together are."""
    texts: List[str] = []
    begun, last, size = 0, None, 0

    def document() -> Raw:
        too_long = Unfit(LONG_DOCUMENT) if size > MAX_DOCUMENT else None
        return Raw(None if too_long else "\n".join(texts), begun, too_long)

    for row, place, unfit in rows:
        if unfit is None and not isinstance(row.get(source.column), str):
            unfit = Unfit(f"no text in {source.column}")
        if unfit is None and source.group is not None and source.group not in row:
            unfit = Unfit(f"no {source.group}")
        if unfit:
            yield Raw(None, place, unfit)
            continue
        text, title = row[source.column], row.get(source.title)
        if isinstance(title, str) and title:
            text = f"{title}\n{text}"
        key = row.get(source.group)
        if texts and (len(texts) >= source.rows if source.group is None else key != last):
            yield document()
            texts, size = [], 0
        if not texts:
            begun = place
        size += len(text.encode("utf-8", "surrogatepass"))
        texts.append(text if size <= MAX_DOCUMENT else "")
        last = key
    if texts:
        yield document()
