"""The checkpoint that a run resumes from: the newest one that is intact.

fairseq writes a checkpoint under another name and renames it, but ``checkpoint_last.pt`` can be a copy that is written
in place: a full disk or a kill truncates it.
"""

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any, List, Optional, Tuple

import torch

from ..files import beside_name

LAST = "checkpoint_last.pt"


def damage(path: Path) -> Optional[str]:
    """How a checkpoint is damaged; None if it is intact. torch writes a zip file with checksums."""
    try:
        with zipfile.ZipFile(path) as file:
            bad = file.testzip()
            if min(entry.header_offset for entry in file.infolist()) != 0:  # zip allows it, torch does not
                return "there is something before its beginning"
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        return f"it is truncated or damaged: {error}"
    return None if bad is None else f"it is damaged at {bad}"


def save_with_retries(state: Any, file) -> None:
    """Replaces fairseq's function that writes a checkpoint. A disk can be full for a moment, so it tries three times,
    each from the beginning of the file, where fairseq's own appends to the failed attempt."""
    for attempts_left in (2, 1, 0):
        try:
            file.seek(0)
            file.truncate()
            torch.save(state, file)
            return
        except (OSError, RuntimeError):
            if not attempts_left:
                raise


def find_last_intact(folder: Path) -> Tuple[Optional[Path], List[str]]:
    """The newest intact checkpoint of a run (None if it has no checkpoint), and a line for each newer, damaged one.

    Raises:
        ValueError: there are checkpoints, and all are damaged.
        OSError: one cannot be read.
    """
    last = folder / LAST
    lines: List[str] = []
    for path in sorted(folder.glob("checkpoint*.pt"), key=lambda path: (path != last, -path.stat().st_mtime)):
        problem = damage(path)
        if problem is None:
            return path, lines
        lines.append(f"{path}: {problem}")
    if lines:
        raise ValueError(f"all {len(lines)} checkpoints of {folder} are damaged; {lines[0]}; remove them to start over")
    return None, lines


def restore_last(folder: Path) -> List[str]:
    """Make sure that ``checkpoint_last.pt``, which fairseq resumes from, is intact.

    A damaged one is kept under another name, and a copy of the newest intact checkpoint replaces it.

    Returns:
        lines that report what was found and done.

    Raises:
        ValueError, OSError: as ``find_last_intact``; or the disk is full.
    """
    for unfinished in folder.glob("*.pt.tmp"):  # a process was killed, or its disk was full, while it wrote
        unfinished.unlink()
    intact, lines = find_last_intact(folder)
    if intact is None:
        return ["there is no checkpoint; training starts at update 0"]
    needed = 2 * intact.stat().st_size
    if shutil.disk_usage(folder).free < needed:
        raise ValueError(f"{folder} has no room for two more checkpoints; they need {needed:,} bytes")
    last = folder / LAST
    if intact != last:
        copy = beside_name(last)
        try:
            shutil.copyfile(intact, copy)
            if last.exists():
                os.replace(last, folder / f"{LAST}.damaged")
            os.replace(copy, last)
        finally:
            copy.unlink(missing_ok=True)
        lines.append(f"{intact.name} replaces {LAST}")
    return [*lines, f"resuming from {last}"]
