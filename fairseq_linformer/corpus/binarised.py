"""fairseq's ``.bin`` and ``.idx`` (its ``mmap`` format), written as a stream.

``.bin`` is the numbers of all lines, one after the other. ``.idx`` is "MMIDIDX\\0\\0", version 1, a
code for the type of number, the count of lines, the length of each (int32), where each begins
in bytes (int64). fairseq's own builder holds lengths and beginnings in lists; here they go
through files, so that memory does not grow with the text.
"""

import os
import shutil
import struct
from pathlib import Path

import numpy as np

from ..files import beside_name

_CODES = {np.dtype(np.uint16): 8, np.dtype(np.uint32): 9}


class Writer:
    """Writes ``PREFIX.bin`` and ``PREFIX.idx``, which are there from ``finish`` on.

    Args:
        prefix: path without suffix; its folder is made.
        dtype: of the numbers, ``uint16`` or ``uint32``.
    """

    def __init__(self, prefix, dtype):
        self._dtype = np.dtype(dtype)
        self._prefix = Path(prefix)
        self._prefix.parent.mkdir(parents=True, exist_ok=True)
        self._paths = {name: beside_name(self._prefix.with_name(f"{self._prefix.name}.{name}")) for name in ("bin", "sizes", "pointers", "idx")}
        self._files = {name: open(self._paths[name], "wb") for name in ("bin", "sizes", "pointers")}
        self.lines = self.tokens = 0

    def add(self, ids: np.ndarray, sizes: np.ndarray) -> None:
        """(tokens,) numbers of lines, (lines,) how many each has."""
        ends = np.cumsum(sizes, dtype=np.int64)
        self._files["bin"].write(ids.astype(self._dtype, copy=False).tobytes())
        self._files["sizes"].write(sizes.astype(np.int32).tobytes())
        self._files["pointers"].write(((self.tokens + ends - sizes) * self._dtype.itemsize).tobytes())
        self.lines += len(sizes)
        self.tokens += len(ids)

    def finish(self) -> None:
        """Put both files in place."""
        with open(self._paths["idx"], "wb") as index:
            index.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, _CODES[self._dtype], self.lines))
            for name in ("sizes", "pointers"):
                self._files[name].close()
                with open(self._paths[name], "rb") as part:
                    shutil.copyfileobj(part, index)
        self._files["bin"].close()
        for name in ("bin", "idx"):
            os.replace(self._paths[name], self._prefix.with_name(f"{self._prefix.name}.{name}"))
        self.close()

    def close(self) -> None:
        """Remove what is not finished."""
        for name, file in self._files.items():
            file.close()
            self._paths[name].unlink(missing_ok=True)
        self._paths["idx"].unlink(missing_ok=True)
