"""Records that were measured again.

RESULTS/IDENTIFIER.json                          the newest
RESULTS/archive/superseded/IDENTIFIER.N.json     the earlier ones, the first with N = 1, with their seals
RUNS/SCALE/replacing/EXPERIMENT.json             while records are measured again: the reason, and their seals
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from ..files import open_atomic, read_json
from . import ledger
from .records import Record, Superseded

FOLDER = Path("archive") / "superseded"
_NAME = re.compile(r"(?P<identifier>[a-z0-9-]+)\.(?P<number>[1-9][0-9]*)")
DERIVED = ("exponent", "exponent_longer_half", "utilization")
"""Metrics of benchmark cells that depend on other cells too, and change as cells are added."""


def read_superseded(results) -> dict[str, list[Record]]:
    """The superseded records of a ledger, by identifier, the oldest first.

    Raises:
        ValueError: a file is rejected, or its name is not IDENTIFIER.N.json with N from 1 without gaps.
    """
    numbered: dict[str, dict[int, Record]] = {}
    for path in sorted((Path(results) / FOLDER).glob("*.json")):
        match = _NAME.fullmatch(path.stem)
        if match is None:
            raise ValueError(f"{path} must be named IDENTIFIER.N.json")
        record = ledger.read(path, match["identifier"])
        numbered.setdefault(record.identifier, {})[int(match["number"])] = record
    for identifier, records in numbered.items():
        if sorted(records) != [*range(1, len(records) + 1)]:
            raise ValueError(
                f"{Path(results) / FOLDER} must have {identifier}.1.json to {identifier}.{len(records)}.json, "
                f"got {', '.join(f'{identifier}.{n}.json' for n in sorted(records))}"
            )
    return {identifier: [records[n] for n in sorted(records)] for identifier, records in numbered.items()}


def supersede(record: Record, reason: str, results) -> Path:
    """Write a record in place of the one with its identifier, which moves to the archive with its seal.

    Nothing is written if the same measurements have replaced another record for this reason already.

    Raises:
        ValueError: there is no such record, it has the same measurements and commit and was not written for this
            reason, or the new one has no clean commit.
    """
    path = Path(results) / f"{record.identifier}.json"
    ledger.check_clean(record)
    if not path.is_file():
        raise ValueError(f"--replace needs an earlier record, but {path} does not exist")
    old = ledger.read(path)
    if (old.measurements, old.commit) == (record.measurements, record.commit):
        if old.supersedes is not None and old.supersedes.reason == reason:  # by another process, or a stopped call
            return path
        raise ValueError(f"{path} has the same measurements of the same commit, {old.commit}: nothing to replace")
    earlier = read_superseded(results).get(record.identifier, [])
    if not earlier or earlier[-1].seal != old.seal:  # else an earlier call was stopped in between
        earlier.append(old)
        with open_atomic(Path(results) / FOLDER / f"{record.identifier}.{len(earlier)}.json", "wb") as file:
            file.write(path.read_bytes())
    replaced = Superseded(name=f"{record.identifier}.{len(earlier)}", seal=old.seal, reason=reason)
    return ledger.write(record.copy_with(supersedes=replaced), results)


def put_cells(record: Record, results, replace: str | None = None) -> Path:
    """Write a record of benchmark cells, or add cells to an existing one.

    Args:
        replace: the reason for measuring existing cells again; the earlier record then moves to the archive.

    Raises:
        ValueError: the commit is not clean; or the existing record was written by another command, has measurements
            that this one lacks, or has other values, without ``replace``.
    """
    path = Path(results) / f"{record.identifier}.json"
    ledger.check_clean(record)
    if not path.exists():
        return ledger.write(record, results)
    stored = ledger.read(path)
    if stored.made_by != record.made_by:
        raise ValueError(
            f"{path} was written by {stored.made_by}, not by {record.made_by}; "
            f"use the folder of its cells, or another --results"
        )
    changed = count_changed(stored, record)
    if not changed:
        return ledger.write(record.copy_with(supersedes=stored.supersedes), results)
    if replace is None:
        raise ValueError(
            f"{path} has {changed} measurements that these cells lack or changed; use the folder of its cells or "
            f"another --results, or pass --replace REASON"
        )
    return supersede(record, replace, results)


def count_changed(stored: Record, record: Record) -> int:
    """How many measurements of a stored record another one lacks or changed, other than ``DERIVED``."""
    new = {m.key: m for m in record.measurements}
    return sum(new.get(m.key) != m for m in stored.measurements if m.metric not in DERIVED)


def check_new(record: Record, reason: str, results, needs: str) -> None:
    """Check, before anything is measured, that existing measurements are not those of the record to replace.

    Args:
        record: built from the measurements that exist; it may have replaced a record for the same reason already.
        needs: what ``--replace`` needs, for the message.

    Raises:
        ValueError: they are.
    """
    path = Path(results) / f"{record.identifier}.json"
    if path.exists():
        stored = ledger.read(path)
        is_resumed = stored.supersedes is not None and stored.supersedes.reason == reason
        if not is_resumed and not count_changed(stored, record):
            raise ValueError(f"--replace needs {needs}, which has the measurements of {path}")


def begin(records: Sequence[Record], finished: Sequence[str], runs: Path | None, experiment: str, reason: str) -> None:
    """Check, before hours of work, that records can be replaced, and mark the folder of runs as measuring them again.

    Only runs that begin after the mark count as measured again; with the mark, rerunning the command resumes.

    Args:
        records: to replace.
        finished: names of the runs that are finished there.
        runs: folder of the runs of a scale; None for an experiment that has none.

    Raises:
        ValueError: there are no records, runs are finished without a mark, or the mark is of other records or of
            another reason.
    """
    if not records:
        raise ValueError(f"--replace needs earlier records of {experiment} at this scale, but there are none")
    if runs is None:
        return
    mark = _mark(runs, experiment)
    if mark.exists():
        stored = read_json(mark)
        marked, expected = stored.get("records", {}), stored.get("reason", reason)
        if expected != reason:
            raise ValueError(
                f"--replace must be {expected!r}, the reason in {mark}, got {reason!r}; or use another --runs"
            )
        seals = {record.identifier: {record.seal} for record in records}
        for record in records:  # a stopped call may have replaced some of them
            if record.supersedes is not None and record.supersedes.reason == reason:
                seals[record.identifier].add(record.supersedes.seal)
        if marked.keys() != seals.keys() or any(marked[name] not in seals[name] for name in marked):
            raise ValueError(f"{mark} is of other records, {', '.join(marked)}; use another --runs")
    elif finished:
        raise ValueError(
            f"--replace measures everything again, but {runs} has finished runs of {experiment}, such as "
            f"{finished[0]}; use another --runs"
        )
    else:
        with open_atomic(mark) as file:
            marked = {record.identifier: record.seal for record in records}
            json.dump({"reason": reason, "records": marked}, file, indent=1)


def end(runs: Path | None, experiment: str) -> None:
    """Remove the mark of ``begin``."""
    if runs is not None:
        _mark(runs, experiment).unlink(missing_ok=True)


def _mark(runs: Path, experiment: str) -> Path:
    return runs / "replacing" / f"{experiment}.json"
