"""The checkpoint that a run goes on from: the last one that is whole.

fairseq writes a checkpoint beside its name and renames it, but ``checkpoint_last.pt`` can be a
copy, written in place: a full disk or a kill leaves it cut off.
"""

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any, List, Optional

import torch

from ..files import beside_name

LAST = "checkpoint_last.pt"


def damage(path: Path) -> Optional[str]:
    """What is wrong with a checkpoint; None if it can be read to its end. It is a zip file with checksums."""
    try:
        with zipfile.ZipFile(path) as file:
            bad = file.testzip()
            if min(entry.header_offset for entry in file.infolist()) != 0:  # which zip allows, and torch does not
                return "there is something before its beginning"
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        return f"it is cut off or damaged: {error}"
    return None if bad is None else f"it is damaged at {bad}"


def save_whole(state: Any, file) -> None:
    """What fairseq calls to write a checkpoint: tried three times, since a disk can be full for a moment, each time from the
    beginning of the file. (fairseq's own goes on behind what it wrote before.)

    Raises:
        OSError, RuntimeError: it could not be written.
    """
    for attempts_left in (2, 1, 0):
        try:
            file.seek(0)
            file.truncate()
            torch.save(state, file)
            return
        except (OSError, RuntimeError):
            if not attempts_left:
                raise


def find_last(folder: Path) -> "tuple[Optional[Path], List[str]]":
    """The newest whole checkpoint of a run, and a line for each newer one that is not.

    Raises:
        ValueError: there are checkpoints, and none is whole.
        OSError: one cannot be read.
    """
    last = folder / LAST
    others = sorted((path for path in folder.glob("checkpoint*.pt") if path != last), key=lambda path: path.stat().st_mtime, reverse=True)
    found = [last] * last.exists() + others
    said = []
    for path in found:
        problem = damage(path)
        if problem is None:
            return path, said
        said.append(f"{path}: {problem}")
    if found:
        raise ValueError(f"none of the {len(found)} checkpoints of {folder} is whole; {said[0]}; remove them to begin anew")
    return None, said


def restore_last(folder: Path) -> List[str]:
    """See to it that ``checkpoint_last.pt``, which fairseq goes on from, is whole.

    One that is not is kept under another name, and a copy of the newest whole one takes its place.

    Returns:
        lines that say what was found and done.

    Raises:
        ValueError, OSError: as ``find_last``; or the disk is full.
    """
    for unfinished in folder.glob("*.pt.tmp"):  # of a process that was killed as it wrote, or whose disk was full
        unfinished.unlink()
    whole, said = find_last(folder)
    if whole is not None and shutil.disk_usage(folder).free < (wanted := 2 * whole.stat().st_size):
        raise ValueError(f"there is no room in {folder} for two more checkpoints; {wanted:,} bytes are wanted")
    if whole is None:
        return ["there is no checkpoint; this is the beginning"]
    last = folder / LAST
    if whole != last:
        beside = beside_name(last)
        try:
            shutil.copyfile(whole, beside)
            if last.exists():
                os.replace(last, folder / f"{LAST}.damaged")
            os.replace(beside, last)
        finally:
            beside.unlink(missing_ok=True)
        said.append(f"{whole.name} takes the place of {LAST}")
    return [*said, f"going on from {last}"]
