"""``fairseq-linformer report``: the paper's numbers next to ours, on one page."""

import argparse
from pathlib import Path

from .parsers import add_command, add_results

RESULTS, README = Path("results"), Path("README.md")


def add_parser(commands) -> None:
    """Add ``report``."""
    parser = add_command(
        commands,
        "report",
        "write a page of verdicts, tables and charts: the paper's numbers next to ours",
        """report
        report --results mine --out page.html""",
    )
    add_results(parser, None, f" (default: {RESULTS})")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.html",
        help="page to write, with tables in FILE.md and all numbers in FILE.csv (default: report.html in --results)",
    )
    parser.add_argument(
        "--readme",
        type=Path,
        metavar="FILE",
        help=f"README whose report section is replaced (default: {README}; none with --results or --out)",
    )
    parser.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> str:
    from ..reproduction.report.build import write

    results, readme = Path(options.results or RESULTS), options.readme
    if readme is None and options.results is None and options.out is None:
        readme = README
    return "\n".join(map(str, write(results, options.out or results / "report.html", readme)))
