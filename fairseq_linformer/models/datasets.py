"""fairseq's datasets of token IDs (``PREFIX.idx`` and ``PREFIX.bin``, ``mmap`` format), checked when they are opened.

Without these checks fairseq fails in the middle of training, with an error of NumPy or PyTorch that names no file, or
trains on wrong tokens.
"""

import itertools
import struct
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import data_utils, indexed_dataset
from fairseq.data.indexed_dataset import MMapIndexedDataset

from .recorded_files import ADVICE, check_recorded

_HEADER = struct.Struct("<9sQBQ")
_MAGIC = b"MMIDIDX\x00\x00"
_CHUNK = 1 << 20
MAX_SCANNED_BYTES = 1 << 30
"""Bytes whose IDs are compared with the dictionary, which takes a second."""


def open_dataset(prefix: Path, num_entries: int | None = None) -> MMapIndexedDataset:
    """Open a dataset.

    Args:
        prefix: path without suffix.
        num_entries: of the dictionary, including fairseq's own; None to skip the check of the IDs.

    Raises:
        ValueError: a file is missing, truncated, of another format, has IDs beyond the dictionary, or differs from
            the checksum in ``manifest.json``.
    """
    prefix = Path(prefix)
    if not _exists(prefix):
        splits = sorted(path.stem for path in prefix.parent.glob("*.idx"))
        raise ValueError(f"{prefix}.idx does not exist; {prefix.parent} has {', '.join(splits) or 'no split'}")
    check_dataset(prefix, num_entries)
    return MMapIndexedDataset(str(prefix))


def _exists(prefix: Path | str) -> bool:
    """Whether both files exist; ValueError if only one does."""
    missing = [suffix for suffix in ("idx", "bin") if not Path(f"{prefix}.{suffix}").exists()]
    if len(missing) == 1:
        other = "bin" if missing == ["idx"] else "idx"
        raise ValueError(f"{prefix}.{missing[0]} does not exist, but {prefix}.{other} does; {ADVICE}")
    return not missing


def check_dataset(prefix: Path, num_entries: int | None = None) -> None:
    """Raise ValueError as ``open_dataset``, for files that exist."""
    index, data = (Path(f"{prefix}.{suffix}") for suffix in ("idx", "bin"))
    dtype, expected_bytes = _read_index(index)
    num_bytes = data.stat().st_size
    if num_bytes != expected_bytes:
        sizes = f"must have {expected_bytes:,} bytes, as in {index.name}, got {num_bytes:,}"
        raise ValueError(f"{data} {sizes}; {ADVICE}")
    check_recorded(index)
    check_recorded(data)
    if num_entries is not None:
        _check_ids(data, dtype, num_entries)


def _read_index(path: Path) -> tuple[np.dtype, int]:
    """The type of the IDs, and the bytes of all rows; ValueError unless rows follow each other."""
    with open(path, "rb") as file:
        header = file.read(_HEADER.size)
    num_bytes, count, code = path.stat().st_size, 0, 0
    if len(header) == _HEADER.size:
        magic, version, code, count = _HEADER.unpack(header)
        is_index = (magic, version) == (_MAGIC, 1) and code in indexed_dataset._code_to_dtype
    else:
        is_index = False
    # For each row its length, int32, and its position in bytes, int64.
    if not is_index or num_bytes != _HEADER.size + 12 * count:
        raise ValueError(f"{path} is truncated or not a fairseq index; {ADVICE}")
    if not count:
        raise ValueError(f"{path} has no rows; {ADVICE}")
    dtype = np.dtype(indexed_dataset._code_to_dtype[code])
    lengths = np.memmap(path, np.int32, "r", _HEADER.size, (count,))
    positions = np.memmap(path, np.int64, "r", _HEADER.size + 4 * count, (count,))
    end = 0
    for start in range(0, count, _CHUNK):
        sizes = lengths[start : start + _CHUNK].astype(np.int64) * dtype.itemsize
        ends = end + np.cumsum(sizes)
        if (sizes < 0).any() or (positions[start : start + _CHUNK] != ends - sizes).any():
            raise ValueError(f"{path} is damaged: its rows must follow each other; {ADVICE}")
        end = int(ends[-1])
    if not end:
        raise ValueError(f"{path} has only empty rows; {ADVICE}")
    return dtype, end


def _check_ids(path: Path, dtype: np.dtype, num_entries: int) -> None:
    """Raise ValueError if one of the first IDs is not in the dictionary."""
    ids = np.memmap(path, dtype, "r")[: MAX_SCANNED_BYTES // dtype.itemsize]
    for start in range(0, len(ids), _CHUNK):
        chunk = ids[start : start + _CHUNK]
        for extreme in (int(chunk.max()), int(chunk.min())):
            if not 0 <= extreme < num_entries:
                raise ValueError(
                    f"{path} has the ID {extreme:,}, but the dictionary (dict.txt) has {num_entries:,} entries, with "
                    f"fairseq's own; one of them is damaged or of other data; {ADVICE}"
                )


def patch_dataset_loading() -> None:
    """Let fairseq's loader, which all tasks use, raise the errors of ``open_dataset``."""
    load = data_utils.load_indexed_dataset

    @wraps(load)
    def load_checked(
        path: str, dictionary: Any = None, dataset_impl: str | None = None, combine: bool = False, *args, **kwargs
    ) -> Any:
        if dataset_impl in (None, "mmap"):
            for k in itertools.count() if combine else (0,):  # fairseq combines train, train1, train2, ...
                prefix = f"{path}{k or ''}"
                if not _exists(prefix):
                    break
                if dataset_impl or indexed_dataset.infer_dataset_impl(prefix) in (None, "mmap"):
                    check_dataset(Path(prefix), len(dictionary) if dictionary is not None else None)
        return load(path, dictionary, dataset_impl, combine, *args, **kwargs)

    data_utils.load_indexed_dataset = load_checked
