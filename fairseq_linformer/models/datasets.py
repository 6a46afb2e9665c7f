"""fairseq's datasets of token IDs (``PREFIX.idx`` and ``PREFIX.bin``, ``mmap`` format), complete when they are opened.

fairseq reads a truncated file up to its end, and fails in the middle of training.
"""

import struct
from pathlib import Path

import numpy as np
from fairseq.data.indexed_dataset import MMapIndexedDataset, _code_to_dtype

_HEADER = struct.Struct("<9sQBQ")
"""Magic number, version, type, number of rows; lengths (int32) and byte offsets (int64) of the rows follow."""


def open_dataset(prefix) -> MMapIndexedDataset:
    """Open a dataset.

    Args:
        prefix: path without suffix.
    """
    check_dataset(prefix)
    return MMapIndexedDataset(str(prefix))


def check_dataset(prefix) -> None:
    """Raise ValueError as ``open_dataset``."""
    index, data = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    for path in (index, data):
        if not path.is_file():
            raise ValueError(f"{path} does not exist; prepare the data again")
    with open(index, "rb") as file:
        header = file.read(_HEADER.size)
    _, _, code, count = _HEADER.unpack(header) if len(header) == _HEADER.size else (b"", 0, 0, 0)
    if not count or code not in _code_to_dtype or index.stat().st_size != _HEADER.size + 12 * count:
        raise ValueError(f"{index} is truncated, empty or not a fairseq index; prepare the data again")
    tokens = int(np.memmap(index, np.int32, "r", _HEADER.size, (count,)).sum(dtype=np.int64))
    expected, found = tokens * np.dtype(_code_to_dtype[code]).itemsize, data.stat().st_size
    if not found or found != expected:
        raise ValueError(
            f"{data} must have {expected:,} bytes, as in {index.name}, got {found:,}; prepare the data again"
        )
