"""The checkpoint that a run resumes from: the newest intact one."""

import errno
import lzma
import os
import shutil
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path

from ..models.fairseq_fixes import check_settings, load_weights_only

LAST = "checkpoint_last.pt"
UNFINISHED = ".tmp"
"""The end of the names of files that fairseq renames to checkpoints."""
_ZIP_ERRORS = (zipfile.BadZipFile, EOFError, RuntimeError, ValueError, zlib.error, lzma.LZMAError)
"""What ``testzip`` raises for damaged archives, such as RuntimeError for an entry whose flag says it is encrypted."""


def find_damage(path: Path) -> str | None:
    """Describe the damage of a checkpoint, by the CRCs of its zip entries; None if it is intact.

    Raises:
        OSError: it cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as file:
            entries = file.infolist()
            bad = file.testzip()
            if min((entry.header_offset for entry in entries), default=0) != 0:  # valid for zip, but not for torch
                return "it has data before its first entry"
    except _ZIP_ERRORS as error:
        return f"it is truncated or damaged: {error}"
    except OSError as error:
        if error.errno not in (errno.EINVAL, None):  # a negative offset in the archive; damaged data for bz2
            raise
        return f"it is truncated or damaged: {error}"
    if bad is not None:
        return f"it is damaged at {bad}"
    if not any(entry.filename.endswith("/data.pkl") for entry in entries):
        return "it is not a PyTorch checkpoint"
    return None


def check_initial(path: Path) -> None:
    """Raise ValueError if a checkpoint to start training from is damaged or contains code."""
    stat = path.stat()
    _check_initial(path, stat.st_size, stat.st_mtime_ns)


@lru_cache
def _check_initial(path: Path, size: int, modified: int) -> None:
    """``check_initial``, cached because many members of an array start from one file."""
    checkpoint = load_weights_only(path, mmap=True)
    if not isinstance(checkpoint, dict) or "model" not in checkpoint:
        raise ValueError(f"{path} has no 'model'; expected a fairseq checkpoint")
    check_settings(path, checkpoint)


def find_last_intact(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest intact checkpoint of a run (None if there is none), and a line for each newer, damaged one.

    Raises:
        ValueError: there are checkpoints, and all are damaged.
        OSError: a checkpoint cannot be read.
    """
    last = folder / LAST
    lines: list[str] = []
    for path in sorted(folder.glob("checkpoint*.pt"), key=lambda path: (path != last, -path.stat().st_mtime)):
        problem = find_damage(path)
        if problem is None:
            return path, lines
        lines.append(f"{path}: {problem}")
    if lines:
        raise ValueError(
            f"all {len(lines)} checkpoints in {folder} are damaged ({lines[0]}); delete them to start over"
        )
    return None, lines


def restore_last(folder: Path) -> list[str]:
    """Replace ``checkpoint_last.pt``, which fairseq resumes from, with the newest intact checkpoint if it is damaged.

    The damaged file is renamed. Unfinished files, of a killed process or a full disk, are deleted.

    Returns:
        Lines for the log.

    Raises:
        ValueError, OSError: as ``find_last_intact``; or the disk is full.
    """
    for unfinished in folder.glob(f"*.pt{UNFINISHED}"):
        unfinished.unlink()
    intact, lines = find_last_intact(folder)
    if intact is None:
        return ["no checkpoint yet; training starts at update 0"]
    needed = 2 * intact.stat().st_size
    if (free := shutil.disk_usage(folder).free) < needed:
        raise ValueError(f"{folder} needs {needed:,} bytes of free disk space, for two checkpoints, got {free:,}")
    last = folder / LAST
    if intact != last:
        unfinished = folder / f"{LAST}{UNFINISHED}"
        shutil.copyfile(intact, unfinished)
        if last.exists():
            os.replace(last, folder / f"{LAST}.damaged")
        os.replace(unfinished, last)
        lines.append(f"replaced {LAST} with {intact.name}")
    return [*lines, f"resuming from {last}"]
