"""A checksum next to each checkpoint of a run: ``checkpoint_last.pt.sha256``, in the format of sha256sum.

The bytes are hashed while they are written. A checkpoint has no checksum if an earlier version or plain fairseq wrote
it, or if the process died before writing it. It never has that of its predecessor.
"""

import hashlib
import os
import re
import shutil
from functools import wraps
from pathlib import Path
from typing import IO, Any, cast

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from ..files import open_atomic

SUFFIX = ".sha256"
UNFINISHED = ".tmp"
"""The end of the names of unfinished copies, and of the files that fairseq renames to checkpoints."""
_LINE = re.compile(r"([0-9a-f]{64})  \S")


def checksum_path(checkpoint) -> Path:
    """The file with the checksum of a checkpoint."""
    return Path(f"{checkpoint}{SUFFIX}")


def read_checksum(checkpoint) -> str | None:
    """The recorded SHA-256 of a checkpoint; None if there is none, or its file is damaged."""
    try:
        line = checksum_path(checkpoint).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    found = _LINE.match(line)
    return found[1] if found else None


def replace(source, checkpoint, digest: str | None) -> None:
    """Rename ``source`` to ``checkpoint``, and write its SHA-256, if known.

    Raises:
        OSError: a file cannot be renamed or written.
    """
    checkpoint = Path(checkpoint)
    checksum_path(checkpoint).unlink(missing_ok=True)  # first, or a killed process would leave that of the predecessor
    os.replace(source, checkpoint)
    if digest is not None:
        with open_atomic(checksum_path(checkpoint)) as file:
            file.write(f"{digest}  {checkpoint.name}\n")


def copy(source, checkpoint) -> None:
    """Copy a checkpoint and its checksum; ``checkpoint`` is complete at any time. OSError as ``replace``."""
    temporary = Path(f"{checkpoint}{UNFINISHED}")
    try:
        shutil.copyfile(source, temporary)
        replace(temporary, checkpoint, read_checksum(source))
    finally:
        temporary.unlink(missing_ok=True)


def delete_orphans(folder: Path) -> None:
    """Delete the checksums of checkpoints that were deleted."""
    for path in folder.glob(f"*.pt{SUFFIX}"):
        if not path.with_suffix("").exists():
            path.unlink(missing_ok=True)


class _HashedFile:
    """A file that hashes what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.hash = file, hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data) -> int:
        try:
            self.file.write(data)
            self.hash.update(data)
            return len(data)
        except OSError as error:
            self.error = error  # torch replaces it
            raise

    def flush(self) -> None:
        self.file.flush()


def save_with_retries(state: Any, file) -> str:
    """Write a checkpoint, in place of fairseq's own function.

    A disk can be full for a moment, so there are three attempts. Each starts at the beginning of the file; fairseq
    appends to the failed one.

    Returns:
        Its SHA-256.

    Raises:
        OSError: it cannot be written.
    """
    for attempts_left in (2, 1, 0):
        hashed = _HashedFile(file)
        try:
            file.seek(0)
            file.truncate()
            torch.save(state, cast(IO[bytes], hashed))
            file.flush()
            return hashed.hash.hexdigest()
        except (OSError, RuntimeError) as error:
            if not attempts_left:
                cause = hashed.error or error
                if isinstance(cause, OSError) and cause.filename is None:
                    cause.filename = file.name
                raise cause from None
    raise AssertionError


def patch_saving() -> None:
    """Let fairseq write a checksum next to each checkpoint, copy checkpoints atomically, and delete both together."""
    digests: dict[str, str] = {}
    save_checkpoint = checkpoint_utils.save_checkpoint

    def save_and_remember(state: Any, file) -> None:
        digests[file.name] = save_with_retries(state, file)

    class CheckpointFiles(PathManager):
        """What ``checkpoint_utils`` uses to rename and copy checkpoints."""

        @staticmethod
        def rename(src: str, dst: str) -> None:
            replace(src, dst, digests.pop(src, None))

        @staticmethod
        def copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
            copy(src_path, dst_path)
            return True

    @wraps(save_checkpoint)
    def save_and_delete_orphans(cfg: Any, trainer: Any, *args: Any) -> Any:
        saved = save_checkpoint(cfg, trainer, *args)
        if saved is not None:  # on the rank that saves
            delete_orphans(Path(cfg.save_dir))
        return saved

    checkpoint_utils._torch_persistent_save = save_and_remember
    checkpoint_utils.PathManager = CheckpointFiles
    checkpoint_utils.save_checkpoint = save_and_delete_orphans
