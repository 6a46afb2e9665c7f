"""Files and folders that are there whole or not at all."""

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

    If the block raises or the process dies, ``path`` is as it was before. The folder is
    made if it is missing. Text is UTF-8 with ``\\n`` at the end of a line on every platform.

    Args:
        path: where the file shall be.
        mode: ``"w"`` for text, ``"wb"`` for bytes.

    Raises:
        OSError: the folder cannot be made or written to.
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
    """A name beside ``path`` that no other process takes: not its number, which is 1 in many containers."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def sha256(path) -> str:
    """Of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path) -> Any:
    """
    Raises:
        ValueError: it is no JSON, or nested deeper than Python reads.
        OSError: it cannot be read.
    """
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

    If the block raises, nothing is left. The folders above are made if they are missing.

    Raises:
        ValueError: ``path`` exists and is not an empty folder.
        OSError: it cannot be written.
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
    """Before the work: a folder that is there, or can be made, for files.

    Raises:
        ValueError: it cannot be written, or is none.
    """
    there = next(path for path in (Path(folder).absolute(), *Path(folder).absolute().parents) if os.path.lexists(path))
    if not there.is_dir():
        raise ValueError(f"{folder} cannot be written: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"{folder} cannot be written: {there} is read-only")


def check_new_folder(path, but: Optional[re.Pattern] = None) -> None:
    """Refuse a folder to write that has something in it, ``but`` files of such names.

    Raises:
        ValueError: ``path`` exists and is not an empty folder, or is a link.
    """
    if os.path.isdir(path) and not os.path.islink(path):
        if any(not (but and but.fullmatch(name)) for name in os.listdir(path)):
            raise ValueError(f"{path} has files in it; a new or an empty folder is wanted, nothing is overwritten")
    elif os.path.lexists(path):
        raise ValueError(f"{path} is {'a link' if os.path.islink(path) else 'not a folder'}; a new or an empty folder is wanted, nothing is overwritten")
