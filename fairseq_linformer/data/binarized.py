"""fairseq's ``.bin`` and ``.idx`` files (``mmap`` format), written as a stream.

``.bin`` holds the token IDs of all lines. ``.idx`` holds "MMIDIDX\\0\\0", version 1, a dtype code, the number of lines,
the length of each (int32) and its byte offset (int64). fairseq's builder keeps Python lists of lengths and offsets;
here memory is 12 bytes per line.
"""

import struct
from pathlib import Path

import numpy as np

_DTYPE_CODES = {np.dtype(np.uint16): 8, np.dtype(np.uint32): 9}


class BinarizedWriter:
    """Writes ``PREFIX.bin`` and ``PREFIX.idx``, which are complete when ``finish`` returns.

    Args:
        prefix: path without suffix; its folder is created.
        dtype: of the token IDs, ``uint16`` or ``uint32``.
    """

    def __init__(self, prefix, dtype) -> None:
        self._dtype, self._index = np.dtype(dtype), Path(f"{prefix}.idx")
        self._index.parent.mkdir(parents=True, exist_ok=True)
        self._tokens = open(f"{prefix}.bin", "wb")
        self._sizes: list[np.ndarray] = []

    def add(self, ids: np.ndarray, sizes: np.ndarray) -> None:
        """Append lines: their token IDs (tokens,) and the length of each (lines,)."""
        self._tokens.write(ids.astype(self._dtype, copy=False).tobytes())
        self._sizes.append(sizes.astype(np.int32))

    def finish(self) -> None:
        """Write the index."""
        self._tokens.close()
        sizes = np.concatenate([np.zeros(0, np.int32), *self._sizes])
        offsets = (np.cumsum(sizes, dtype=np.int64) - sizes) * self._dtype.itemsize
        header = b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, _DTYPE_CODES[self._dtype], len(sizes))
        self._index.write_bytes(header + sizes.tobytes() + offsets.tobytes())
