"""A table: its cells, for the page, the Markdown file and the README."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..records import Measurement

MISSING = "**not measured**"


@dataclass(frozen=True)
class Table:
    """Cells are plain text; ``**loud**`` is bold and `` `code` `` is code, as in Markdown.

    Attributes:
        links: for each row, the identifier in the page that its first cell links to.
        names: identifiers in the page, by (row, column) from 0.

    Raises:
        ValueError: a row and the head differ in length.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    links: list[str] = field(default_factory=list)
    names: dict[tuple[int, int], str] = field(default_factory=dict)

    def __post_init__(self):
        if wrong := [row for row in self.rows if len(row) != len(self.head)]:
            raise ValueError(f"a row has {len(wrong[0])} cells under {len(self.head)} headings: {wrong[0]}")


def spread_cells(m: Measurement | None, digits: int) -> list[str]:
    """Value, interval and repetitions."""
    if m is None:
        return [MISSING, "", ""]
    interval = "" if m.interval is None else f"{m.low:.{digits}f} to {m.high:.{digits}f}"
    return [f"{m.value:.{digits}f}", interval, str(m.repetitions)]


def css_class(cell: str) -> str:
    """The CSS class of a cell: ``number`` (right-aligned), ``long`` or ``some`` (text with a minimum width), or
    empty."""
    if re.match(r"^[-+]?[\d.,]+( ?[%x])?( to [\d.,]+)?$", cell):
        return "number"
    return "long" if len(cell) > 60 else "some" if len(cell) > 12 else ""
