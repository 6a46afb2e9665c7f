"""Files as streams of bytes and lines, compressed or not."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
MAX_BYTES = 999_000
"""Longest line or task input that is tokenized: tiktoken's regular expression crashes on a million spaces."""
XZ_MEMORY = 1 << 28
"""Bytes that the decoder of a .xz file may use: the header of a file can ask for 4 GiB; `xz -9` asks for 65 MiB."""


def open_stream(file) -> BinaryIO:
    """Open a file for reading; ``.gz``, ``.bz2``, ``.xz`` and ``.zst`` are decompressed."""
    suffix = Path(file).suffix
    if suffix == ".gz":
        return cast(BinaryIO, gzip.open(file))
    if suffix in (".bz2", ".xz"):
        decompressor = bz2.BZ2Decompressor if suffix == ".bz2" else partial(lzma.LZMADecompressor, memlimit=XZ_MEMORY)
        return io.BufferedReader(_DecompressedFile(file, decompressor), 1 << 20)
    if suffix == ".zst":
        import pyarrow

        return io.BufferedReader(pyarrow.input_stream(str(file), compression="zstd"))
    return open(file, "rb", buffering=1 << 20)


class _DecompressedFile(io.RawIOBase):
    """All concatenated streams of a file. Python's own readers mistake a damaged second stream for the end of file."""

    def __init__(self, file, decompressor: Callable[[], Any]):
        self._file, self._decompressor = open(file, "rb"), decompressor
        self._stream: Any = None
        self._input = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while True:
            if self._stream is None or self._stream.eof:
                block = self._input or self._file.read(1 << 16)
                if not block:
                    return 0
                self._input = block.lstrip(b"\0")  # xz pads with zeros
                if not self._input:
                    continue
                self._stream = self._decompressor()
            elif self._stream.needs_input and not self._input:
                self._input = self._file.read(1 << 16)
                if not self._input:
                    raise EOFError("the file ends inside a compressed stream")
            output = self._stream.decompress(self._input, len(buffer))
            self._input = self._stream.unused_data if self._stream.eof else b""
            if output:
                buffer[: len(output)] = output
                return len(output)

    def close(self) -> None:
        self._file.close()
        super().close()


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


@contextmanager
def reject_damaged(file) -> Iterator[None]:
    """Turn decompression errors inside the block into a ValueError that names ``file``."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        if getattr(error, "errno", None) is not None:  # raised by the system; already clear
            raise
        raise ValueError(f"{file} is truncated or damaged: {error}") from None


def find_line_number(file, position: int) -> int:
    """The 1-based number of the line with the byte at ``position``."""
    lines = 1
    with open_stream(file) as stream, reject_damaged(file):
        while position > 0 and (block := stream.read(min(position, 1 << 20))):
            lines += block.count(b"\n")
            position -= len(block)
    return lines
