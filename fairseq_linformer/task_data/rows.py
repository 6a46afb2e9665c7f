"""A row as a source gives it, and the reasons not to use it."""

import math
import re
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Iterable, Iterator, Tuple, Union

from ..corpus.streams import MAX_BYTES
from .table import Task

TOO_LONG = f"longer than {MAX_BYTES:,} bytes"
LINE_BREAKS = re.compile(r"\r\n|[\n\r\t]")


@dataclass(frozen=True)
class Row:
    """A row of a task, to use or to skip.

    Attributes:
        place: FILE:LINE, or the file where a row is a file; relative to the source.
        texts: one or two.
        label: the source's name for the class, or its score.
        reason: why the row is skipped, one of a few phrases to count by; empty if it is used.
        detail: of this row, beside the reason.
    """

    place: str
    texts: Tuple[str, ...] = ()
    label: str = ""
    reason: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" + (f", {self.detail}" if self.detail else "")


@contextmanager
def unreadable_refused(name) -> Iterator[None]:
    """While the block reads it, whatever is damaged or unreadable is a ValueError that names it."""
    try:
        yield
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise ValueError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def check_names(path, members: Iterable[str]) -> None:
    """Refuse, with a ValueError, an archive with a member outside the folder it is unpacked in: absolute, or going up.

    Nothing is unpacked here; but such an archive is not the published one, and the next tool may unpack it.
    """
    for member in members:
        if re.match(r"[/\\]|[A-Za-z]:", member) or ".." in re.split(r"[/\\]", member):
            raise ValueError(f"{path} has a member {member!r}, which points outside the archive; it is refused")


def decoded(place: str, content: bytes) -> Union[str, Row]:
    """The text of some bytes, or the ``Row`` that says why there is none."""
    if b"\0" in content:
        return Row(place, reason="a NUL byte")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        return Row(place, reason="not UTF-8", detail=f"byte {error.start + 1} is {content[error.start]:#x}")


def checked(task: Task, row: Row) -> Row:
    """The row with its texts as they are tokenized, or with a reason not to use it.

    Texts are stripped, and a line break or a tab inside becomes a space, since the stock route has one row per line:
    the same text gives the same tokens from the hub, a TSV or a file. Nothing else is changed.
    """
    if row.reason:
        return row
    for text in row.texts:
        if len(text) > MAX_BYTES // 4 and len(text.encode("utf-8", "replace")) > MAX_BYTES:
            return replace(row, reason=TOO_LONG)
        if "\0" in text:
            return replace(row, reason="a NUL byte")
    row = replace(row, texts=tuple(LINE_BREAKS.sub(" ", text).strip() for text in row.texts))
    if not all(row.texts):
        return replace(row, reason="empty text")
    try:
        task.number(row.label) if task.classes else score(task, row.label)
    except (KeyError, ValueError):
        return replace(row, reason="unknown label", detail=f"{row.label[:40]!r}")
    return row


def score(task: Task, label: str) -> float:
    """A score as a share of the highest, as in fairseq's own script; ValueError if it is out of range or no number."""
    low, high = task.score
    value = float(label)
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(label)
    return value / high
