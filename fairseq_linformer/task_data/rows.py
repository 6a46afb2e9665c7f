"""A row as a source gives it, and what speaks against using it."""

import math
import re
from dataclasses import dataclass, replace
from typing import Tuple, Union

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
        label: what the source calls the class; the score as it stands there.
        reason: why the row is skipped, one of a few phrases to count by; empty if it is.
        detail: of this row, beside the reason.
    """

    place: str
    texts: Tuple[str, ...] = ()
    label: str = ""
    reason: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" + (f", {self.detail}" if self.detail else "")


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

    Texts are stripped, and a line break or a tab inside becomes a space, since the stock route has a row a
    line: the same text gives the same tokens from the hub, a TSV or a file. Nothing else is changed.
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
    """A score as a share of the highest, as fairseq's own script has it.

    Raises:
        ValueError: it is no number, or out of range.
    """
    low, high = task.score
    value = float(label)
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(label)
    return value / high
