"""The ledger: one JSON file in results/ for each thing that was measured.

An entry carries all that is needed to believe it and to measure it again; one that lacks
something is refused, and one that was changed after it was written. Reports are made from entries alone.
"""

import datetime
import hashlib
import json
import os
import re
import sys
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any, Dict, List, Optional

from ..files import atomic, read_json
from ..machine import current_commit, hardware, provenance, versions

__all__ = ["Entry", "Measurement", "check", "circumstances", "current_commit", "entries", "footer", "hardware", "put", "read", "read_all", "seal_of", "sum_of", "versions", "write"]

SCALES = ("smoke", "cpu", "gpu", "paper")


@dataclass(frozen=True)
class Measurement:
    """One number."""

    value: float
    unit: str
    spread: Optional[List[float]]
    """Lowest and highest of the repetitions; None if there was one."""
    repetitions: int

    def __post_init__(self):
        numbers = [self.value, *(self.spread or [])]
        if not all(_is_number(x) for x in numbers):
            raise ValueError(f"a measurement is {numbers}; it must be finite numbers")
        if not self.unit or not isinstance(self.unit, str):
            raise ValueError(f"the measurement {self.value} has no unit")
        if type(self.repetitions) is not int or self.repetitions < 1 or (self.repetitions > 1) != (self.spread is not None):
            raise ValueError(f"{self.repetitions} repetitions with spread {self.spread}; several have one, one has none")
        if self.spread is not None and not (len(self.spread) == 2 and self.spread[0] <= self.value <= self.spread[1]):
            raise ValueError(f"spread is {self.spread}; it must be the lowest and the highest, with {self.value} between")


@dataclass(frozen=True)
class Entry:
    """What was claimed and what was measured.

    Raises:
        ValueError: a field is empty, or the scale is unknown.
    """

    identifier: str
    """Also the name of the file."""
    claim: str
    """What the numbers are about, in a sentence."""
    paper: Dict[str, Any]
    """``value`` and ``where`` in the paper; the value is None where the paper has none."""
    measured: Dict[str, Measurement]
    scale: str
    hardware: Dict[str, Any]
    versions: Dict[str, str]
    commit: str
    configuration: Dict[str, Any]
    data: str
    command: str
    seconds: float
    date: str
    """Year-month-day."""
    curves: Dict[str, List[List[float]]] = field(default_factory=dict)
    """Name: pairs (update, value). May be empty."""
    seal: str = field(default="", compare=False)
    """``seal_of`` the entry when it was written; empty in one that is not written yet."""

    def __post_init__(self):
        for f in fields(self):
            value, wanted = getattr(self, f.name), {str: str, float: (int, float)}.get(f.type, dict)
            if not isinstance(value, wanted) or isinstance(value, bool):
                raise ValueError(f"the ledger entry {self.identifier!r} has a {f.name} that is a {type(value).__name__}")
            if f.name not in ("curves", "seal") and not value:
                raise ValueError(f"the ledger entry {self.identifier!r} has no {f.name}")
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", self.identifier):
            raise ValueError(f"identifier is {self.identifier!r}; it must be lower-case letters, digits and hyphens")
        if not all(isinstance(m, Measurement) for m in self.measured.values()):
            raise ValueError(f"the ledger entry {self.identifier!r} has something measured that is no Measurement")
        if not self.seconds > 0:
            raise ValueError(f"seconds is {self.seconds}; it must be more than 0")
        if datetime.date.fromisoformat(self.date).isoformat() != self.date:  # whose own ValueError names the date
            raise ValueError(f"date is {self.date}; it must be year-month-day")
        if not isinstance(self.hardware.get("accelerators", []), list):
            raise ValueError(f"accelerators is {self.hardware['accelerators']!r}; it must be a list")
        if set(self.paper) != {"value", "where"} or not self.paper["where"]:
            raise ValueError(f"the ledger entry {self.identifier!r} must say value and where of the paper")
        if self.scale not in SCALES:
            raise ValueError(f"scale is {self.scale!r}; it must be one of {', '.join(SCALES)}")
        for name, curve in self.curves.items():
            if not (isinstance(curve, list) and curve and all(_is_point(point) for point in curve)):
                raise ValueError(f"the curve {name} must be pairs of numbers, and at least one")
        json.dumps(asdict(self), ensure_ascii=False, allow_nan=False).encode()  # its ValueError names what no file can hold


