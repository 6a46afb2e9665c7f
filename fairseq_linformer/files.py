"""Files and folders that are written whole or not at all."""

import hashlib
import json
import os
import re
import secrets
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Iterable, Iterator, Optional


@contextmanager
def atomic(path, mode: str = "w") -> Iterator[IO]:
    """Open a file beside ``path`` for writing, and rename it to ``path`` at the end.

    If the block raises or the process dies, ``path`` is as it was before. Its folder is made if it is missing. Text
    (mode ``"w"``, not ``"wb"``) is UTF-8 with ``\\n`` at the end of a line on every platform. OSError if the folder
    cannot be made or written to.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = beside_name(path)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with open(beside, mode, **text) as file:
            yield file
        os.replace(beside, path)
    except OSError as error:
        if error.filename is None:  # a full disk does not say which file
            error.filename = str(path)
        raise
    finally:
        beside.unlink(missing_ok=True)


def beside_name(path: Path) -> Path:
    """A name beside ``path`` that no other process takes: without the process id, which is 1 in many containers."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def sha256(path) -> str:
    """Of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path) -> Any:
    """The content of a file; ValueError if it is no JSON, or nested deeper than Python reads."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError(f"{path} is nested too deep") from None


def write_lines(path, lines: Iterable[str]) -> None:
    """Write ``lines``, which carry no line ends of their own, to ``path``: whole or not at all."""
    with atomic(path) as file:
        for line in lines:
            file.write(line + "\n")


@contextmanager
def new_folder(path) -> Iterator[Path]:
    """A folder beside ``path`` to write into, which is renamed to ``path`` at the end.

    If the block raises, nothing is left. The folders above are made if they are missing. ValueError if ``path``
    exists and is not an empty folder.
    """
    path = Path(path).absolute()
    check_new_folder(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = beside_name(path)
    beside.mkdir()
    try:
        yield beside
        os.replace(beside, path)  # takes the place of an empty folder
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def check_can_be_written(folder) -> None:
    """Raise ValueError, before the work, if files cannot be written into ``folder``, which need not exist yet."""
    path = Path(folder).absolute()
    existing = next(place for place in (path, *path.parents) if os.path.lexists(place))
    if not existing.is_dir():
        raise ValueError(f"{folder} cannot be written: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"{folder} cannot be written: {existing} is read-only")


def check_new_folder(path, but: Optional[re.Pattern] = None) -> None:
    """Raise ValueError if ``path`` is a link, no folder, or has files in it, except those whose names match ``but``."""
    if os.path.islink(path):
        problem = "is a link"
    elif os.path.isdir(path):
        problem = "has files in it" if any(not (but and but.fullmatch(name)) for name in os.listdir(path)) else None
    else:
        problem = "is not a folder" if os.path.lexists(path) else None
    if problem:
        raise ValueError(f"{path} {problem}; a new or an empty folder is wanted, nothing is overwritten")
