"""Files as streams of bytes and of lines, compressed or not."""

import bz2
import gzip
import io
import lzma
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Callable, Iterator, Optional, Tuple

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
MAX_BYTES = 999_000
"""Of a line or a text: a longer one goes to no tokenizer. tiktoken's regular expression dies of a million spaces."""


def open_stream(file) -> BinaryIO:
    """The content of a file; ``.gz``, ``.bz2``, ``.xz`` and ``.zst`` are decompressed."""
    suffix = Path(file).suffix
    if suffix == ".gz":
        return gzip.open(file)
    if suffix in (".bz2", ".xz"):
        decompressor = bz2.BZ2Decompressor if suffix == ".bz2" else lzma.LZMADecompressor
        return io.BufferedReader(_Decompressed(file, decompressor), 1 << 20)
    if suffix == ".zst":
        import pyarrow

        return io.BufferedReader(pyarrow.input_stream(str(file), compression="zstd"))
    return open(file, "rb", buffering=1 << 20)


class _Decompressed(io.RawIOBase):
    """All streams of a file, one after the other. Python's own readers take a damaged second stream for the end."""

    def __init__(self, file, decompressor: Callable):
        self._file, self._new = open(file, "rb"), decompressor
        self._stream, self._left = None, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while True:
            if self._stream is None or self._stream.eof:
                block = self._left or self._file.read(1 << 16)
                if not block:
                    return 0
                self._left = block.lstrip(b"\0")  # xz pads with zeros
                if not self._left:
                    continue
                self._stream = self._new()
            elif self._stream.needs_input and not self._left:
                self._left = self._file.read(1 << 16)
                if not self._left:
                    raise EOFError("it ends in the middle of a stream")
            found = self._stream.decompress(self._left, len(buffer))
            self._left = self._stream.unused_data if self._stream.eof else b""
            if found:
                buffer[: len(found)] = found
                return len(found)

    def close(self) -> None:
        self._file.close()
        super().close()


def read_line(stream: BinaryIO, limit: int) -> Tuple[bytes, int]:
    """A line and its length; only the beginning of a line of over ``limit`` bytes, in little memory."""
    line = last = stream.readline(limit + 1)
    length = len(line)
    while length > limit and not last.endswith(b"\n") and (last := stream.readline(limit)):
        length += len(last)
    return line, length


def numbered_lines(file: BinaryIO) -> Iterator[Tuple[int, Optional[bytes]]]:
    """Lines from 1, without line ends and byte order mark; None in place of a line of over ``MAX_BYTES``."""
    number = 0
    while (found := read_line(file, MAX_BYTES + 2))[1]:
        number += 1
        line = found[0].removesuffix(b"\n").removesuffix(b"\r")
        if len(line) > MAX_BYTES:
            yield number, None
        else:
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


@contextmanager
def damage_refused(file) -> Iterator[None]:
    """While the block reads it, a damaged file is a ValueError that names it."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        if getattr(error, "errno", None) is not None:  # the system's, which says what it is
            raise
        raise ValueError(f"{file} is cut off or damaged: {error}") from None


def line_number(file, position: int) -> int:
    """The line, from 1, that holds the byte at ``position``."""
    lines = 1
    with open_stream(file) as stream, damage_refused(file):
        while position > 0 and (block := stream.read(min(position, 1 << 20))):
            lines += block.count(b"\n")
            position -= len(block)
    return lines
