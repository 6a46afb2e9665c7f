"""Measure a record again, and compare within the tolerance that it states."""

import math
import re
from pathlib import Path

from . import records as ledger
from .records import Record
from .registry import Inputs, Unfinished, find

EXPONENT = "exponent of n"
"""The unit whose tolerance is an amount, not a share."""


def verify(identifier: str, folder, inputs: Inputs) -> str:
    """Measure a record again and compare it with the ledger's.

    Args:
        identifier: of a record in the ledger ``folder``.
        inputs: of what is trained, finished runs are reused, and scored again.

    Raises:
        ValueError: there is no such record, it cannot be measured again here, or a number differs by more than its tolerance.
    """
    if not re.fullmatch(r"[a-z0-9-]+", identifier):
        raise ValueError(f"--verify is {identifier}; a record's identifier has only lower-case letters, digits and hyphens")
    path = Path(folder) / f"{identifier}.json"
    if not path.is_file():
        raise ValueError(f"--verify is {identifier}; there is no record {path}")
    before = ledger.read(path)
    if before.scale == "paper":
        raise ValueError(f"{path} is of the paper scale, which is trained through Slurm, and states no tolerance; its command is `{before.command}`")
    if before.experiment is None or before.made_by != "reproduce" or before.tolerance is None:
        raise ValueError(f"{path} was not made by `fairseq-linformer reproduce` and states no tolerance; its command is `{before.command}`")
    try:
        how, found = find(before.experiment).measure_again(before, inputs)
    except Unfinished as left:
        raise ValueError(f"{identifier} is not verified yet: {left}") from None
    again = next((record for record in found if record.identifier == identifier), None)
    if again is None:
        raise ValueError(f"{path}: {before.experiment} at scale {before.scale} no longer makes this record")
    compared = sum(m.unit in before.tolerance for m in before.measurements)
    if not compared:
        raise ValueError(f"{path} states a tolerance for none of its numbers, so that nothing can be compared; its command is `{before.command}`")
    if differing := differences(before, again):
        raise ValueError(f"{path}: {len(differing)} of {compared} numbers differ by more than their tolerance: {'; '.join(differing[:3])}")
    allowed = ", ".join(f"{unit} {_tolerance(unit, share)}" for unit, share in before.tolerance.items())
    return f"{identifier}, {how}: {compared} of {len(before.measurements)} numbers compared, all are within their tolerance ({allowed})"


def differences(before: Record, again: Record) -> list[str]:
    """What differs, in words. Only units with a tolerance are compared."""
    first, second = ({m.place: m for m in record.measurements} for record in (before, again))
    found = [f"{first.get(place) or second[place]} was measured only {'before' if place in first else 'this time'}"
             for place in (*first, *second) if (place in first) != (place in second)]  # fmt: skip
    for place, was in first.items():
        now, share = second.get(place), before.tolerance.get(was.unit)
        if now is None or share is None:
            continue
        if now.unit != was.unit:
            found.append(f"{was} was in {was.unit} and is in {now.unit}")
            continue
        relative, absolute = (0.0, share) if was.unit == EXPONENT else (share, 1e-12 if share else 0.0)
        if not math.isclose(was.value, now.value, rel_tol=relative, abs_tol=absolute):
            found.append(f"{was} was {was.value:g} and is {now.value:g} {was.unit}; the tolerance is {_tolerance(was.unit, share)}")
    return found


def _tolerance(unit: str, share: float) -> str:
    return f"{share:g}" if unit == EXPONENT else f"{100 * share:g} %"
