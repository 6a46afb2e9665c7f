"""fairseq's ``.bin`` and ``.idx`` files (``mmap`` format), written as a stream.

``.bin`` holds the token IDs of all lines. ``.idx`` holds "MMIDIDX\\0\\0", version 1, a dtype code, the number of lines,
the length of each (int32) and its byte offset (int64). fairseq's builder keeps lengths and offsets in lists; here they
go through files, so memory does not grow with the text.
"""

import os
import shutil
import struct
from pathlib import Path

import numpy as np

from ..files import temporary_path

_DTYPE_CODES = {np.dtype(np.uint16): 8, np.dtype(np.uint32): 9}


def token_dtype(num_symbols: int) -> np.dtype:
    """The type in which fairseq stores token IDs of a dictionary of this size."""
    return np.dtype(np.uint16 if num_symbols < 65500 else np.uint32)


class BinarizedWriter:
    """Writes ``PREFIX.bin`` and ``PREFIX.idx``, which appear when ``finish`` returns.

    Args:
        prefix: path without suffix; its folder is created.
        dtype: of the token IDs, ``uint16`` or ``uint32``.
    """

    def __init__(self, prefix, dtype):
        self._dtype = np.dtype(dtype)
        self._targets = {name: Path(f"{prefix}.{name}") for name in ("bin", "idx", "sizes", "pointers")}
        self._targets["bin"].parent.mkdir(parents=True, exist_ok=True)
        self._paths = {name: temporary_path(target) for name, target in self._targets.items()}
        self._files = {name: open(path, "wb") for name, path in self._paths.items() if name != "idx"}
        self.num_lines = self.num_tokens = 0

    def add(self, ids: np.ndarray, sizes: np.ndarray) -> None:
        """Append lines: their token IDs (tokens,) and the length of each (lines,)."""
        ends = np.cumsum(sizes, dtype=np.int64)
        self._files["bin"].write(ids.astype(self._dtype, copy=False).tobytes())
        self._files["sizes"].write(sizes.astype(np.int32).tobytes())
        self._files["pointers"].write(((self.num_tokens + ends - sizes) * self._dtype.itemsize).tobytes())
        self.num_lines += len(sizes)
        self.num_tokens += len(ids)

    def finish(self) -> None:
        """Move both files to their final names."""
        with open(self._paths["idx"], "wb") as index:
            index.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, _DTYPE_CODES[self._dtype], self.num_lines))
            for name in ("sizes", "pointers"):
                self._files[name].close()
                with open(self._paths[name], "rb") as part:
                    shutil.copyfileobj(part, index)
        self._files["bin"].close()
        for name in ("bin", "idx"):
            os.replace(self._paths[name], self._targets[name])
        self.close()

    def close(self) -> None:
        """Close all files and remove the unfinished ones."""
        for file in self._files.values():
            file.close()
        for path in self._paths.values():
            path.unlink(missing_ok=True)
