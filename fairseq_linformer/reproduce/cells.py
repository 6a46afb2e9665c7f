"""Names of measurements that say where they are from, so that a report can be made of the ledger alone, and its tables.

A name is ``heads = random; n = 512; k = 128; squared_error``: where, and what at last.
"""

from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from .ledger import Entry, Measurement

Where = Dict[str, str]


def name(what: str, **where: Any) -> str:
    """The name of a measurement.

    Raises:
        ValueError: a part has a semicolon, or what is measured has an equals sign, which would be read as where.
    """
    parts = [f"{key} = {value}" for key, value in where.items()]
    if any(";" in part for part in (*parts, what)) or " = " in what:
        raise ValueError(f"{what!r} at {where} cannot be a name: ';' and, in the last part, ' = ' divide it")
    return "; ".join([*parts, what])


def groups(entry: Entry, *keys: str) -> List[Tuple[Where, Dict[str, Measurement]]]:
    """What was measured in the same place, in the order of the entry, of all places that have just these keys."""
    found: Dict[Tuple[Tuple[str, str], ...], Dict[str, Measurement]] = {}
    for full, measurement in entry.measured.items():
        *parts, what = full.split("; ")
        where = tuple(tuple(part.split(" = ", 1)) for part in parts)
        if {key for key, _ in where} == set(keys):
            found.setdefault(where, {})[what] = measurement
    return [(dict(where), cells) for where, cells in found.items()]


def of_summary(summary: Dict[str, Any], unit: str) -> Optional[Measurement]:
    """What ``analysis.samples.summary`` found; None if there is no value."""
    if summary["value"] is None:
        return None
    value, least, most = (float(f"{summary[key]:.6g}") for key in ("value", "least", "most"))
    return Measurement(value, unit, [least, most] if summary["count"] > 1 else None, summary["count"])


def row(*cells: Any) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def head(*cells: str) -> List[str]:
    return [row(*cells), "|" + "---|" * len(cells)]


def number(measurement: Optional[Measurement], form: str = ".2f") -> str:
    """A cell: nothing where there is no measurement."""
    return "" if measurement is None else format(measurement.value, form)


def spread(measurement: Optional[Measurement], form: str = ".2f") -> str:
    """The same with the lowest and the highest."""
    if measurement is None or measurement.spread is None:
        return number(measurement, form)
    low, high = (format(value, form) for value in measurement.spread)
    return number(measurement, form) + (f" ({low} to {high})" if low != high else "")


def between(values: Iterable[float], form: str = ".2f") -> str:
    """The lowest and the highest, in words."""
    values = list(values)
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def count(held: Sequence[bool]) -> str:
    """``3 of 21``."""
    return f"{sum(held)} of {len(held)}"
