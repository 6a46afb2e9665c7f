"""The corpus: inputs of at most 16 KiB that a parser once took for a program, or answered with a wrong error."""

import hashlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "corpus"
LIMIT = 1 << 14


def read_findings() -> list:
    """Name of the target and content of each file ``TARGET--HASH``, as parameters of a test."""
    files = sorted(path for path in FOLDER.glob("*--*"))
    return [pytest.param(path.name.partition("--")[0], path.read_bytes(), id=path.name) for path in files]


def store(folder: Path, name: str, data: bytes) -> Path:
    """Store an input in a folder, unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}--{hashlib.sha256(data).hexdigest()[:10]}"
    path.write_bytes(data)
    return path
