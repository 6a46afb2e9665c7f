"""What holds for every archive."""

import re
from typing import Iterable


def check_names(path, members: Iterable[str]) -> None:
    """Refuse an archive with a member that would lie outside the folder it is unpacked in.

    Here nothing is unpacked; but such an archive is not the published one, and the next tool may do it.

    Raises:
        ValueError: the name is absolute or goes up.
    """
    for member in members:
        if re.match(r"[/\\]|[A-Za-z]:", member) or ".." in re.split(r"[/\\]", member):
            raise ValueError(f"{path} has a member {member!r}, which points outside the archive; it is refused")
