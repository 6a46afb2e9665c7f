"""Which cells of a folder are compared with each other, and which options they must have in common.

``measure_cells`` checks this first, to spend no time on a cell that cannot be compared.
"""

import re
from collections.abc import Sequence
from typing import Any

CELL_OPTIONS = ("n", "dimensions", "batch", "positions", "classify", "memory", "tokens", "rounds", "warm_up", "lengths")
"""Options, besides ``models``, in which the cells of one group may differ."""
BASE_SIZE = {"embed_dim": 768, "k": 256}
"""Sizes in the paper's claims; the identifier of a group names only other sizes."""
MACHINE = ("hardware", "versions", "threads", "clock")


def cell_kind(name: str) -> str:
    """The first word of a cell's name."""
    return name.split("-")[0]


def options_slug(options: Sequence[str]) -> str:
    """fairseq options as part of a name: ("--optimizer", "fused_adam") becomes -optimizer-fused-adam."""
    return "".join(f"-{word}" for word in re.findall("[a-z0-9]+", " ".join(options).lower()))


def group_id(cell: dict[str, Any]) -> str:
    """The identifier of a cell's group: kind, device, precision and layers; width and k if not ``BASE_SIZE``; fairseq
    options; and -bare or -peers."""
    c, name = cell["configuration"], cell["name"]
    differing = [(letter, key) for letter, (key, base) in zip("dk", BASE_SIZE.items()) if c.get(key, base) != base]
    sizes = "".join(f"-{letter}{c[key]}" for letter, key in differing)
    variant = sizes + options_slug(c.get("options", ())) + "-bare" * ("-bare" in name) + "-peers" * ("-peers" in name)
    return f"benchmark-{cell_kind(name)}-{c['device']}-{c['dtype']}-l{c['layers']}{variant}"


def check_same_group(a: dict[str, Any], b: dict[str, Any]) -> None:
    """Raise ValueError if two cells cannot be in one group."""
    varying = {"models", *CELL_OPTIONS}
    if cell_kind(a["name"]) == "scaling":  # compares lengths at one number of tokens
        varying.remove("tokens")
    options, other_options = a["configuration"], b["configuration"]
    differing = [name for name in options if name not in varying and options[name] != other_options.get(name)]
    if any(a[key] != b[key] for key in MACHINE):
        differing = ["machine, versions or threads"]
    if differing:
        cells = f"{a['name']} and {b['name']}"
        raise ValueError(f"{cells} differ in {differing[0]}; use one folder per machine and set of options")
