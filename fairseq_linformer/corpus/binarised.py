"""fairseq's ``.bin`` and ``.idx`` (its ``mmap`` format), written as a stream.

``.bin`` holds the token numbers of all lines, one after the other. ``.idx`` is "MMIDIDX\\0\\0", version 1, a code for
the dtype, the number of lines, the length of each (int32), the byte offset of each (int64). fairseq's own builder
keeps lengths and offsets in lists; here they go through files, so that memory does not grow with the text.
"""

import os
import shutil
import struct
from pathlib import Path

import numpy as np

from ..files import beside_name

_CODES = {np.dtype(np.uint16): 8, np.dtype(np.uint32): 9}


class Writer:
    """Writes ``PREFIX.bin`` and ``PREFIX.idx``, which exist once ``finish`` has returned.

    Args:
        prefix: path without suffix; its folder is made.
        dtype: of the token numbers, ``uint16`` or ``uint32``.
    """

    def __init__(self, prefix, dtype):
        self._dtype = np.dtype(dtype)
        self._targets = {name: Path(f"{prefix}.{name}") for name in ("bin", "idx", "sizes", "pointers")}
        self._targets["bin"].parent.mkdir(parents=True, exist_ok=True)
        self._paths = {name: beside_name(target) for name, target in self._targets.items()}
        self._files = {name: open(path, "wb") for name, path in self._paths.items() if name != "idx"}
        self.lines = self.tokens = 0

    def add(self, ids: np.ndarray, sizes: np.ndarray) -> None:
        """(tokens,) numbers of lines, (lines,) the length of each."""
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
            os.replace(self._paths[name], self._targets[name])
        self.close()

    def close(self) -> None:
        """Remove what is not finished."""
        for file in self._files.values():
            file.close()
        for path in self._paths.values():
            path.unlink(missing_ok=True)
