"""Commits of records. Those with uncommitted changes, or no longer in the repository, do not identify the code."""

import re
from collections.abc import Iterable

from ..machine import DIRTY, reachable_commits
from .records import Record

_COMMIT = re.compile(rf"\b([0-9a-f]{{40}})({DIRTY})?\b")


def add_commits(record: Record, commits: Iterable[str]) -> str:
    """The ``commit`` of a record that was also measured at other commits, each once."""
    return "; ".join(dict.fromkeys([*record.commit.split("; "), *commits]))


def describe_commit(record: Record) -> str:
    """Twelve digits of each commit, and what is wrong with it."""
    defects = commit_defects(record)

    def short(match: re.Match) -> str:
        defect = defects.get(match[0])
        return _short(match[0]) + (f" ({defect})" if defect else "")

    return _COMMIT.sub(short, record.commit)


def commit_remarks(record: Record) -> list[str]:
    """A sentence per commit that does not identify the code of a record."""
    found = commit_defects(record).items()
    return [f"{record.identifier} was measured at {_short(commit)}: {defect}" for commit, defect in found]


def commit_defects(record: Record) -> dict[str, str]:
    """What is wrong with each commit that does not identify the code of a record."""
    reachable = reachable_commits()
    found = {}
    for match in _COMMIT.finditer(record.commit):
        if reachable is not None and match[1] not in reachable:
            found[match[0]] = "code not in the repository"
        elif match[2]:
            found[match[0]] = "uncommitted changes"
    return found


def _short(commit: str) -> str:
    return commit[:12] + commit[40:]
