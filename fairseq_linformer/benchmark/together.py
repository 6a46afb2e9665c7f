"""Which cells are one entry of the ledger, and what must be the same in all of them.

It is asked before anything is measured, or hours would be spent on a cell that no report takes.
"""

from typing import Any, Dict, Optional, Tuple

VARYING = ("n", "dimensions", "batch", "positions", "classify", "memory", "tokens", "rounds", "warm_up", "lengths")
"""Options in which cells of one entry differ; the others must be the same, but for the models."""
AT_EQUAL_TOKENS = ("scaling",)
"""Kinds whose lengths are compared at one number of tokens."""
BASE_SIZE = {"embed_dim": 768, "k": 256}
"""What an entry does not say in its name, and what claims and promises are about."""
MACHINE = ("hardware", "versions", "threads", "clock")


def kind_of(name: str) -> str:
    """Of a cell: the first word of its name."""
    return name.split("-")[0]


def varying(kind: str) -> Tuple[str, ...]:
    return tuple(name for name in VARYING if not (name == "tokens" and kind in AT_EQUAL_TOKENS))


def difference(a: Dict[str, Any], b: Dict[str, Any]) -> Optional[str]:
    """In what two cells of one entry differ, and must not; None if in nothing."""
    if any(a[key] != b[key] for key in MACHINE):
        return "machine, versions or threads"
    may = ("models", *varying(kind_of(a["name"])))
    names = [name for name in a["configuration"] if name not in may]
    return next((name for name in names if a["configuration"][name] != b["configuration"].get(name)), None)


def check(a: Dict[str, Any], b: Dict[str, Any]) -> None:
    """
    Raises:
        ValueError: two cells are not of one entry.
    """
    if what := difference(a, b):
        raise ValueError(f"{a['name']} and {b['name']} differ in {what}; one folder is for one machine and one set of options")
