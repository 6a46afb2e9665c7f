"""A row as a source yields it, and the reasons to skip it."""

import math
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from .streams import MAX_BYTES
from .tasks import Task

TOO_LONG = f"longer than {MAX_BYTES:,} bytes"
LINE_BREAKS = re.compile(r"\r\n|[\n\r\t]")


@dataclass(frozen=True)
class Row:
    """A row of a task, used or skipped.

    Attributes:
        location: FILE:LINE, or the file if it holds a single row; relative to the source.
        texts: one or two.
        label: the source's name of the class, or the score.
        reason: why the row is skipped, one of a few phrases; empty if it is used.
        detail: specific to this row, in addition to the reason.
    """

    location: str
    texts: tuple[str, ...] = ()
    label: str = ""
    reason: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.location}: {self.reason}" + (f", {self.detail}" if self.detail else "")


@contextmanager
def reject_unreadable(name) -> Iterator[None]:
    """Turn read and decompression errors inside the block into a ValueError that names the file."""
    try:
        yield
    except (
        OSError,
        EOFError,
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        UnicodeDecodeError,
        RuntimeError,
    ) as error:
        raise ValueError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def check_names(path, members: Iterable[str]) -> None:
    """Raise ValueError if a member of an archive has an absolute path or one with ``..``.

    Nothing is extracted here, but such an archive is not the published one, and other tools may extract it.
    """
    for member in members:
        if re.match(r"[/\\]|[A-Za-z]:", member) or ".." in re.split(r"[/\\]", member):
            raise ValueError(f"members of {path} must have relative paths inside the archive, got {member!r}")


def decode_text(location: str, content: bytes) -> str | Row:
    """The text, or a ``Row`` with the reason to skip it."""
    if b"\0" in content:
        return Row(location, reason="a NUL byte")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        return Row(location, reason="not UTF-8", detail=f"byte {error.start + 1} is {content[error.start]:#x}")


def clean_row(task: Task, row: Row) -> Row:
    """The row with the texts to tokenize, or with a reason to skip it.

    Texts are stripped, and line breaks and tabs become spaces, because fairseq's preprocessing has one row per line.
    So the same text gives the same tokens from the hub, a TSV or a file. Nothing else changes.
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
        task.class_index(row.label) if task.classes else scale_score(task, row.label)
    except (KeyError, ValueError):
        return replace(row, reason="unknown label", detail=f"{row.label[:40]!r}")
    return row


def scale_score(task: Task, label: str) -> float:
    """The score divided by the highest score, as in fairseq's script. Raises ValueError if it is not in the range."""
    assert task.score_range is not None
    low, high = task.score_range
    value = float(label)
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(f"the score must be between {low:g} and {high:g}, got {label}")
    return value / high
