"""An entry measured again, and compared within the tolerance that it states."""

import math
import re
from pathlib import Path
from typing import List

from . import catalogue, ledger
from .benchmarks import EXPONENT
from .catalogue import Inputs
from .ledger import Entry


def verify(identifier: str, folder, given: Inputs) -> str:
    """
    Args:
        identifier: of an entry in the ledger ``folder``.
        given: its runs are those of what is trained again; where they are finished, their checkpoints are judged again.

    Raises:
        ValueError: there is no such entry, it cannot be measured again here, or a number differs by more than it may.
    """
    if not re.fullmatch(r"[a-z0-9-]+", identifier):
        raise ValueError(f"--verify is {identifier}; the name of an entry is of lower-case letters, digits and hyphens")
    path = Path(folder) / f"{identifier}.json"
    if not path.is_file():
        raise ValueError(f"--verify is {identifier}; there is no entry {path}")
    there = ledger.read(path)
    experiment, tolerance = there.configuration.get("experiment"), there.configuration.get("tolerance")
    if there.scale == "paper":
        raise ValueError(f"{path} is of the paper scale, whose runs are Slurm's; no tolerance is stated, its command is `{there.command}`")
    if experiment is None or tolerance is None:
        raise ValueError(f"{path} was not made by `fairseq-linformer reproduce` and states no tolerance; its command is `{there.command}`")
    how = catalogue.how_again(there, given)
    found = catalogue.measure_again(there, given)
    if isinstance(found, str):
        return found
    again = next((entry for entry in found if entry.identifier == identifier), None)
    if again is None:
        raise ValueError(f"{path}: {experiment} at scale {there.scale} makes no entry of this name any more")
    differing, compared = differences(there, again), sum(m.unit in tolerance for m in there.measured.values())
    if not compared:
        raise ValueError(f"{path} states a tolerance of none of its numbers, so that nothing can be compared; its command is `{there.command}`")
    if differing:
        raise ValueError(f"{path}: {len(differing)} of {compared} numbers differ by more than they may: {'; '.join(differing[:3])}")
    allowed = ", ".join(f"{unit} {_told(unit, share)}" for unit, share in tolerance.items())
    return f"{identifier}, {how}: {compared} of {len(there.measured)} numbers compared, all are within their tolerance ({allowed})"


def differences(there: Entry, again: Entry) -> List[str]:
    """What is not the same, in words; only units that the entry states a tolerance for are compared."""
    found = [f"{name} is measured {'before' if name in there.measured else 'now'} only" for name in sorted({*there.measured} ^ {*again.measured})]
    for name, before in there.measured.items():
        now, share = again.measured.get(name), there.configuration["tolerance"].get(before.unit)
        if now is None or share is None:
            continue
        relative, absolute = (0.0, share) if before.unit == EXPONENT else (share, 1e-12 if share else 0.0)
        if not math.isclose(before.value, now.value, rel_tol=relative, abs_tol=absolute):
            found.append(f"{name} was {before.value:g} and is {now.value:g} {before.unit}, which may differ by {_told(before.unit, share)}")
    return found


def _told(unit: str, share: float) -> str:
    return f"{share:g}" if unit == EXPONENT else f"{100 * share:g} %"
