"""Measure a record again and compare the numbers within its tolerance."""

import math
import re
from pathlib import Path

from . import ledger
from .experiment import Unfinished
from .inputs import Inputs
from .records import TRAINING, Record
from .registry import find
from .training_options import check_same_training, describe_missing_options

EXPONENT = "exponent of n"
"""The unit whose tolerance is an amount, not a share."""


def verify(identifier: str, folder, inputs: Inputs) -> str:
    """Measure a record again and compare it with the ledger's.

    Args:
        identifier: of a record in the ledger ``folder``.
        inputs: finished runs in its folder are reused and scored again.

    Raises:
        ValueError: there is no such record, it cannot be measured again here, an option of its training or a number
            differs, a number by more than its tolerance.
    """
    if not re.fullmatch(r"[a-z0-9-]+", identifier):
        raise ValueError(
            f"--verify must be a record's identifier of lower-case letters, digits and hyphens, got {identifier}"
        )
    path = Path(folder) / f"{identifier}.json"
    if not path.is_file():
        raise ValueError(f"--verify must be a record's identifier, got {identifier}: {path} does not exist")
    before = ledger.read(path)
    if before.scale == "paper":
        raise ValueError(
            f"{path} cannot be verified: the paper scale is trained through Slurm and has no tolerance; "
            f"its command is `{before.command}`"
        )
    if before.experiment is None or before.made_by != "reproduce" or before.tolerance is None:
        raise ValueError(
            f"{path} cannot be verified: it was not written by `fairseq-linformer reproduce` and has no tolerance; "
            f"its command is `{before.command}`"
        )
    try:
        how, found = find(before.experiment).measure_again(before, inputs)
    except Unfinished as left:
        raise ValueError(f"{identifier} is not verified yet: {left}") from None
    again = next((record for record in found if record.identifier == identifier), None)
    if again is None:
        raise ValueError(f"{path} cannot be verified: {before.experiment} at scale {before.scale} no longer writes it")
    check_same_training(before, again.configuration.get(TRAINING))
    compared = sum(m.unit in before.tolerance for m in before.measurements)
    if not compared:
        raise ValueError(
            f"{path} cannot be verified: none of its numbers has a tolerance; its command is `{before.command}`"
        )
    if differing := differences(before, again):
        raise ValueError(
            f"{path}: {len(differing)} of {compared} numbers differ by more than their tolerance: "
            f"{'; '.join(differing[:3])}"
        )
    allowed = ", ".join(f"{unit} {_tolerance(unit, share)}" for unit, share in before.tolerance.items())
    return (
        f"{identifier}, {how}: {compared} of {len(before.measurements)} numbers compared, "
        f"all are within their tolerance ({allowed}){describe_missing_options(before, again)}"
    )


def differences(before: Record, again: Record) -> list[str]:
    """The differences, in words. Only units with a tolerance are compared."""
    first, second = ({m.key: m for m in record.measurements} for record in (before, again))
    tolerance = before.tolerance or {}
    found = [
        f"{first.get(key) or second[key]} was measured only {'before' if key in first else 'this time'}"
        for key in (*first, *second)
        if (key in first) != (key in second)
    ]
    for key, was in first.items():
        now, share = second.get(key), tolerance.get(was.unit)
        if now is None or share is None:
            continue
        if now.unit != was.unit:
            found.append(f"{was} was in {was.unit} and is in {now.unit}")
            continue
        relative, absolute = (0.0, share) if was.unit == EXPONENT else (share, 1e-12 if share else 0.0)
        if not math.isclose(was.value, now.value, rel_tol=relative, abs_tol=absolute):
            found.append(
                f"{was} was {was.value:g} and is {now.value:g} {was.unit}; "
                f"the tolerance is {_tolerance(was.unit, share)}"
            )
    return found


def _tolerance(unit: str, share: float) -> str:
    return f"{share:g}" if unit == EXPONENT else f"{100 * share:g} %"
