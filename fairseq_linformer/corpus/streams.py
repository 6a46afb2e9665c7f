"""Files as streams of bytes, compressed or not."""

import bz2
import gzip
import io
import lzma
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Iterator

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


def open_stream(file) -> BinaryIO:
    """What is in a file; ``.gz``, ``.bz2``, ``.xz`` and ``.zst`` are decompressed."""
    suffix = Path(file).suffix
    if suffix == ".gz":
        return gzip.open(file)
    if suffix == ".bz2":
        return bz2.open(file)
    if suffix == ".xz":
        return lzma.open(file)
    if suffix == ".zst":
        import pyarrow

        return io.BufferedReader(pyarrow.input_stream(str(file), compression="zstd"))
    return open(file, "rb", buffering=1 << 20)


@contextmanager
def whole(file) -> Iterator[None]:
    """Reading it in this block, a damaged file is a ValueError with a sentence."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{file} is cut off or damaged: {error}") from None
    except OSError as error:
        if error.errno is not None:  # the system's, which says what it is
            raise
        raise ValueError(f"{file} is cut off or damaged: {error}") from None


def line_number(file, position: int) -> int:
    """The line, from 1, that holds the byte at ``position``."""
    lines = 1
    with open_stream(file) as stream, whole(file):
        while position > 0:
            block = stream.read(min(position, 1 << 20))
            if not block:
                break
            lines += block.count(b"\n")
            position -= len(block)
    return lines
