"""One HTML page that needs nothing but itself: no network, no JavaScript, no other file."""

from collections import Counter
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Iterable, List, Sequence

from ..ledger import Entry
from ..verdict import OUTCOMES, UNMEASURED, Verdict
from . import told
from .drawing import draw
from .figures import Drawn
from .tables import Table, inline
from .told import Judged, Section

GENERATOR = '<meta name="generator" content="fairseq-linformer report, matplotlib '
"""What tells a page of ours, of whatever version."""
TITLE = "Linformer, reproduced: the paper beside what was measured"
_FEW = 4
"""So many numbers of a verdict stand open."""


def html(sections: Sequence[Section], entries: Sequence[Entry]) -> str:
    """The page.

    Args:
        sections: of the claims, in their order.
        entries: all of the ledger, for its list at the end.
    """
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    body = [*_head(sections), *(line for section in sections for line in _section(section)), *_ledger(entries)]
    return "\n".join([
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">', f"<title>{TITLE}</title>",
        '<meta name="viewport" content="width=device-width, initial-scale=1">', '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',  # or a browser asks the server for one
        f'{GENERATOR}{version("matplotlib")}">',
        f"<style>\n{style}</style>", "</head>", "<body>", *body, "</body>", "</html>", "",
    ])  # fmt: skip


def _head(sections: Sequence[Section]) -> List[str]:
    claims = [judged for section in sections for judged in section.claims]
    counts = Counter(verdict.outcome for judged in claims for _, verdict in judged.verdicts)
    counted = "".join(f'<li>{_badge(outcome)} <span class="count">{counts[outcome]}</span></li>' for outcome in OUTCOMES)
    links = [f'<a href="#{section.experiment}">{escape(section.title)}</a>' for section in sections] + ['<a href="#ledger">The ledger</a>']
    return [
        "<header>", "<h1>Linformer, reproduced</h1>",
        '<p class="lead">Every table, figure and theorem of <cite>Linformer: Self-Attention with Linear Complexity</cite> '
        "(Wang et al. 2020, arXiv:2006.04768) beside what this project measured. "
        "A verdict is computed from the numbers by a rule that stands below it; numbers come from the ledger alone.</p>",
        "<p><strong>Read the scale first.</strong> The paper trained base-size models on 64 V100 for 250,000 updates. “cpu” here is two cores, and what is "
        "trained there is of two layers of 128; what is timed or counted there says its own size. What holds at one scale need not hold at the other.</p>",
        f'<ul class="counts" aria-label="verdicts">{counted}</ul>', f"<nav aria-label=\"sections\">{' '.join(links)}</nav>", "</header>", "<main>",
        '<section id="claims">', "<h2>All claims</h2>", told.claims_table(sections).html, "</section>",
    ]  # fmt: skip


def _section(section: Section) -> List[str]:
    lines = [f'<section id="{section.experiment}">', f"<h2>{escape(section.title)}</h2>"]
    lines += [line for judged in section.claims for line in _claim(judged)]
    charts, tables = section.charts, section.tables
    if not section.entries:
        lines.append(f'<p class="loud"><strong>Not measured.</strong> <code>{told.command(section.experiment)}</code> measures it.</p>')
    if section.title.startswith("Figure"):
        lines.append('<p class="where">The paper draws this figure and prints no numbers of it; what it says of them is above.</p>')
    lines += _figures(charts)
    lines += _tables(tables)
    if section.entries:
        lines += ["<h3>Where it is from</h3>", '<ul class="sources">', *(_source(entry) for entry in section.entries), "</ul>"]
    if section.beside:
        lines += ["<details>", "<summary>Earlier measurements of the same thing, of which no verdict is made</summary>",
                  *_figures(section.charts_beside), *(table.html for table in section.tables_beside),
                  '<ul class="sources">', *(_source(entry) for entry in section.beside), "</ul>", "</details>"]  # fmt: skip
    return [*lines, "</section>"]


def _claim(judged: Judged) -> List[str]:
    claim = judged.claim
    lines = [f'<article id="claim-{claim.identifier}">', f"<h3>{inline(claim.says)}</h3>", f'<p class="where">{escape(claim.where)}</p>']
    for scale, verdict in judged.verdicts:
        lines += [f"<p>{_badge(verdict.outcome)}{f' at the scale {scale}' if scale else ''}</p>", *_numbers(verdict)]
    lines.append(f'<p class="rule"><strong>Rule:</strong> {inline(claim.rule)}</p>')
    return [*lines, *(f'<p class="rule">{inline(then)}</p>' for then in judged.rules), "</article>"]


def _numbers(verdict: Verdict) -> List[str]:
    if verdict.outcome == UNMEASURED:
        return []
    items = [f"<li>{inline(number)}</li>" for number in verdict.numbers]
    lines = ['<ul class="numbers">', *items[:_FEW], "</ul>"]
    if more := items[_FEW:]:
        lines += [f"<details><summary>{len(more)} more numbers</summary>", '<ul class="numbers">', *more, "</ul></details>"]
    return lines


def _badge(outcome: str) -> str:
    """A word and a sign, so that colour is not needed."""
    return f'<span class="badge {outcome.replace(" ", "-")}"><span aria-hidden="true">{told.symbol(outcome)}</span> {outcome}</span>'


def _figures(charts: Sequence[Drawn]) -> List[str]:
    lines = ['<div class="figures">'] if charts else []
    for chart in charts:
        note = [f'<p class="where">{inline(chart.note)}</p>'] if chart.note else []
        lines += [f'<figure id="{chart.identifier}">', draw(chart).rstrip(), f"<figcaption>{inline(chart.title)}</figcaption>", *note,
                  "<details><summary>The numbers</summary>", chart.table.html, "</details>", "</figure>"]  # fmt: skip
    return lines + (["</div>"] if charts else [])


def _tables(tables: Sequence[Table]) -> List[str]:
    """The first two stand open."""
    lines = [table.html for table in tables[:2]]
    for table in tables[2:]:
        lines += [f"<details><summary>{inline(table.caption)}</summary>", table.html, "</details>"]
    return lines


def _source(entry: Entry) -> str:
    return (f'<li><a href="#entry-{entry.identifier}">{entry.identifier}</a>: {escape(told.circumstances(entry))}; '
            f"<code>{escape(entry.command)}</code></li>")  # fmt: skip


def _ledger(entries: Iterable[Entry]) -> List[str]:
    lines = ["</main>", '<section id="ledger">', "<h2>The ledger</h2>",
             "<p>Each entry is a JSON file of its name. A seal is the SHA-256 of what the entry said when it was written.</p>"]  # fmt: skip
    for entry in entries:
        facts = {
            "measured": f"{len(entry.measured):,} numbers, {len(entry.curves):,} curves", "scale": entry.scale, "hardware": told.machine(entry),
            "data": entry.data, "commit": entry.commit, "date": entry.date, "time": f"{entry.seconds:,.0f} s",
            "versions": ", ".join(f"{name} {value}" for name, value in entry.versions.items()), "seal": entry.seal[:16],
        }  # fmt: skip
        items = f"<dt>command</dt><dd><code>{escape(entry.command)}</code></dd>" + "".join(f"<dt>{name}</dt><dd>{inline(value)}</dd>" for name, value in facts.items())
        lines += [f'<article class="entry" id="entry-{entry.identifier}">', f"<h3>{entry.identifier}</h3>", f"<p>{inline(entry.claim.rstrip('.'))}.</p>",
                  f"<details><summary>{escape(told.circumstances(entry))}</summary><dl>{items}</dl></details>", "</article>"]  # fmt: skip
    return [*lines, "</section>"]
