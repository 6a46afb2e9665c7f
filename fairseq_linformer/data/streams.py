"""Lines of a file, with a limit on their length."""

from collections.abc import Iterator
from typing import BinaryIO

MAX_BYTES = 999_000
"""Longest task input that is tokenized: tiktoken's regular expression crashes on a million spaces."""


def read_line(stream: BinaryIO, limit: int) -> tuple[bytes, int]:
    """A line and its length in bytes. Lines longer than ``limit`` are truncated, so that they need no memory."""
    line = part = stream.readline(limit + 1)
    length = len(line)
    while length > limit and not part.endswith(b"\n") and (part := stream.readline(limit)):
        length += len(part)
    return line, length


def count_lines(file: BinaryIO) -> int:
    """The number of lines that ``read_numbered_lines`` yields."""
    count, block, end = 0, b"", b"\n"
    while block := file.read(1 << 20):
        count, end = count + block.count(b"\n"), block[-1:]
    return count + (end != b"\n")


def read_numbered_lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """(1-based number, line without line end and byte order mark); the line is None if longer than ``MAX_BYTES``."""
    number = 0
    while (line_and_length := read_line(file, MAX_BYTES + 2))[1]:
        number += 1
        line = line_and_length[0].removesuffix(b"\n").removesuffix(b"\r")
        if len(line) > MAX_BYTES:
            yield number, None
        else:
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
