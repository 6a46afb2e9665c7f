"""The same tables in Markdown: results/report.md, and the part of the README between its two marks."""

import re
from typing import Sequence
from urllib.parse import quote

from ..verdict import UNMEASURED
from . import told
from .told import Section

MADE_BY = "Made by `fairseq-linformer report`"
BEGIN, END = "<!-- report -->", "<!-- /report -->"


def markdown(sections: Sequence[Section], page: str) -> str:
    """All tables.

    Args:
        page: name of the file that the page is in, beside this one.
    """
    lines = ["# The paper beside what was measured", "", MADE_BY + " of the ledger alone; figures and circumstances are in "
             f"[{page}]({quote(page)}). The scale of a verdict stands behind it: \"cpu\" is two cores and small models.",
             "", *told.claims_table(sections).markdown, ""]  # fmt: skip
    for section in sections:
        lines += [f"## {section.title}", ""]
        for judged in section.claims:
            lines += [f"**{judged.claim.says}** {judged.claim.where}.", "", f"Rule: {judged.claim.rule}", "", *(line for then in judged.rules for line in (then, ""))]
            for scale, verdict in judged.verdicts:
                lines += [f"Verdict: **{verdict.outcome}**" + (f" at the scale {scale}." if scale else "."), ""]
                if verdict.outcome != UNMEASURED:
                    lines += [*(f"- {number}" for number in verdict.numbers), ""]
        for table in section.tables:
            lines += [*table.markdown, ""]
        for chart in section.charts:
            lines += [*chart.table.markdown, "", *([chart.note, ""] if chart.note else [])]
        if section.tables_beside:
            lines += ["Earlier measurements of the same thing, of which no verdict is made:", ""]
        for table in section.tables_beside:
            lines += [*table.markdown, ""]
        lines += [f"- `{entry.identifier}`: {told.circumstances(entry)}; {_code(entry.command)}" for entry in (*section.entries, *section.beside)]
        lines += [""] if section.entries or section.beside else []
    return "\n".join(" ".join(line.splitlines()) for line in lines)


def _code(text: str) -> str:
    """In Markdown, whatever ticks are in it."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " * (text[:1] == "`" or text[-1:] == "`")
    return f"{ticks}{space}{text}{space}{ticks}"


def readme(text: str, sections: Sequence[Section], pictures: Sequence[tuple], page: str) -> str:
    """The README with its part made anew.

    Args:
        text: of the README.
        pictures: (what it says, path from the README) of each figure.
        page: path of the page from the README.

    Raises:
        ValueError: the marks are not there, or not in this order.
    """
    before, begin, rest = text.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no {BEGIN} with {END} behind it; the report's main table goes between them")
    lines = [BEGIN, *told.claims_table(sections).markdown, ""]
    lines += [f"![{says}]({quote(path)})" for says, path in pictures]
    lines += [""] if pictures else []
    lines += [f"All of it, with the rules, every table and figure, and where each number is from: [{page}]({quote(page)}).", END]
    return before + "\n".join(lines) + after
