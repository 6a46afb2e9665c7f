"""Which cells form one entry of the ledger, and what must be the same in all of them.

This is checked before anything is measured, or hours would be spent on a cell that no report accepts.
"""

import re
from typing import Any, Dict, Sequence

VARYING = ("n", "dimensions", "batch", "positions", "classify", "memory", "tokens", "rounds", "warm_up", "lengths")
"""Options in which cells of one entry differ; the others must be the same, except the models."""
BASE_SIZE = {"embed_dim": 768, "k": 256}
"""Sizes that the name of an entry leaves out; those of the claims."""
MACHINE = ("hardware", "versions", "threads", "clock")


def kind_of(name: str) -> str:
    """The first word of a cell's name."""
    return name.split("-")[0]


def slug(options: Sequence[str]) -> str:
    """Options in a name: ("--optimizer", "fused_adam") is -optimizer-fused-adam, none is nothing."""
    return "".join(f"-{word}" for word in re.findall("[a-z0-9]+", " ".join(options).lower()))


def entry_of(cell: Dict[str, Any]) -> str:
    """The identifier of a cell's entry: kind, device, precision and layers, width and k where they are not
    ``BASE_SIZE``, options of a process, and -bare or -peers."""
    c, name = cell["configuration"], cell["name"]
    differing = [(letter, key) for letter, (key, base) in zip("dk", BASE_SIZE.items()) if c.get(key, base) != base]
    sizes = "".join(f"-{letter}{c[key]}" for letter, key in differing)
    variant = sizes + slug(c.get("options", ())) + "-bare" * ("-bare" in name) + "-peers" * ("-peers" in name)
    return f"benchmark-{kind_of(name)}-{c['device']}-{c['dtype']}-l{c['layers']}{variant}"


def check(a: Dict[str, Any], b: Dict[str, Any]) -> None:
    """
    Raises:
        ValueError: two cells cannot be in one entry.
    """
    varying = {"models", *VARYING}
    if kind_of(a["name"]) == "scaling":  # compares lengths at one number of tokens
        varying.remove("tokens")
    before, now = a["configuration"], b["configuration"]
    differing = [name for name in before if name not in varying and before[name] != now.get(name)]
    if any(a[key] != b[key] for key in MACHINE):
        differing = ["machine, versions or threads"]
    if differing:
        cells = f"{a['name']} and {b['name']}"
        raise ValueError(f"{cells} differ in {differing[0]}; a folder is for one machine and one set of options")
