"""Write the report: a page, its tables as Markdown, every cell as CSV, and the README's part. The same records give the
same bytes."""

import csv
import glob
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ...files import check_can_be_written, open_atomic
from .. import ledger
from ..experiment import Experiment
from ..registry import experiments
from ..statistics import OUTCOMES, UNMEASURED
from . import sections as content
from .drawing import draw
from .sections import Section, claims_table, readme_table, sections_of
from .tables import css_class

PICTURES = (
    "cost-local-window-",
    "curves-figure-3a-",
    "curves-figure-3d-",
    "cumulative-n",
    "probability-theorem-1",
    "table-3-time-chart",
)
"""Charts for the README, by the beginning of their identifiers: the first two that exist."""
GENERATOR = '<meta name="generator" content="fairseq-linformer report, matplotlib '
MADE_BY = "Made by `fairseq-linformer report`"
BEGIN, END = "<!-- report -->", "<!-- /report -->"
COLUMNS = """
    identifier where paper experiment scale n model ours unit lowest highest repetitions records
""".split()
_MARKS = {".html": GENERATOR, ".md": MADE_BY, ".csv": ",".join(COLUMNS[:4]), ".svg": "<style>svg{color:"}
"""What each file contains near its beginning, in every version of this module."""
_SVG_STYLE = (
    "<style>svg{color:#1a1a1a;--grid:#bbb;font-family:sans-serif}"
    "@media(prefers-color-scheme:dark){svg{color:#e8e8e8;--grid:#555}}</style>"
)
"""Colors of a picture in a file of its own, without a page."""
_SYMBOLS = dict(zip(OUTCOMES, "✓✗~?"))


def write(results, out, readme: Path | None = None, registered: Sequence[Experiment] | None = None) -> list[Path]:
    """Write the page, ``.md`` and ``.csv`` next to it, and the README's part with its two pictures.

    Args:
        results: folder of the ledger.
        out: the page.
        readme: README with the two marks; None for none.
        registered: the experiments; None for the registry's.

    Raises:
        ValueError: a record is rejected, there is none, the README lacks its marks, or a file that this command did not
            write is in the way. Nothing is written then.
    """
    out = Path(out)
    if out.suffix != ".html":
        raise ValueError(f"--out must end in .html (its tables are written to the same name with .md), got {out}")
    check_can_be_written(out.parent)
    texts = build(results, out, readme, registered)
    for path in texts:
        if path.exists() and path != readme and not _is_ours(path):
            raise ValueError(
                f"{path} was not written by this command and is never overwritten; move it away or use another --out"
            )
    stale = _stale_pictures(out, texts) if readme is not None else []
    for path, text in texts.items():
        with open_atomic(path.resolve()) as file:  # behind a link
            file.write(text)
    for path in stale:
        path.unlink()
    return list(texts)


def build(
    results, out: Path, readme: Path | None = None, registered: Sequence[Experiment] | None = None
) -> dict[Path, str]:
    """What ``write`` writes, by file."""
    records = ledger.read_all(results)
    sections = sections_of(records, experiments() if registered is None else registered)
    page = {"sections": sections, "claims": claims_table(sections)}
    texts = {
        out: _render("page.html.j2", **page, records=records, counts=_counts(sections), style=_style()),
        out.with_suffix(".md"): _render("report.md.j2", **page, page=out.name),
        out.with_suffix(".csv"): csv_text(sections),
    }
    if readme is not None:
        charts = [chart for section in sections if section.records for chart in section.charts]
        chosen = [next((chart for chart in charts if chart.identifier.startswith(prefix)), None) for prefix in PICTURES]
        pictures = {
            out.with_name(f"{out.stem}-{chart.identifier}.svg"): chart
            for chart in [c for c in chosen if c is not None][:2]
        }
        texts |= {
            path: re.sub(r"(<svg[^>]*>)", rf"\1{_SVG_STYLE}", draw(chart), count=1) for path, chart in pictures.items()
        }
        if readme in texts:
            raise ValueError(f"--readme must not be a file that --out {out} writes, got {readme}")
        links = [(chart.title, os.path.relpath(path, readme.parent)) for path, chart in pictures.items()]
        claims = readme_table(sections)
        part = _render("readme.md.j2", claims=claims, pictures=links, page=os.path.relpath(out, readme.parent))
        texts[readme] = _replace_part(readme, _read_text(readme), part.rstrip("\n"))
    return texts


