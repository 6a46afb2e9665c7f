"""The checkpoint that a run resumes from: the newest intact one."""

import errno
import os
import shutil
import zipfile
from pathlib import Path

LAST = "checkpoint_last.pt"
UNFINISHED = ".tmp"
"""The end of the names of files that fairseq renames to checkpoints."""


def is_intact(path: Path) -> bool:
    """Whether a checkpoint is complete, and has the content that was written, by the CRCs of its zip entries."""
    try:
        with zipfile.ZipFile(path) as file:
            return bool(file.namelist()) and file.testzip() is None
    except Exception as error:  # damaged archives make zipfile raise almost any error
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # the file system failed, or denied access
        return False


def restore_last(folder: Path) -> list[str]:
    """Replace ``checkpoint_last.pt``, which fairseq resumes from, with the newest intact checkpoint if it is damaged.

    The damaged file is renamed. Unfinished files, of a killed process, are deleted.

    Returns:
        Lines for the log.

    Raises:
        ValueError: there are checkpoints, and all are damaged.
    """
    for unfinished in folder.glob(f"*.pt{UNFINISHED}"):
        unfinished.unlink()
    last = folder / LAST
    paths = sorted(folder.glob("checkpoint*.pt"), key=lambda path: (path != last, -path.stat().st_mtime))
    intact = next(filter(is_intact, paths), None)
    if not paths:
        return ["no checkpoint yet; training starts at update 0"]
    if intact is None:
        raise ValueError(f"all {len(paths)} checkpoints in {folder} are damaged; delete them to start over")
    lines = [f"{path} is damaged" for path in paths[: paths.index(intact)]]
    if intact != last:
        unfinished = folder / f"{LAST}{UNFINISHED}"
        shutil.copyfile(intact, unfinished)
        if last.exists():
            os.replace(last, folder / f"{LAST}.damaged")
        os.replace(unfinished, last)
        lines.append(f"replaced {LAST} with {intact.name}")
    return [*lines, f"resuming from {last}"]
