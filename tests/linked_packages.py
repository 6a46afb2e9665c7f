"""Environments with some of the packages of this one, and no others."""

from collections.abc import Collection, Iterable, Iterator
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def link_packages(site: Path, requirements: Iterable[str], extra: str = "") -> set[str]:
    """Link what the requirements and those of an extra need, directly and indirectly, into a site folder.

    Packages that this environment lacks are left out. Returns the names of the others.
    """
    installed = {canonicalize_name(each.metadata["Name"]): each for each in distributions()}
    waiting, done = [*_select(requirements, {extra})], set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in installed or (name, *requirement.extras) in done:
            continue
        done.add((name, *requirement.extras))
        waiting += _select(installed[name].requires or (), requirement.extras or {""})
        for top in {file.parts[0] for file in installed[name].files or ()} - {"..", "__pycache__"}:
            target, link = Path(installed[name].locate_file(top)), site / top
            if target.exists() and not link.exists():
                link.symlink_to(target)
    return {name for name, *_ in done}


def _select(requirements: Iterable[str], extras: Collection[str]) -> Iterator[Requirement]:
    """The requirements here and now, also those of the extras."""
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            yield requirement