def _is_point(point: Any) -> bool:
    return isinstance(point, (list, tuple)) and len(point) == 2 and all(_is_number(x) for x in point)


def _is_number(x: Any) -> bool:
    """Finite, and one that a float can hold."""
    return isinstance(x, (int, float)) and not isinstance(x, bool) and -sys.float_info.max <= x <= sys.float_info.max


def check(folder) -> None:
    """Before the work: can an entry be written after it?

    Raises:
        ValueError: there is no such folder, a file in it is no entry or was changed, or the code is not in a repository whose commit could be named.
    """
    if not os.access(folder, os.W_OK) or not Path(folder).is_dir():
        raise ValueError(f"--ledger is {folder}; a folder that can be written is wanted")
    entries(folder)
    try:
        current_commit()
    except (OSError, CalledProcessError):
        raise ValueError("--ledger is given, and this package is not in a git repository; an entry names the commit that it was measured with") from None


def write(entry: Entry, folder) -> Path:
    """Write ``FOLDER/IDENTIFIER.json``, whole or not at all; a measurement made anew takes its place. ``put`` overwrites none."""
    path = Path(folder) / f"{entry.identifier}.json"
    with atomic(path) as file:
        file.write(json.dumps(asdict(replace(entry, seal=seal_of(entry))), indent=1) + "\n")
    return path


def put(entry: Entry, folder) -> Path:
    """Write an entry, if there is none of its name that says otherwise.

    Raises:
        ValueError: there is one, and nothing that was measured is overwritten.
    """
    path = Path(folder) / f"{entry.identifier}.json"
    if path.exists():
        there = read(path)
        if (there.measured, there.data, there.configuration) != (entry.measured, entry.data, json.loads(json.dumps(entry.configuration))):
            raise ValueError(f"{path} is of another measurement; nothing is overwritten, give another --ledger or move it away")
        return path
    return write(entry, folder)


def seal_of(entry: Entry) -> str:
    """SHA-256 of all that an entry says, whatever the order of its keys.

    It tells a slip of the hand or of a merge; it is no signature: who wants to can seal anew.
    """
    return sum_of({name: value for name, value in asdict(entry).items() if name != "seal"})


def sum_of(content: Any) -> str:
    """SHA-256 of what a JSON file holds, whatever the order of its keys."""
    content = json.loads(json.dumps(content))  # keys are text now
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read(path) -> Entry:
    """The entry in a file.

    Raises:
        ValueError: the file is no entry, lacks something, or is not what was written.
    """
    try:
        content = read_json(path)
        content["measured"] = {name: Measurement(**m) for name, m in content["measured"].items()}
        entry = Entry(**content)
    except (AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        raise ValueError(f"{path} is no ledger entry: {error}") from None
    if entry.identifier != Path(path).stem:
        raise ValueError(f"{path} is no ledger entry: it calls itself {entry.identifier}")
    if entry.seal != seal_of(entry):
        raise ValueError(f"{path} was changed after it was written: its seal is of other content; take it back from the repository, or measure again")
    return entry


def read_all(folder) -> List[Entry]:
    """Every entry in a folder, by name.

    Raises:
        ValueError: there is no folder, none in it, or one of them is refused.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"{folder} has no ledger entries, for there is no such folder")
    if not (found := entries(folder)):
        raise ValueError(f"{folder} has no ledger entries; what measures writes them there")
    return found


def entries(folder) -> List[Entry]:
    """``read_all``, where there may be none."""
    return [read(path) for path in sorted(Path(folder).glob("*.json"))]


def circumstances(data: str, command: str, scale: str = "cpu") -> Dict[str, Any]:
    """The fields of an entry that are the same for all that one command measures here and today."""
    here = provenance()
    return {"scale": scale, "data": data, "command": command, **{name: here[name] for name in ("hardware", "versions", "date")}}


def footer(entry: Entry) -> str:
    """The circumstances of an entry, for the end of a report."""
    versions = ", ".join(f"{name} {version}" for name, version in entry.versions.items())
    return (f"Command `{entry.command}`; {entry.date}; data: {entry.data}; {entry.hardware['processor']}, "
            f"{entry.hardware['cores']} cores; {versions}.")  # fmt: skip