def _replace_part(readme: Path, text: str, part: str) -> str:
    begins, ends = (list(re.finditer(rf"^{mark}(?=\r?$)", text, re.MULTILINE)) for mark in (BEGIN, END))
    if len(begins) != 1 or len(ends) != 1 or begins[0].end() > ends[0].start():
        raise ValueError(
            f"{readme} needs one line {BEGIN} and one line {END} after it; the report's main table goes between them"
        )
    return f"{text[: begins[0].end()]}\n{part}\n{text[ends[0].start() :]}"


def _read_text(path: Path) -> str:
    """The text with its line ends.

    Raises:
        ValueError: the file cannot be read as text.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--readme must be a text file, got {path}: {error}") from None


def _is_ours(path: Path) -> bool:
    if not path.is_file():
        return False
    lines, mark = path.read_text(encoding="utf-8", errors="replace")[:2000].splitlines(), _MARKS[path.suffix]
    return any(line.startswith(mark) or (path.suffix == ".svg" and mark in line) for line in lines)


def _stale_pictures(out: Path, texts: Iterable[Path]) -> list[Path]:
    """Pictures of an earlier README that other charts have replaced."""
    patterns = [f"{glob.escape(out.stem)}-{prefix}*.svg" for prefix in PICTURES]
    return [path for pattern in patterns for path in out.parent.glob(pattern) if path not in texts and _is_ours(path)]


# Templates


def _render(template: str, **names) -> str:
    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=template.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "inline": _inline,
        "css": css_class,
        "code": _code,
        "cell": _cell,
        "quote": quote,
        "line": _line,
    }
    environment.globals |= {
        "content": content,
        "symbols": _SYMBOLS,
        "UNMEASURED": UNMEASURED,
        "draw": lambda c: Markup(draw(c).rstrip()),
        "generator": Markup(f'{GENERATOR}{version("matplotlib")}">'),
        "made_by": MADE_BY,
    }
    return environment.get_template(template).render(**names)


def _inline(text: str) -> Markup:
    """The text of a record or claim as HTML; only bold and code are markup."""
    html = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", str(escape(text)))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", html))


def _code(text: str) -> str:
    """Code in Markdown, also with backticks in it."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " * (text[:1] == "`" or text[-1:] == "`")
    return _line(f"{ticks}{space}{text}{space}{ticks}")


def _cell(text: str) -> str:
    return _line(text.replace("|", "\\|"))


def _line(text: str) -> str:
    """A line of Markdown in which a record's text is no HTML and no link; code stays as it is."""
    escaped = {"<": "&lt;", "](": "]\\("}
    return re.sub(
        r"(?P<ticks>`+).*?(?P=ticks)|<(?=[A-Za-z/!?])|\]\(",
        lambda match: escaped.get(match[0], match[0]),
        " ".join(text.splitlines()),
    )


def _style() -> Markup:
    return Markup(Path(__file__).with_name("style.css").read_text(encoding="utf-8"))


def _counts(sections: Sequence[Section]) -> Counter:
    """The number of verdicts by outcome."""
    return Counter(
        at_scale.verdict.outcome for section in sections for each in section.claims for at_scale in each.verdicts
    )


# CSV


def csv_text(sections: Sequence[Section]) -> str:
    """A line per claim and per cell of the paper's tables, for each scale, record and model that something was measured
    with.

    ``paper`` is what is printed, or a claim's statement; ``ours`` the number, or a claim's verdict. Table 1's is the
    exponent of n in the time of a layer; Table 3's how many times faster, or larger the batch.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_claim_lines(sections))
    for section in sections:
        writer.writerows(_cell_lines(section))
    return file.getvalue()


def _claim_lines(sections: Sequence[Section]) -> Iterator[list]:
    for section in sections:
        for each in section.claims:
            claim = each.claim
            for found in each.verdicts:
                yield [
                    claim.identifier,
                    claim.where,
                    claim.statement,
                    section.experiment.name,
                    found.scale,
                    found.n,
                    "",
                    found.verdict.outcome,
                    "",
                    "",
                    "",
                    "",
                    " ".join(found.verdict.records),
                ]


def _cell_lines(section: Section) -> Iterator[list]:
    for cell, results in section.experiment.paper_cells(section.records):
        line = [cell.identifier, cell.where, cell.printed, section.experiment.name]
        for each in results:
            m = each.measured
            interval = ["", ""] if m.interval is None else [f"{end:.4g}" for end in m.interval]
            yield [
                *line,
                each.scale,
                "",
                each.model,
                f"{m.value:.4g}",
                m.unit,
                *interval,
                m.repetitions,
                " ".join(each.records),
            ]
        if not results:
            yield [*line, "", "", "", UNMEASURED, *[""] * 5]
