"""A table: in HTML for the page, in Markdown for results/report.md and the README, from the same cells."""

import re
from dataclasses import dataclass, field
from html import escape
from typing import Dict, List, Sequence, Tuple


@dataclass(frozen=True)
class Table:
    """Cells are plain text. ``**loud**`` is bold in both, as in Markdown; `` `code` `` is code in both."""

    head: List[str]
    rows: List[Sequence[str]]
    caption: str = ""
    links: List[str] = field(default_factory=list)
    """For each row, the identifier in the page that its first cell leads to."""
    names: Dict[Tuple[int, int], str] = field(default_factory=dict)
    """Identifier in the page of the cell of a row and a column, counted from 0."""

    def __post_init__(self):
        if wrong := [row for row in self.rows if len(row) != len(self.head)]:
            raise ValueError(f"a row has {len(wrong[0])} cells under {len(self.head)} headings: {wrong[0]}")

    @property
    def html(self) -> str:
        head = "".join(f'<th scope="col"{_class(cell)}>{inline(cell)}</th>' for cell in self.head)
        # Not in <caption>, which is as wide as the table and would scroll out of sight.
        lines = [f'<p class="caption">{inline(self.caption)}</p>'] if self.caption else []
        lines += ['<div class="scroll" tabindex="0">', f'<table aria-label="{escape(self.caption or "table")}">']
        lines += [f"<thead><tr>{head}</tr></thead>", "<tbody>"]
        for i, row in enumerate(self.rows):
            first = inline(row[0])
            if self.links:
                first = f'<a href="#{self.links[i]}">{first}</a>'
            cells = "".join(f"<td{self._name(i, j)}{_class(cell)}>{inline(cell)}</td>" for j, cell in enumerate(row[1:], 1))
            lines.append(f'<tr><th scope="row"{_class(row[0])}>{first}</th>{cells}</tr>')
        return "\n".join([*lines, "</tbody></table></div>"])

    def _name(self, row: int, column: int) -> str:
        return f' id="{name}"' if (name := self.names.get((row, column))) else ""

    @property
    def markdown(self) -> List[str]:
        lines = [self.caption + ":", ""] if self.caption else []
        for cells in (self.head, ["---"] * len(self.head), *self.rows):
            lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
        return lines


def inline(text: str) -> str:
    """Text of an entry or a claim in HTML: nothing in it is markup but bold and code."""
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(text))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def _class(cell: str) -> str:
    """Numbers stand right; a text does not become a column of single words in a wide table."""
    if re.match(r"^[-+]?[\d.,]+( ?[%x])?( to [\d.,]+)?$", cell):
        return ' class="number"'
    return ' class="long"' if len(cell) > 60 else ' class="some"' if len(cell) > 12 else ""
