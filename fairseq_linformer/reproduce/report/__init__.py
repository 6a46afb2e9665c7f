"""The report: verdicts, tables and figures of the paper beside ours, made of the ledger alone, so that the same ledger gives the same bytes."""

import glob
import os
import re
from pathlib import Path
from typing import Dict, Iterable, List, Optional

from ...files import atomic, check_can_be_written
from .. import ledger
from ..claims import CLAIMS, Claim
from . import listing
from .drawing import draw
from .text import MADE_BY, markdown, readme
from .page import GENERATOR, html
from .told import Section, sections

PICTURES = ("curves-figure-3a-", "curves-figure-3d-", "cumulative-n", "probability-theorem-1", "table-3-time-chart")
"""Charts that the README shows, the first two that there are."""
_STYLE = "<style>svg{color:#1a1a1a;--grid:#bbb;font-family:sans-serif}@media(prefers-color-scheme:dark){svg{color:#e8e8e8;--grid:#555}}</style>"
"""Of a picture in a file, which has no page to take its colours from."""
_MARKS = {".html": GENERATOR, ".md": MADE_BY, ".csv": ",".join(listing.COLUMNS[:4]), ".svg": "<style>svg{color:"}
"""What stands near the beginning of a file that this wrote, in whatever version."""


def write(results, out, readme_path: Optional[Path] = None, claims: Iterable[Claim] = tuple(CLAIMS.values())) -> List[Path]:
    """Write the page, ``report.md`` and ``report.csv`` beside it, the two pictures of the README, and the README's part.

    Args:
        results: folder of the ledger.
        out: the page.
        readme_path: README with the two marks; left alone if None.

    Raises:
        ValueError: an entry is refused, there is none, the README has no marks, or a file is there that this has not written. Nothing is
            written then.
    """
    out = Path(out)
    if out.suffix != ".html":
        raise ValueError(f"--out is {out}; a file that ends in .html is wanted, for the tables go into one that ends in .md beside it")
    check_can_be_written(out.parent)
    texts = made(results, out, readme_path, claims)
    _check_ours(texts, readme_path)
    stale = _pictures_of_before(out, texts) if readme_path is not None else []
    for path, text in texts.items():
        with atomic(path.resolve()) as file:  # behind a link
            file.write(text)
    for path in stale:
        path.unlink()
    return list(texts)


def _is_ours(path: Path) -> bool:
    return path.is_file() and _MARKS[path.suffix] in path.read_text(encoding="utf-8", errors="replace")[:2000]


def _check_ours(texts: Iterable[Path], readme_path: Optional[Path]) -> None:
    for path in texts:
        if path.exists() and path != readme_path and not _is_ours(path):
            raise ValueError(f"{path} is there and was not written by this command; nothing is overwritten, move it away or give another --out")


def _pictures_of_before(out: Path, texts: Iterable[Path]) -> List[Path]:
    """Pictures that a README showed, of a ledger that has better ones now: called as this makes them, and no others."""
    return [path for prefix in PICTURES for path in out.parent.glob(f"{glob.escape(out.stem)}-{prefix}*.svg") if path not in texts and _is_ours(path)]


def made(results, out: Path, readme_path: Optional[Path] = None, claims: Iterable[Claim] = tuple(CLAIMS.values())) -> Dict[Path, str]:
    """What ``write`` writes, by file."""
    entries = ledger.read_all(results)
    of_claims = sections(entries, claims)
    texts = {out: html(of_claims, entries), out.with_suffix(".md"): markdown(of_claims, out.name), out.with_suffix(".csv"): listing.text(of_claims)}
    if readme_path is not None:
        pictures = _pictures(of_claims)
        files = {out.with_name(f"{out.stem}-{chart.identifier}.svg"): chart for chart in pictures}
        texts |= {path: _standing_alone(draw(chart)) for path, chart in files.items()}
        beside = {path: os.path.relpath(path, readme_path.parent) for path in (*files, out)}
        shown = [(chart.title, beside[path]) for path, chart in files.items()]
        if readme_path in texts:
            raise ValueError(f"--readme is {readme_path}, which the tables of --out {out} go into; one of the two must be another")
        texts[readme_path] = readme(_text_of(readme_path), of_claims, shown, beside[out])
    return texts


def _text_of(path: Path) -> str:
    """With the line ends that it has."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--readme is {path}; it cannot be read as text: {error}") from None


def _pictures(of_claims: List[Section]) -> list:
    charts = [chart for section in of_claims if section.entries for chart in section.charts]
    wanted = [next((chart for chart in charts if chart.identifier.startswith(prefix)), None) for prefix in PICTURES]
    return [chart for chart in wanted if chart is not None][:2]


def _standing_alone(svg: str) -> str:
    return re.sub(r"(<svg[^>]*>)", rf"\1{_STYLE}", svg, count=1)
