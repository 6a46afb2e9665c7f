"""fairseq's datasets of token IDs (``PREFIX.idx`` and ``PREFIX.bin``, ``mmap`` format), checked when they are opened.

A file that is missing or truncated fails in fairseq in the middle of training, with an error that names no file.
"""

import itertools
import struct
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import data_utils, indexed_dataset
from fairseq.data.indexed_dataset import MMapIndexedDataset

ADVICE = "prepare the data again"
_HEADER = struct.Struct("<9sQBQ")
_MAGIC = b"MMIDIDX\x00\x00"


def open_dataset(prefix: Path) -> MMapIndexedDataset:
    """Open a dataset.

    Args:
        prefix: path without suffix.

    Raises:
        ValueError: a file is missing, truncated or of another format.
    """
    prefix = Path(prefix)
    if not _exists(prefix):
        splits = sorted(path.stem for path in prefix.parent.glob("*.idx"))
        raise ValueError(f"{prefix}.idx does not exist; {prefix.parent} has {', '.join(splits) or 'no split'}")
    check_dataset(prefix)
    return MMapIndexedDataset(str(prefix))


def _exists(prefix: Path | str) -> bool:
    """Whether both files exist; ValueError if only one does."""
    missing = [suffix for suffix in ("idx", "bin") if not Path(f"{prefix}.{suffix}").exists()]
    if len(missing) == 1:
        other = "bin" if missing == ["idx"] else "idx"
        raise ValueError(f"{prefix}.{missing[0]} does not exist, but {prefix}.{other} does; {ADVICE}")
    return not missing


def check_dataset(prefix: Path) -> None:
    """Raise ValueError as ``open_dataset``, for files that exist."""
    index, data = (Path(f"{prefix}.{suffix}") for suffix in ("idx", "bin"))
    expected, num_bytes = _read_size(index), data.stat().st_size
    if num_bytes != expected:
        raise ValueError(f"{data} must have {expected:,} bytes, as in {index.name}, got {num_bytes:,}; {ADVICE}")


def _read_size(path: Path) -> int:
    """The bytes of all rows of an index."""
    with open(path, "rb") as file:
        header = file.read(_HEADER.size)
    magic, version, code, count = _HEADER.unpack(header) if len(header) == _HEADER.size else (b"", 0, 0, 0)
    is_index = (magic, version) == (_MAGIC, 1) and code in indexed_dataset._code_to_dtype
    # For each row its length, int32, and its position in bytes, int64.
    if not is_index or path.stat().st_size != _HEADER.size + 12 * count:
        raise ValueError(f"{path} is truncated or not a fairseq index; {ADVICE}")
    num_tokens = int(np.memmap(path, np.int32, "r", _HEADER.size, (count,)).sum(dtype=np.int64)) if count else 0
    if not num_tokens:
        raise ValueError(f"{path} has no rows, or only empty rows; {ADVICE}")
    return num_tokens * int(np.dtype(indexed_dataset._code_to_dtype[code]).itemsize)


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
                    check_dataset(Path(prefix))
        return load(path, dictionary, dataset_impl, combine, *args, **kwargs)

    data_utils.load_indexed_dataset = load_checked
