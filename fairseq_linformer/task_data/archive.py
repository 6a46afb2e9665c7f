"""What holds for every archive, and for files that are read from it."""

import re
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from typing import Iterable, Iterator


@contextmanager
def unreadable_refused(name) -> Iterator[None]:
    """Reading it in this block, what is damaged or unreadable is a ValueError with a sentence."""
    try:
        yield
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise ValueError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def check_names(path, members: Iterable[str]) -> None:
    """Refuse an archive with a member that would lie outside the folder it is unpacked in.

    Here nothing is unpacked; but such an archive is not the published one, and the next tool may do it.

    Raises:
        ValueError: the name is absolute or goes up.
    """
    for member in members:
        if re.match(r"[/\\]|[A-Za-z]:", member) or ".." in re.split(r"[/\\]", member):
            raise ValueError(f"{path} has a member {member!r}, which points outside the archive; it is refused")
