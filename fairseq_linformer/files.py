"""Files that are complete or do not exist, also after a power cut, and folders that belong to their inputs."""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

INPUTS = "inputs.json"


@contextmanager
def open_atomic(path, mode: str = "w") -> Iterator[IO]:
    """Open a temporary file next to ``path`` for writing, and rename it to ``path`` at the end.

    If the block raises or the process dies, ``path`` is unchanged. Missing parent folders are created. Text (mode
    ``"w"``, not ``"wb"``) is UTF-8.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        with open(temporary, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # a rename can reach the disk before what it names
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """A hidden path next to ``path``. It is random, because the process ID is 1 in many containers."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def sha256(path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path) -> Any:
    """Read a JSON file; ValueError if it is invalid."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested too deeply
        raise ValueError(f"{path} is not JSON: {error}") from None


def is_read_error(error: Exception) -> bool:
    """Whether a file could not be read, rather than that its content is damaged: then bz2 raises an OSError without
    number, and a seek to a place that does not exist EINVAL."""
    return isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)


@contextmanager
def lock(folder) -> Iterator[None]:
    """Lock a folder for the block, after other processes that have locked it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # not all shared file systems have locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # waits
        yield
    finally:
        os.close(descriptor)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files to a folder and its subfolders."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def fingerprint(content: Any) -> str:
    """SHA-256 of JSON content, independent of the order of its keys, which are strings."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def write_json(path, content: Any) -> None:
    """Write a JSON file atomically."""
    write_lines(path, [json.dumps(content, indent=1)])


def write_lines(path, lines: Iterable[str]) -> None:
    """Write ``lines``, which have no line endings, to ``path`` atomically."""
    with open_atomic(path) as file:
        for line in lines:
            file.write(line + "\n")


def claim(folder, inputs: Mapping[str, Any]) -> None:
    """Reserve a folder for these inputs, so that its outputs are used again only for the same ones.

    Args:
        folder: gets ``inputs.json``, unless it has one.
        inputs: options, checksums, and whatever else determines the outputs, as JSON has them.

    Raises:
        ValueError: the folder belongs to other inputs.
    """
    path = Path(folder, INPUTS)
    if path.exists():
        check_same(folder, read_json(path), inputs)
    else:
        write_json(path, inputs)


def check_same(folder, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise ValueError if a folder was made from other inputs than those of now."""
    differing = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
    if differing:
        words = "; ".join(f"{key} must be {before.get(key)}, got {now.get(key)}" for key in differing)
        raise ValueError(f"{folder} was made from other inputs: {words}; choose another folder, or move it away")


@contextmanager
def new_folder(path) -> Iterator[Path]:
    """Create a temporary folder next to ``path``, a new or empty folder, and rename it to ``path`` at the end.

    If the block raises, the folder is removed. Missing parent folders are created.
    """
    path = Path(path).absolute()
    check_new_folder(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        temporary.mkdir()
        yield temporary
        for written in filter(Path.is_file, temporary.rglob("*")):
            with open(written) as file:
                os.fsync(file.fileno())
        check_new_folder(path)  # another process may have written it
        os.replace(temporary, path)  # also replaces an empty folder
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_can_be_written(folder) -> None:
    """Raise ValueError if no files can be written to ``folder``, which need not exist yet."""
    path = Path(folder).absolute()
    existing = next(parent for parent in (path, *path.parents) if os.path.lexists(parent))
    if not existing.is_dir():
        raise ValueError(f"cannot write to {folder}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write to {folder}: {existing} is read-only")


def check_new_folder(path) -> None:
    """Raise ValueError unless ``path`` is missing or an empty folder."""
    is_plain = os.path.isdir(path) and not os.path.islink(path) and not os.path.ismount(path)  # so that it is replaced
    if os.path.lexists(path) and (not is_plain or os.listdir(path)):
        raise ValueError(f"{path} must be a new or empty folder, and neither a link nor a mount point")


def check_new_file(path) -> None:
    """Raise ValueError if ``path`` exists, or its folder does not."""
    if os.path.lexists(path):
        raise ValueError(f"{path} already exists; choose another file")
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"cannot write {path}: {folder} is not a folder")


def check_data_path(path, option: str) -> None:
    """Raise ValueError if fairseq or hydra would misread the path of a data folder, the value of ``option``."""
    for sign, means in ((os.pathsep, "fairseq's separator of folders"), ("${", "hydra's start of an interpolation")):
        if sign in f"{Path(path).absolute()}{Path(path).resolve()}":
            raise ValueError(f"{option} must be a path without {sign!r}, {means}, got {path}")
